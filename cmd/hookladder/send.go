package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/ladder"
)

// sending are the flags of send.
type sending struct {
	id, topic, tenant string
	url, endpoint     string
	orderingKey       string
	body, bodyFile    string
	hasBody           bool // --body was given, if only an empty one
	contentType       string
	delay, ladder     string
	headers           []string
	requireMatch      bool
	asJSON            bool
}

func newSend(s stage) *cobra.Command {
	var to calling
	var f sending
	cmd := &cobra.Command{
		Use:   "send",
		Short: "Publish one message",
		Long: `Publishes one message and prints its id and its deliveries. It goes to the --url or
the --endpoint, or without either to every endpoint of the tenant whose topics
match. The body comes from --body, --body-file or standard input and goes out byte
for byte: JSON as application/json, any other text as text/plain, the rest as
octet-stream.

Give an --id of your own where the call may be repeated: the same id and content
again is answered as a duplicate and delivered once.`,
		Example: `  hookladder send --url https://shop.example/hooks --topic payment.paid --body '{"amount":100}'
  hookladder send --tenant shop_42 --topic payment.paid --body '{"amount":100}'
  hookladder send --endpoint shop-42 --topic payment.paid --ordering-key order_17 --body '{"amount":100}'
  echo '{"amount":100}' | hookladder send --url http://127.0.0.1:9000/ --topic payment.paid --id order_17 --delay 10s`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.hasBody = cmd.Flags().Changed("body")
			m, err := f.message(cmd.InOrStdin())
			if err != nil {
				return err
			}
			c, err := to.client()
			if err != nil {
				return err
			}
			answer, err := c.Publish(cmd.Context(), m)
			if err != nil {
				return err
			}
			if f.asJSON {
				return printJSON(cmd.OutOrStdout(), answer)
			}
			printPublished(cmd.OutOrStdout(), answer)
			return nil
		},
	}
	to.add(cmd, s)
	flags := cmd.Flags()
	flags.StringVar(&f.topic, "topic", "", "what it is about, such as payment.paid (needed)")
	flags.StringVar(&f.url, "url", "", "where it goes")
	flags.StringVar(&f.endpoint, "endpoint", "", "the id or uid of the endpoint it goes to")
	flags.StringVar(&f.id, "id", "", "its id (default: a new one)")
	flags.StringVar(&f.tenant, "tenant", "", "on whose behalf it is sent")
	flags.StringVar(&f.orderingKey, "ordering-key", "", "goes out in order among those with the same key, one at a time")
	flags.StringVar(&f.body, "body", "", "the body")
	flags.StringVar(&f.bodyFile, "body-file", "", "a file that holds the body, - for standard input")
	flags.StringVar(&f.contentType, "content-type", "", "of the body, which then goes out as text")
	flags.StringVar(&f.delay, "delay", "", "until the first attempt, such as 10s or 1d")
	flags.StringVar(&f.ladder, "ladder", "", "the waits between attempts, such as 1s,5s,1m")
	flags.StringArrayVar(&f.headers, "header", nil, "an extra header, \"name: value\"; may be repeated")
	flags.BoolVar(&f.requireMatch, "require-match", false, "fail where no endpoint matches, instead of keeping nothing")
	flags.BoolVar(&f.asJSON, "json", false, "print the answer as JSON")
	return cmd
}

// message is what the flags ask for. What the API checks is left to it.
func (f *sending) message(in io.Reader) (*wire.Message, error) {
	if f.topic == "" {
		return nil, usagef("send needs --topic; see hookladder send --help")
	}
	m := &wire.Message{
		ID: f.id, Topic: f.topic, Tenant: f.tenant, URL: f.url, Endpoint: f.endpoint, OrderingKey: f.orderingKey,
		ContentType: f.contentType, RequireMatch: f.requireMatch,
	}
	body, err := f.read(in)
	if err != nil {
		return nil, err
	}
	switch {
	case json.Valid(body) && f.contentType == "":
		m.Body = body
	case utf8.Valid(body):
		text := string(body)
		m.RawBody = &text
	default:
		m.RawBodyBase64 = body
	}
	if f.delay != "" {
		delay, err := ladder.ParseDuration(f.delay)
		if err != nil {
			return nil, usagef("--delay: %w", err)
		}
		m.Delay = wire.Duration(delay)
	}
	if f.ladder != "" {
		l, err := ladder.Parse(f.ladder)
		if err != nil {
			return nil, usagef("--ladder: %w", err)
		}
		m.Ladder = &l
	}
	for _, h := range f.headers {
		name, value, ok := strings.Cut(h, ":")
		if !ok {
			return nil, usagef("--header %q: must be as in \"name: value\"", h)
		}
		if m.Headers == nil {
			m.Headers = map[string]string{}
		}
		m.Headers[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	return m, nil
}

// read finds the body.
func (f *sending) read(in io.Reader) ([]byte, error) {
	switch {
	case f.hasBody && f.bodyFile != "":
		return nil, usagef("give --body or --body-file, not both")
	case f.hasBody:
		return []byte(f.body), nil
	case f.bodyFile != "" && f.bodyFile != "-":
		body, err := os.ReadFile(f.bodyFile)
		if err != nil {
			return nil, usagef("--body-file: %w", err)
		}
		return body, nil
	case f.bodyFile == "" && onTerminal(in):
		return nil, usagef("send needs a body: --body, --body-file or standard input")
	}
	body, err := io.ReadAll(in)
	if err != nil {
		return nil, fmt.Errorf("read the body: %w", err)
	}
	return body, nil
}

func printPublished(out io.Writer, p wire.Published) {
	kind := "accepted"
	if p.Duplicate {
		kind = "duplicate, accepted before"
	}
	if p.Matched == 0 && !p.Duplicate {
		fmt.Fprintf(out, "%s matches no endpoint, so nothing is kept\n", p.ID)
		return
	}
	fmt.Fprintf(out, "%s %s at %s\n", p.ID, kind, when(p.CreatedAt))
	for _, d := range p.Deliveries {
		next := ""
		later := d.Status == "scheduled" || d.Status == "retrying"
		if later && !d.NextAttemptAt.IsZero() {
			next = ", next attempt " + when(d.NextAttemptAt)
		}
		fmt.Fprintf(out, "  %s  %s%s\n", d.ID, d.Status, next)
	}
}

// onTerminal reports whether a person sits at the other end.
func onTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	if !ok {
		return false
	}
	stat, err := file.Stat()
	return err == nil && stat.Mode()&os.ModeCharDevice != 0
}

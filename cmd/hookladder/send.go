package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

// sendFlags are the flags of send.
type sendFlags struct {
	id, topic, tenant string
	url, endpoint     string
	orderingKey       string
	body, bodyFile    string
	hasBody           bool // --body was given, if only an empty one
	raw               bool // the body is text, though it may be JSON
	contentType       string
	delay, deliverAt  string
	expiresAt         string
	ladder            string
	maxAttempts       int
	timeout, success  string
	headers           []string
	requireMatch      bool
	asJSON            bool
}

func newSend(s stage) *cobra.Command {
	var to clientFlags
	var f sendFlags
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
  echo '{"amount":100}' | hookladder send --url http://127.0.0.1:9000/ --topic payment.paid --id order_17 --delay 10s
  hookladder send --url https://shop.example/hooks --topic bill.due --body-file bill.xml --content-type application/xml \
    --deliver-at 2027-01-31T09:00:00+01:00 --success '{"status":["*"],"body":"success"}'`,
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
	f.add(cmd)
	return cmd
}

// message is what the flags ask for. What the API checks is left to it.
func (f *sendFlags) message(in io.Reader) (*wire.Message, error) {
	if f.topic == "" {
		return nil, usagef("send needs --topic; see hookladder send --help")
	}
	m := &wire.Message{
		ID: f.id, Topic: f.topic, Tenant: f.tenant, URL: f.url, Endpoint: f.endpoint, OrderingKey: f.orderingKey,
		ContentType: f.contentType, MaxAttempts: f.maxAttempts, RequireMatch: f.requireMatch,
	}
	body, err := f.read(in)
	if err != nil {
		return nil, err
	}
	switch {
	case json.Valid(body) && f.contentType == "" && !f.raw:
		m.Body = body
	case utf8.Valid(body):
		text := string(body)
		m.RawBody = &text
	default:
		m.RawBodyBase64 = body
	}
	return m, f.describe(m)
}

// read finds the body.
func (f *sendFlags) read(in io.Reader) ([]byte, error) {
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
	case f.bodyFile == "" && (onTerminal(in) || isNull(in)):
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
	return err == nil && stat.Mode()&os.ModeCharDevice != 0 && !isNull(stream)
}

// isNull reports whether a stream is the null device: services and cron give
// that to their commands, so no person is asked there, and nothing is read.
func isNull(stream any) bool {
	file, ok := stream.(*os.File)
	if !ok {
		return false
	}
	stat, err := file.Stat()
	null, nullErr := os.Stat(os.DevNull)
	return err == nil && nullErr == nil && os.SameFile(stat, null)
}

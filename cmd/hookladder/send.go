package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/success"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/ladder"
)

// sendFlags are the flags of send.
type sendFlags struct {
	id, topic, tenant, subject string
	url, endpoint, queue       string
	orderingKey                string
	body, bodyFile             string
	hasBody                    bool // --body was passed; it may be empty
	raw                        bool // the body is text, even if it is JSON
	contentType                string
	delay, deliverAt           string
	expiresAt                  string
	ladder                     string
	maxAttempts                int
	timeout, success           string
	headers                    []string
	requireMatch               bool
	sample                     sampleFlags
}

// sampleFlags select a message of a file of samples, and change it.
type sampleFlags struct {
	name, file string
	sets       []string
	count      int
}

// mostSamples limits the messages of one call, because a typing mistake must not start a load
// test.
const mostSamples = 1000

func newSend(s world) *cobra.Command {
	var f sendFlags
	var to clientFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "send",
		Short: "Publish one message, or samples of a file",
		Long: `Publishes one message, and prints its id and its deliveries. It goes to the --url, the
--endpoint or the --queue, or without these to every endpoint of the tenant whose topics
match. The body comes from --body, --body-file or standard input, and is sent byte for
byte: JSON as application/json, other text as text/plain, the rest as octet-stream. A
body that begins like JSON but is not JSON needs --raw or --content-type.

Pass your own --id if you may repeat the call: a repeat with the same id and content is
a duplicate, and is delivered once. If there is no response, the error has the id for
the repeat.

With --sample it publishes a message of a file, to try a receiver with the messages of
your own program. The file is hookladder.samples.json in the working folder. Keep it with
your code. It is a JSON object of messages by name:

  {"payment.paid": {"subject": "order_17", "body": {"id": "{{id}}", "at": "{{now}}", "amount": 1999}}}

A message has the fields of the API, but no id: each published message gets a new one.
The default of its topic is the sample's name. In every text {{id}} is replaced with the
message's id, and {{now}} with the time. --set changes the body: the path has names, or
numbers of a list, with dots between. The value is JSON, or text if it is not valid JSON.
The other flags replace fields of the sample.`,
		Example: `  hookladder send --url https://shop.example/hooks --topic payment.paid --body '{"amount":100}'
  hookladder send --tenant shop_42 --topic payment.paid --body '{"amount":100}'
  hookladder send --queue order_cancel --topic order.unpaid --delay 30m --body '{"order":17}'
  hookladder send --endpoint shop-42 --topic payment.paid --ordering-key order_17 --body '{"amount":100}'
  echo '{"amount":100}' | hookladder send --url http://127.0.0.1:9000/ --topic payment.paid --id order_17 --delay 10s
  hookladder send --url https://shop.example/hooks --topic bill.due --body-file bill.xml --content-type application/xml \
    --deliver-at 2027-01-31T09:00:00+01:00 --success '{"status":["*"],"body":"success"}'
  hookladder send --sample payment.paid --url http://127.0.0.1:3000/hooks --set data.amount=250 --count 3`,
		Args: func(cmd *cobra.Command, args []string) error {
			return errors.Join(noArgs(cmd, args), f.check(cmd))
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := to.client()
			if err != nil {
				return err
			}
			f.hasBody = cmd.Flags().Changed("body")
			for n := range f.sample.count {
				err := f.publish(cmd, c, asJSON)
				if err != nil && f.sample.count > 1 {
					err = fmt.Errorf("message %d of %d: %w", n+1, f.sample.count, err)
				}
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
	to.add(cmd, s)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the answer as JSON")
	f.add(cmd)
	return cmd
}

// check checks the flags for samples.
func (f *sendFlags) check(cmd *cobra.Command) error {
	flags := cmd.Flags()
	switch {
	case f.sample.name == "" && (flags.Changed("samples") || flags.Changed("set") || flags.Changed("count")):
		return usagef("--samples, --set and --count need --sample")
	case f.sample.count < 1 || f.sample.count > mostSamples:
		return usagef("--count must be 1 to %d", mostSamples)
	case f.sample.count > 1 && f.id != "":
		return usagef("--count publishes several messages, and --id is the id of one")
	case f.sample.name != "" && (flags.Changed("body") || f.bodyFile != ""):
		return usagef("--sample has a body: change it with --set, or leave --sample out")
	}
	return nil
}

// publish publishes one message, and prints the answer.
func (f *sendFlags) publish(cmd *cobra.Command, c *client.Client, asJSON bool) error {
	m, err := f.message(cmd.InOrStdin())
	if err != nil {
		return err
	}
	p, err := c.Publish(cmd.Context(), m)
	switch {
	case p.ID != "" && unsure(err) && f.sample.name != "":
		return fmt.Errorf("%w\nhookladder get %s shows whether it was accepted", err, p.ID)
	case p.ID != "" && unsure(err):
		return fmt.Errorf("%w\nif it was accepted, a repeat with --id %s is a duplicate", err, p.ID)
	case err != nil:
		return err
	}
	return apiCall[wire.Published]{text: printPublished}.show(cmd.OutOrStdout(), p, asJSON)
}

// unsure reports whether a message may have been accepted although the call failed.
func unsure(err error) bool {
	var answered *client.Problem
	return err != nil && (!errors.As(err, &answered) || answered.Status >= 500)
}

// add adds the flags of send: one for each field of a message.
func (f *sendFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.topic, "topic", "", "the message's topic, such as payment.paid (required)")
	flags.StringVar(&f.url, "url", "", "the URL it is sent to")
	flags.StringVar(&f.endpoint, "endpoint", "", "the id or uid of the endpoint it is sent to")
	flags.StringVar(&f.queue, "queue", "", "the queue of the message")
	flags.StringVar(&f.id, "id", "", "its id (default: a new one)")
	flags.StringVar(&f.tenant, "tenant", "", "the tenant it belongs to")
	flags.StringVar(&f.subject, "subject", "", "your own reference, such as an order number")
	flags.StringVar(&f.orderingKey, "ordering-key", "", "messages with the same key are delivered in order, one at a time")
	flags.StringVar(&f.body, "body", "", "the body")
	flags.StringVar(&f.bodyFile, "body-file", "", "a file with the body, - for standard input")
	flags.BoolVar(&f.raw, "raw", false, "send the body as text, even if it is JSON")
	flags.StringVar(&f.contentType, "content-type", "", "the body's content type; the body is then sent as text")
	flags.StringVar(&f.delay, "delay", "", "the delay of the first attempt, such as 10s or 1d")
	flags.StringVar(&f.deliverAt, "deliver-at", "", "the time of the first attempt, such as 2027-01-31T09:00:00+01:00")
	flags.StringVar(&f.expiresAt, "expires-at", "", "no attempt is made after this time, which has the same form")
	flags.StringVar(&f.ladder, "ladder", "", "the waits between attempts, such as 1s,5s,1m")
	flags.IntVar(&f.maxAttempts, "max-attempts", 0, "the most attempts (default: all of the ladder)")
	flags.StringVar(&f.timeout, "timeout", "", "the time limit of one attempt, 1s to 60s; for a queue up to 1h")
	flags.StringVar(&f.success, "success", "", "the responses that count as success: statuses such as 2xx,404, or a success rule as JSON")
	flags.StringArrayVar(&f.headers, "header", nil, "an additional header, \"name: value\"; may be repeated")
	flags.BoolVar(&f.requireMatch, "require-match", false, "fail if no endpoint matches; without it such a message is not kept, and that is no error")
	flags.StringVar(&f.sample.name, "sample", "", "publish this message of the file of samples")
	flags.StringVar(&f.sample.file, "samples", samplesFile, "the file of samples")
	flags.StringArrayVar(&f.sample.sets, "set", nil, "with --sample: change a field of the body, path=value; may be repeated")
	flags.IntVarP(&f.sample.count, "count", "n", 1, fmt.Sprintf("with --sample: how many messages to publish, each with its own id, up to %d", mostSamples))
	register(cmd, "samples", oneOfFiles)
	register(cmd, "sample", func(_ *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
		known, err := readSamples(f.sample.file)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return oneOf(known.names...)(nil, nil, word)
	})
}

// message returns the message of the flags. The API checks it.
func (f *sendFlags) message(in io.Reader) (m *wire.Message, err error) {
	switch {
	case f.sample.name != "":
		known, err := readSamples(f.sample.file)
		if err != nil {
			return nil, usageError{err}
		}
		if m, err = known.message(f.sample.name, f.id, f.sample.sets); err != nil {
			return nil, usageError{err}
		}
	case f.topic == "":
		return nil, usagef("send needs --topic; see hookladder send --help")
	default:
		if m, err = f.withBody(in); err != nil {
			return nil, err
		}
	}
	return m, f.describe(m)
}

// withBody returns a message with the id and the body of the flags.
func (f *sendFlags) withBody(in io.Reader) (*wire.Message, error) {
	m := &wire.Message{ID: f.id}
	body, err := f.read(in)
	if err != nil {
		return nil, err
	}
	isJSON := json.Valid(body)
	switch {
	case !isJSON && f.contentType == "" && !f.raw && looksLikeJSON(body):
		return nil, usagef("%s begins like JSON, but it is not JSON (%w): correct it, or pass --raw to send it as text", f.bodyFlag(), syntaxError(body))
	case isJSON && f.contentType == "" && !f.raw:
		m.Body = body
	case utf8.Valid(body):
		text := string(body)
		m.RawBody = &text
	default:
		m.RawBodyBase64 = body
	}
	return m, nil
}

// looksLikeJSON reports whether a person probably meant the body as JSON.
func looksLikeJSON(body []byte) bool {
	text := bytes.TrimSpace(body)
	return len(text) > 0 && (text[0] == '{' || text[0] == '[')
}

// syntaxError returns the first mistake of a text that is not JSON.
func syntaxError(text []byte) error {
	var any json.RawMessage
	return json.Unmarshal(text, &any)
}

// bodyFlag returns the source of the body.
func (f *sendFlags) bodyFlag() string {
	switch {
	case f.hasBody:
		return "--body"
	case f.bodyFile != "" && f.bodyFile != "-":
		return "--body-file"
	}
	return "standard input"
}

// read returns the body.
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
	case f.bodyFile == "" && (isTerminal(in) || isNull(in)):
		return nil, usagef("send needs a body: --body, --body-file or standard input")
	}
	body, err := io.ReadAll(in)
	if err != nil {
		return nil, fmt.Errorf("read the body: %w", err)
	}
	return body, nil
}

// describe sets the fields of a message except its id and body. A flag that is not set leaves the
// field of a sample.
func (f *sendFlags) describe(m *wire.Message) error {
	if f.url != "" || f.endpoint != "" || f.queue != "" {
		m.URL, m.Endpoint, m.Queue = f.url, f.endpoint, f.queue
	}
	if f.delay != "" || f.deliverAt != "" {
		m.Delay, m.DeliverAt = 0, wire.Time{}
	}
	m.Topic, m.Tenant, m.Subject = cmp.Or(f.topic, m.Topic), cmp.Or(f.tenant, m.Tenant), cmp.Or(f.subject, m.Subject)
	m.OrderingKey, m.ContentType = cmp.Or(f.orderingKey, m.OrderingKey), cmp.Or(f.contentType, m.ContentType)
	m.MaxAttempts = cmp.Or(f.maxAttempts, m.MaxAttempts)
	if m.RequireMatch == nil || f.requireMatch {
		m.RequireMatch = &f.requireMatch
	}
	for _, d := range []struct {
		flag, text string
		to         *wire.Duration
	}{{"delay", f.delay, &m.Delay}, {"timeout", f.timeout, &m.Timeout}} {
		if d.text == "" {
			continue
		}
		span, err := ladder.ParseDuration(d.text)
		if err != nil {
			return usagef("--%s: %w", d.flag, err)
		}
		*d.to = wire.Duration(span)
	}
	for _, at := range []struct {
		flag, text string
		to         *wire.Time
	}{{"deliver-at", f.deliverAt, &m.DeliverAt}, {"expires-at", f.expiresAt, &m.ExpiresAt}} {
		if at.text == "" {
			continue
		}
		t, err := time.Parse(time.RFC3339, at.text)
		if err != nil {
			return usagef("--%s %q: must be a time such as 2027-01-31T09:00:00+01:00", at.flag, at.text)
		}
		at.to.Time = t
	}
	if f.ladder != "" {
		l, err := ladder.Parse(f.ladder)
		if err != nil {
			return usagef("--ladder: %w", err)
		}
		m.Ladder = &l
	}
	if f.success != "" {
		var err error
		if m.Success, err = f.answer(); err != nil {
			return err
		}
	}
	for _, h := range f.headers {
		name, value, err := headerFlag(h)
		if err != nil {
			return err
		}
		if m.Headers == nil {
			m.Headers = map[string]string{}
		}
		m.Headers[name] = value
	}
	return nil
}

// headerFlag returns the name and the value of a header in a flag.
func headerFlag(text string) (name, value string, err error) {
	name, value, ok := strings.Cut(text, ":")
	name, value = strings.TrimSpace(name), strings.TrimSpace(value)
	if !ok || name == "" {
		return "", "", usagef("--header %q: must be as in \"name: value\"", text)
	}
	return name, value, nil
}

// answer returns the rule of --success.
func (f *sendFlags) answer() (*wire.Success, error) {
	field, err := successField(f.success)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(field)
	if err != nil {
		return nil, err
	}
	var s wire.Success
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, usagef("--success %q: %w", f.success, err)
	}
	return &s, nil
}

// successField returns --success as a field of the API: JSON, or a list of statuses.
func successField(text string) (any, error) {
	if _, err := success.Parse(text); err != nil {
		return nil, usagef("--success %q: %w", text, err)
	}
	if strings.HasPrefix(strings.TrimSpace(text), "{") {
		return json.RawMessage(text), nil
	}
	var status []string
	for one := range strings.SplitSeq(text, ",") {
		status = append(status, strings.TrimSpace(one))
	}
	return map[string]any{"status": status}, nil
}

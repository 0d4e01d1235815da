package main

import (
	"bytes"
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
}

func newSend(s world) *cobra.Command {
	var f sendFlags
	cmd := apiCall[wire.Published]{
		do: func(cmd *cobra.Command, c *client.Client, _ []string) (wire.Published, error) {
			f.hasBody = cmd.Flags().Changed("body")
			m, err := f.message(cmd.InOrStdin())
			if err != nil {
				return wire.Published{}, err
			}
			p, err := c.Publish(cmd.Context(), m)
			if p.ID != "" && unsure(err) {
				err = fmt.Errorf("%w\nif it was accepted, a repeat with --id %s is a duplicate", err, p.ID)
			}
			return p, err
		},
		text: printPublished,
	}.on(&cobra.Command{
		Use:   "send",
		Short: "Publish one message",
		Long: `Publishes one message, and prints its id and its deliveries. It goes to the --url, the
--endpoint or the --queue, or without these to every endpoint of the tenant whose topics
match. The body comes from --body, --body-file or standard input, and is sent byte for
byte: JSON as application/json, other text as text/plain, the rest as octet-stream. A
body that begins like JSON but is not JSON needs --raw or --content-type.

Pass your own --id if you may repeat the call: a repeat with the same id and content is
a duplicate, and is delivered once. If there is no response, the error has the id for
the repeat.`,
		Example: `  hookladder send --url https://shop.example/hooks --topic payment.paid --body '{"amount":100}'
  hookladder send --tenant shop_42 --topic payment.paid --body '{"amount":100}'
  hookladder send --queue order_cancel --topic order.unpaid --delay 30m --body '{"order":17}'
  hookladder send --endpoint shop-42 --topic payment.paid --ordering-key order_17 --body '{"amount":100}'
  echo '{"amount":100}' | hookladder send --url http://127.0.0.1:9000/ --topic payment.paid --id order_17 --delay 10s
  hookladder send --url https://shop.example/hooks --topic bill.due --body-file bill.xml --content-type application/xml \
    --deliver-at 2027-01-31T09:00:00+01:00 --success '{"status":["*"],"body":"success"}'`,
		Args: noArgs,
	}, s)
	f.add(cmd)
	return cmd
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
	flags.IntVar(&f.maxAttempts, "max-attempts", 0, "the most attempts (default: all rungs of the ladder)")
	flags.StringVar(&f.timeout, "timeout", "", "the time limit of one attempt, 1s to 60s; for a queue up to 1h")
	flags.StringVar(&f.success, "success", "", "the responses that count as success: statuses such as 2xx,404, or a success rule as JSON")
	flags.StringArrayVar(&f.headers, "header", nil, "an additional header, \"name: value\"; may be repeated")
	flags.BoolVar(&f.requireMatch, "require-match", false, "fail if no endpoint matches; without it such a message is not kept, and that is no error")
}

// message returns the message of the flags. The API checks it.
func (f *sendFlags) message(in io.Reader) (*wire.Message, error) {
	if f.topic == "" {
		return nil, usagef("send needs --topic; see hookladder send --help")
	}
	m := &wire.Message{
		ID: f.id, Topic: f.topic, Tenant: f.tenant, Subject: f.subject, URL: f.url, Endpoint: f.endpoint, Queue: f.queue, OrderingKey: f.orderingKey,
		ContentType: f.contentType, MaxAttempts: f.maxAttempts, RequireMatch: f.requireMatch,
	}
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
	return m, f.describe(m)
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

// describe sets the fields of a message except its body.
func (f *sendFlags) describe(m *wire.Message) error {
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
		name, value, ok := strings.Cut(h, ":")
		if !ok {
			return usagef("--header %q: must be as in \"name: value\"", h)
		}
		if m.Headers == nil {
			m.Headers = map[string]string{}
		}
		m.Headers[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	return nil
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

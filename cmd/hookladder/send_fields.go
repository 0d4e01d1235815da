package main

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/ladder"
)

// add gives send its flags: one for each field of a message.
func (f *sendFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.topic, "topic", "", "what it is about, such as payment.paid (needed)")
	flags.StringVar(&f.url, "url", "", "where it goes")
	flags.StringVar(&f.endpoint, "endpoint", "", "the id or uid of the endpoint it goes to")
	flags.StringVar(&f.id, "id", "", "its id (default: a new one)")
	flags.StringVar(&f.tenant, "tenant", "", "on whose behalf it is sent")
	flags.StringVar(&f.orderingKey, "ordering-key", "", "goes out in order among those with the same key, one at a time")
	flags.StringVar(&f.body, "body", "", "the body")
	flags.StringVar(&f.bodyFile, "body-file", "", "a file that holds the body, - for standard input")
	flags.BoolVar(&f.raw, "raw", false, "the body is text, though it may be JSON")
	flags.StringVar(&f.contentType, "content-type", "", "of the body, which then goes out as text")
	flags.StringVar(&f.delay, "delay", "", "until the first attempt, such as 10s or 1d")
	flags.StringVar(&f.deliverAt, "deliver-at", "", "when the first attempt is made, such as 2027-01-31T09:00:00+01:00")
	flags.StringVar(&f.expiresAt, "expires-at", "", "when it is no longer attempted, written in the same way")
	flags.StringVar(&f.ladder, "ladder", "", "the waits between attempts, such as 1s,5s,1m")
	flags.IntVar(&f.maxAttempts, "max-attempts", 0, "cuts the ladder (default: all of its rungs)")
	flags.StringVar(&f.timeout, "timeout", "", "of one attempt, 1s to 60s")
	flags.StringVar(&f.success, "success", "", "what the receiver must answer: statuses such as 2xx,404 or a success as JSON")
	flags.StringArrayVar(&f.headers, "header", nil, "an extra header, \"name: value\"; may be repeated")
	flags.BoolVar(&f.requireMatch, "require-match", false, "fail where no endpoint matches, instead of keeping nothing")
	flags.BoolVar(&f.asJSON, "json", false, "print the answer as JSON")
}

// describe puts what the flags say into a message, but its body.
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
	var err error
	if m.Success, err = f.answer(); err != nil {
		return err
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

// answer is what --success asks for; nil: nothing.
func (f *sendFlags) answer() (*wire.Success, error) {
	if f.success == "" {
		return nil, nil
	}
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

// successField is what --success means: JSON as it is, or a list of statuses.
func successField(text string) (any, error) {
	if _, err := dispatcher.ParseSuccess(text); err != nil {
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

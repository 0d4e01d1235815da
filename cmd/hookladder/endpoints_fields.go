package main

import (
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hookladder/hookladder/ladder"
)

// endpointFlags are the flags that create and update have in common: what may be
// said of an endpoint.
type endpointFlags struct {
	texts             map[string]*string // by the flag's name
	topics            []string
	headers, metadata []string
	maxInFlight       int
	ordered, disabled bool
}

// endpointTexts are the flags whose text is the field's.
var endpointTexts = [][2]string{
	{"url", "where it is called"},
	{"description", "a sentence for people"},
	{"signature", "how it is signed: " + strings.Join(schemeNames(), ", ")},
	{"ladder", "the waits between attempts, such as 1s,5s,1m"},
	{"timeout", "of one attempt, 1s to 60s"},
	{"rate", "most attempts in a time, such as 20/s, 600/m or 50/h"},
	{"success", "what it must answer: statuses such as 2xx,404 or a success as JSON"},
}

func (d *endpointFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	d.texts = map[string]*string{}
	for _, text := range endpointTexts {
		d.texts[text[0]] = flags.String(text[0], "", text[1])
	}
	flags.StringArrayVar(&d.topics, "topic", nil, "a topic it wants, payment.paid, payment.* or *; may be repeated (a new one: *)")
	flags.StringArrayVar(&d.headers, "header", nil, "an extra header for it, \"name: value\"; may be repeated")
	flags.StringArrayVar(&d.metadata, "metadata", nil, "a text for your own use, \"name=text\"; may be repeated")
	flags.IntVar(&d.maxInFlight, "max-in-flight", 0, "most attempts at once (default ENDPOINT_MAX_IN_FLIGHT)")
	flags.BoolVar(&d.ordered, "ordered", false, "one at a time and in order; a failing one holds the rest")
	flags.BoolVar(&d.disabled, "disabled", false, "takes nothing: what is published for it is dead at once")
	completes(cmd, "signature", schemeNames()...)
}

// fields are what the flags that were given ask for, as the API spells it. What
// it checks is left to it.
func (d *endpointFlags) fields(cmd *cobra.Command) (map[string]any, error) {
	fields := map[string]any{}
	given := cmd.Flags().Changed
	for name, text := range d.texts {
		if given(name) {
			fields[name] = *text
		}
	}
	var err error
	if given("success") {
		if fields["success"], err = successField(*d.texts["success"]); err != nil {
			return nil, err
		}
	}
	if given("ladder") {
		if fields["ladder"], err = ladder.Parse(*d.texts["ladder"]); err != nil {
			return nil, usagef("--ladder: %w", err)
		}
	}
	if given("topic") {
		fields["topics"] = d.topics
	}
	if given("header") {
		if fields["headers"], err = pairs("header", ":", d.headers); err != nil {
			return nil, err
		}
	}
	if given("metadata") {
		if fields["metadata"], err = pairs("metadata", "=", d.metadata); err != nil {
			return nil, err
		}
	}
	if given("max-in-flight") {
		fields["max_in_flight"] = d.maxInFlight
	}
	if given("ordered") {
		fields["ordered"] = d.ordered
	}
	if given("disabled") {
		fields["disabled"] = d.disabled
	}
	return fields, nil
}

// pairs are names and texts as flags give them. A name without a text is null,
// which in an update takes it away.
func pairs(flag, between string, given []string) (map[string]any, error) {
	found := map[string]any{}
	for _, one := range given {
		name, text, ok := strings.Cut(one, between)
		name, text = strings.TrimSpace(name), strings.TrimSpace(text)
		if !ok || name == "" {
			return nil, usagef("--%s %q: must be as in \"name%s text\"", flag, one, between)
		}
		found[name] = nil
		if text != "" {
			found[name] = text
		}
	}
	return found, nil
}

// readSecretFile reads a secret from a file, or from standard input where it is
// "-". There is no flag for the secret itself: it would stand in the list of
// processes and in the shell's history.
func readSecretFile(name string, in io.Reader) (string, error) {
	var text []byte
	var err error
	if name == "-" {
		text, err = io.ReadAll(io.LimitReader(in, maxSecretFile))
	} else {
		text, err = os.ReadFile(name)
	}
	if err != nil {
		return "", usagef("--secret-file: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// maxSecretFile is far above any secret.
const maxSecretFile = 4 << 10

package main

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/oklog/ulid/v2"
	"github.com/spf13/cobra"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

// mostTriggered limits the messages of one call, because a typing mistake must not start a load
// test.
const mostTriggered = 1000

// triggerFlags are the flags of trigger.
type triggerFlags struct {
	to             clientFlags
	message        sendFlags // trigger has some of them
	file           string
	sets           []string
	count          int
	writes, asJSON bool
}

func newTrigger(s world) *cobra.Command {
	var f triggerFlags
	cmd := &cobra.Command{
		Use:   "trigger <sample>",
		Short: "Publish a sample message from your own file",
		Long: `Publishes a message from a file of samples, to try a receiver with the messages of your
own program. The file is hookladder.samples.json in the working folder. Keep it with your
code. It is a JSON object of messages by name:

  {"payment.paid": {"subject": "order_17", "body": {"id": "{{id}}", "at": "{{now}}", "amount": 1999}}}

A message has the fields of the API, but no id: each published message gets a new id.
The default of its topic is the sample's name. In every text {{id}} is replaced with
the message's id, and {{now}} with the time.

--set changes the body: the path has names, or numbers of a list, with dots between. The
value is JSON, or text if it is not valid JSON. A flag of a message replaces the field of
the sample. Without --url, --endpoint and a destination in the sample, the message goes
to all endpoints of the tenant whose topics match.`,
		Example: `  hookladder trigger --init
  hookladder trigger payment.paid --url http://127.0.0.1:3000/hooks
  hookladder trigger payment.paid --set data.amount=250 --set data.customer.name=Ann -n 3 --delay 10s`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case f.writes && len(args) > 0:
				return usagef("--init takes no name of a sample")
			case len(args) > 1:
				return usagef("trigger takes one sample, not %d; see hookladder trigger --help", len(args))
			case f.count < 1 || f.count > mostTriggered:
				return usagef("--count must be 1 to %d", mostTriggered)
			}
			return nil
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
			known, err := readSamples(f.file)
			if err != nil || len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return oneOf(known.list()...)(nil, nil, word)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.writes {
				return f.write(cmd)
			}
			return f.publish(cmd, args)
		},
	}
	f.add(cmd, s)
	return cmd
}

func (f *triggerFlags) add(cmd *cobra.Command, s world) {
	f.to.add(cmd, s)
	flags, m := cmd.Flags(), &f.message
	flags.StringVar(&f.file, "file", samplesFile, "the file of samples")
	flags.StringArrayVar(&f.sets, "set", nil, "change a field of the body, path=value; may be repeated")
	flags.IntVarP(&f.count, "count", "n", 1, fmt.Sprintf("how many messages to publish, each with its own id, up to %d", mostTriggered))
	flags.StringVar(&m.url, "url", "", "the URL it is sent to")
	flags.StringVar(&m.endpoint, "endpoint", "", "the id or uid of the endpoint it is sent to")
	flags.StringVar(&m.tenant, "tenant", "", "the tenant it belongs to")
	flags.StringVar(&m.subject, "subject", "", "its subject, such as an order number")
	flags.StringVar(&m.delay, "delay", "", "the wait before the first attempt, such as 10s or 1d")
	flags.BoolVar(&f.writes, "init", false, "write an example of the file")
	flags.BoolVar(&f.asJSON, "json", false, "print each answer as JSON")
}

// write writes an example of the file.
func (f *triggerFlags) write(cmd *cobra.Command) error {
	if err := writeSamples(f.file); err != nil {
		return err
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s has samples now: change them to the messages of your program, then try\n  hookladder trigger payment.paid --url http://127.0.0.1:3000/hooks\n", f.file)
	return err
}

// publish publishes the messages, one after the other.
func (f *triggerFlags) publish(cmd *cobra.Command, args []string) error {
	known, err := readSamples(f.file)
	switch {
	case errors.Is(err, errNoSamples):
		return usagef("%w; \"hookladder trigger --init\" writes an example, and --file names another file", err)
	case err != nil:
		return usageError{err}
	case len(args) == 0:
		return usagef("trigger needs a sample; there are: %s", known)
	}
	c, err := f.to.client()
	if err != nil {
		return err
	}
	for n := range f.count {
		m, err := known.message(args[0], f.sets)
		if err != nil {
			return usageError{err}
		}
		if err := f.change(m); err != nil {
			return err
		}
		answer, err := c.Publish(cmd.Context(), m)
		switch {
		case unsure(err):
			err = fmt.Errorf("%w\nhookladder get %s shows whether it was accepted", err, m.ID)
		case err == nil:
			err = apiCall[wire.Published]{text: printPublished}.show(cmd.OutOrStdout(), answer, f.asJSON)
		}
		if err != nil && f.count > 1 {
			err = fmt.Errorf("message %d of %d: %w", n+1, f.count, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// change replaces fields of the sample with the flags.
func (f *triggerFlags) change(m *wire.Message) error {
	of := &f.message
	if of.url != "" || of.endpoint != "" {
		m.URL, m.Endpoint = of.url, of.endpoint
	}
	if of.tenant != "" {
		m.Tenant = of.tenant
	}
	if of.subject != "" {
		m.Subject = of.subject
	}
	if of.delay != "" {
		m.DeliverAt = wire.Time{}
	}
	return of.describe(m)
}

// samplesFile is the default file of samples, in the working directory.
const samplesFile = "hookladder.samples.json"

// mostOfSamples is the largest size of a file: four times the highest MAX_BODY.
const mostOfSamples = 16 << 20

// errNoSamples means that there is no such file.
var errNoSamples = errors.New("there is no file")

// samples are messages by name.
type samples struct {
	names  []string // in the order of the file
	byName map[string]jsontext.Value
}

// firstSamples is an example of the file.
const firstSamples = `{
  "payment.paid": {
    "subject": "order_17",
    "body": {
      "type": "payment.paid",
      "id": "{{id}}",
      "timestamp": "{{now}}",
      "data": {"order": "order_17", "amount": 1999, "currency": "EUR", "customer": {"name": "Ann", "email": "ann@shop.example"}}
    }
  },
  "payment.failed": {
    "subject": "order_18",
    "body": {
      "type": "payment.failed",
      "id": "{{id}}",
      "timestamp": "{{now}}",
      "data": {"order": "order_18", "amount": 500, "currency": "EUR", "reason": "insufficient_funds"}
    }
  }
}
`

// writeSamples writes firstSamples to a file that is not there yet.
func writeSamples(name string) error {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return fmt.Errorf("write the samples: %w", err)
	}
	_, err = file.WriteString(firstSamples)
	return errors.Join(err, file.Close())
}

// readSamples returns the samples of a file.
func readSamples(name string) (samples, error) {
	var s samples
	text, err := readSamplesFile(name)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return s, fmt.Errorf("%w %s", errNoSamples, name)
	case err != nil:
		return s, fmt.Errorf("read the samples: %w", err)
	}
	if err := json.Unmarshal(text, &s.byName); err != nil {
		return s, fmt.Errorf("%s must be a JSON object with a sample for each topic: %w", name, err)
	}
	for _, p := range branchesOf(text) {
		s.names = append(s.names, p.name)
	}
	return s, nil
}

func readSamplesFile(name string) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(file, mostOfSamples+1))
	if err == nil && len(text) > mostOfSamples {
		err = fmt.Errorf("%s is larger than %d MiB", name, mostOfSamples>>20)
	}
	return text, err
}

// list returns the names of the samples, in their order.
func (s samples) list() []string { return slices.Clone(s.names) }

// listedSamples is the highest number of names in an error.
const listedSamples = 20

// String returns the first names.
func (s samples) String() string {
	text := strings.Join(s.names[:min(len(s.names), listedSamples)], ", ")
	if more := len(s.names) - listedSamples; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// message returns a message from a sample, with its own id. sets are changes of its body, such as
// path=value.
func (s samples) message(name string, sets []string) (*wire.Message, error) {
	sample, ok := s.byName[name]
	if !ok {
		return nil, fmt.Errorf("no sample is called %q; there are: %s", name, s)
	}
	for _, change := range sets {
		path, text, ok := strings.Cut(change, "=")
		if !ok || path == "" {
			return nil, fmt.Errorf("%q: must be as in path=value, such as amount=250 or customer.name=Ann", change)
		}
		var err error
		if sample, err = setField(sample, append([]string{"body"}, strings.Split(path, ".")...), sampleValue(text)); err != nil {
			return nil, fmt.Errorf("%q: %w", change, err)
		}
	}
	id := "msg_" + ulid.Make().String()
	now := time.Now().UTC().Format("2006-01-02T15:04:05.000Z")
	filled := strings.NewReplacer("{{id}}", id, "{{now}}", now).Replace(string(sample))
	m := &wire.Message{Topic: name}
	dec := stdjson.NewDecoder(strings.NewReader(filled))
	dec.DisallowUnknownFields()
	if err := dec.Decode(m); err != nil {
		return nil, fmt.Errorf("sample %q: must be a message as in the API, with its body in \"body\": %w", name, err)
	}
	if m.ID != "" {
		return nil, fmt.Errorf("sample %q: leave out its id, because each message gets a new one; use {{id}} in its texts", name)
	}
	m.ID = id
	return m, nil
}

// sampleValue returns the value of a change: JSON, or text.
func sampleValue(text string) jsontext.Value {
	if v := jsontext.Value(text); v.IsValid() {
		return v
	}
	quoted, _ := jsontext.AppendQuote(nil, strings.ToValidUTF8(text, "\uFFFD")) // it is valid UTF-8
	return quoted
}

// setField returns the JSON with the value at path replaced by now. It keeps the order and the
// spelling of all other values.
func setField(in jsontext.Value, path []string, now jsontext.Value) (jsontext.Value, error) {
	if len(path) == 0 {
		return now, nil
	}
	branches := branchesOf(in)
	at := slices.IndexFunc(branches, func(p branch) bool { return p.name == path[0] })
	switch {
	case at >= 0:
		value, err := setField(branches[at].value, path[1:], now)
		if err != nil {
			return nil, err
		}
		branches[at].value = value
	case in.Kind() == '{' && len(path) == 1:
		branches = append(branches, branch{path[0], now})
	case len(branches) == 0:
		return nil, fmt.Errorf("there is no %q in %.40s", path[0], in)
	default:
		var names []string
		for _, p := range branches {
			names = append(names, p.name)
		}
		return nil, fmt.Errorf("there is no %q among %q", path[0], names)
	}
	return joinBranches(in.Kind(), branches), nil
}

// branch is a member of an object, or a value of a list with its index as the name.
type branch struct {
	name  string
	value jsontext.Value
}

// branchesOf returns the branches of valid JSON. Only objects and lists have branches.
func branchesOf(in jsontext.Value) (branches []branch) {
	kind := in.Kind()
	if kind != '{' && kind != '[' {
		return nil
	}
	dec := jsontext.NewDecoder(bytes.NewReader(in))
	_, err := dec.ReadToken()
	for err == nil && dec.PeekKind() != '}' && dec.PeekKind() != ']' {
		p := branch{name: strconv.Itoa(len(branches))}
		if kind == '{' {
			var name jsontext.Token
			if name, err = dec.ReadToken(); err != nil {
				return nil
			}
			p.name = name.String()
		}
		p.value, err = dec.ReadValue()
		p.value = p.value.Clone()
		branches = append(branches, p)
	}
	return branches
}

func joinBranches(kind jsontext.Kind, branches []branch) jsontext.Value {
	out, end := jsontext.Value("{"), byte('}')
	if kind == '[' {
		out, end = jsontext.Value("["), ']'
	}
	for i, p := range branches {
		if i > 0 {
			out = append(out, ',')
		}
		if kind == '{' {
			out, _ = jsontext.AppendQuote(out, p.name) // a name from the file, or from a flag
			out = append(out, ':')
		}
		out = append(out, p.value...)
	}
	return append(out, end)
}

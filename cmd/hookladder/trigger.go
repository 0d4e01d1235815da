package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/hookladder/hookladder/cmd/hookladder/internal/samples"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// mostTriggered is how many messages one call publishes: a typing mistake is no load test.
const mostTriggered = 1000

// triggerFlags are the flags of trigger.
type triggerFlags struct {
	to             clientFlags
	message        sendFlags // of which trigger has some
	file           string
	sets           []string
	count          int
	writes, asJSON bool
}

func newTrigger(s world) *cobra.Command {
	var f triggerFlags
	cmd := &cobra.Command{
		Use:   "trigger <sample>",
		Short: "Publish a sample message from a file of your own",
		Long: `Publishes a message from a file of samples, to try a receiver with what your own
program would send. The file is hookladder.samples.json of the working folder; keep it
with your code. It is a JSON object of messages by name:

  {"payment.paid": {"subject": "order_17", "body": {"id": "{{id}}", "at": "{{now}}", "amount": 1999}}}

A message has the fields that the API takes, without an id: each one that is published
gets a new one. Its topic is the sample's name where it has no other. {{id}} is the
message's id, and {{now}} the time; they may stand in any text.

--set changes the body: the path is names, or numbers of a list, with dots between. The
value is JSON, or else a text. A flag of a message replaces what the sample has. Without
--url, --endpoint and a destination in the sample it goes to all endpoints of the
tenant whose topics match.`,
		Example: `  hookladder trigger --init
  hookladder trigger payment.paid --url http://127.0.0.1:3000/hooks
  hookladder trigger payment.paid --set data.amount=250 --set data.customer.name=Ann -n 3 --delay 10s`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case f.writes && len(args) > 0:
				return usagef("--init goes without the name of a sample")
			case len(args) > 1:
				return usagef("trigger takes one sample, not %d; see hookladder trigger --help", len(args))
			case f.count < 1 || f.count > mostTriggered:
				return usagef("--count must be 1 to %d", mostTriggered)
			}
			return nil
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
			known, err := samples.Read(f.file)
			if err != nil || len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return oneOf(known.Names()...)(nil, nil, word)
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
	flags.StringVar(&f.file, "file", samples.File, "the file of samples")
	flags.StringArrayVar(&f.sets, "set", nil, "change a field of the body, path=value; may be repeated")
	flags.IntVarP(&f.count, "count", "n", 1, fmt.Sprintf("how many to publish, each with an id of its own, up to %d", mostTriggered))
	flags.StringVar(&m.url, "url", "", "the URL it is sent to")
	flags.StringVar(&m.endpoint, "endpoint", "", "the id or uid of the endpoint it is sent to")
	flags.StringVar(&m.tenant, "tenant", "", "the tenant it belongs to")
	flags.StringVar(&m.subject, "subject", "", "what it is about, such as an order number")
	flags.StringVar(&m.delay, "delay", "", "the wait before the first attempt, such as 10s or 1d")
	flags.BoolVar(&f.writes, "init", false, "write a first file of samples")
	flags.BoolVar(&f.asJSON, "json", false, "print each answer as JSON")
}

// write writes a file to begin with.
func (f *triggerFlags) write(cmd *cobra.Command) error {
	if err := samples.Write(f.file); err != nil {
		return err
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s has samples now: change them to what your program sends, then try\n  hookladder trigger payment.paid --url http://127.0.0.1:3000/hooks\n", f.file)
	return err
}

// publish publishes as many messages as were asked for, one after the other.
func (f *triggerFlags) publish(cmd *cobra.Command, args []string) error {
	known, err := samples.Read(f.file)
	switch {
	case errors.Is(err, samples.ErrNone):
		return usagef("%w; \"hookladder trigger --init\" writes one to begin with, and --file names another", err)
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
		m, err := known.Message(args[0], f.sets)
		if err != nil {
			return usageError{err}
		}
		if err := f.change(m); err != nil {
			return err
		}
		answer, err := c.Publish(cmd.Context(), m)
		switch {
		case unsure(err):
			err = fmt.Errorf("%w\nhookladder get %s tells whether it was taken", err, m.ID)
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

// change puts what the flags say in the place of what the sample has.
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

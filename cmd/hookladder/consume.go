package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/hookladder/hookladder/cmd/hookladder/internal/pull"
	"github.com/hookladder/hookladder/cmd/hookladder/internal/show"
	"github.com/hookladder/hookladder/cmd/hookladder/internal/term"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/ladder"
)

func newConsume(s world) *cobra.Command {
	var to clientFlags
	program := pull.Exec{Environ: s.environ}
	loop := pull.Loop{Grace: 20 * time.Second}
	cmd := &cobra.Command{
		Use:   "consume <queue>",
		Short: "Take from a queue, and hand each body to a program",
		Long: `Takes deliveries of a queue, or of the endpoint of kind pull with this id. With --exec
the shell runs a program for each: it reads the body from its standard input, and finds
HOOKLADDER_DELIVERY_ID, _MESSAGE_ID, _TOPIC, _TENANT, _SUBJECT, _ATTEMPT and _CONTENT_TYPE
in its environment. Its exit status says what became of the delivery:

  0      delivered
  65     dead: it is not tried again
  other  it failed, and is tried again after its ladder's next wait; the last line of
         its standard error is kept with the attempt

A status of 126 or 127 says that there is no such program: then consume ends. Without
--exec each delivery is printed as a line of JSON, and is delivered then.

It goes on until Ctrl-C. A program that runs may finish then. What is not finished after
20 seconds is interrupted, and comes again.`,
		Example: `  hookladder consume orders --exec ./handle-order
  hookladder consume orders --exec 'jq -r .order_id' --parallel 8
  hookladder consume ep_01JC3A8Q7K --drain`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("name one queue, or one endpoint's id")
			}
			loop.Queue = args[0]
			if !dispatcher.ValidQueue(loop.Queue) && !dispatcher.Lane(loop.Queue).IsEndpoint() {
				return usagef("%q can be no queue's name: 1 to 64 of A-Z a-z 0-9 _ . -, not beginning with ep_, u_ or q_", loop.Queue)
			}
			return checkConsume(&loop, program.Timeout)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			api, err := to.client()
			if err != nil {
				return err
			}
			loop.Take, loop.Settle, loop.Say = api.Take, api.Settle, sayer(cmd.ErrOrStderr())
			program.Out, program.Err = cmd.OutOrStdout(), cmd.ErrOrStderr()
			loop.Handle = program.Handle
			if program.Command == "" {
				loop.Handle = printer(cmd.OutOrStdout())
			}
			return loop.Run(cmd.Context())
		},
	}
	to.add(cmd, s)
	flags := cmd.Flags()
	flags.StringVar(&program.Command, "exec", "", "what the shell runs for each delivery")
	term.DurationVar(flags, &program.Timeout, "timeout", time.Minute, "how long a program may run, up to 1h")
	flags.IntVar(&loop.Workers, "parallel", 1, "how many run at once")
	term.DurationVar(flags, &loop.Lease, "lease", 30*time.Second, "how soon a delivery comes again if this command dies; it is made longer meanwhile")
	flags.IntVar(&loop.Most, "max", 0, "end after so many (default 0: go on)")
	flags.BoolVar(&loop.Drain, "drain", false, "end once there is nothing to take")
	return cmd
}

// checkConsume checks the flags that have bounds.
func checkConsume(l *pull.Loop, timeout time.Duration) error {
	switch {
	case l.Workers < 1 || l.Workers > 100:
		return usagef("--parallel %d: must be from 1 to 100", l.Workers)
	case l.Lease < dispatcher.ShortLease || l.Lease > dispatcher.LongLease:
		return usagef("--lease %s: must be from 1s to 1h", ladder.FormatDuration(l.Lease))
	case timeout <= 0 || timeout > time.Hour:
		return usagef("--timeout %s: must be up to 1h", ladder.FormatDuration(timeout))
	case l.Most < 0:
		return usagef("--max %d: must be 0 or more", l.Most)
	}
	return nil
}

// sayer tells a person, at most what a terminal shows safely.
func sayer(out io.Writer) func(format string, args ...any) {
	return func(format string, args ...any) {
		fmt.Fprintln(out, "hookladder: "+term.Visible(fmt.Sprintf(format, args...)))
	}
}

// printer prints each delivery, which is delivered then.
func printer(out io.Writer) pull.Handler {
	return func(_ context.Context, d *wire.TakenDelivery) (wire.Settlement, error) {
		text, err := d.Append(nil)
		if err == nil {
			_, err = fmt.Fprintf(term.JSON{Out: out}, "%s\n", text)
		}
		if err != nil {
			return wire.Settlement{Outcome: "retry", Error: "it could not be printed"}, fmt.Errorf("print %s: %w", d.ID, err)
		}
		return wire.Settlement{Outcome: "delivered"}, nil
	}
}

// forwarding is hookladder listen with --forward-to: an endpoint of kind pull stands
// for the app, so that nothing has to reach this machine.
type forwarding struct {
	to       clientFlags
	target   string
	endpoint string // an endpoint that is there; empty: one is made, and goes at the end
	topics   []string
	tenant   string
	fail     int
	delay    time.Duration
	status   int    // 0: the app's answer stands
	secret   string // what an endpoint that is made signs with
	fresh    bool   // the server made it
}

// add gives the command the flags.
func (f *forwarding) add(cmd *cobra.Command, s world) {
	f.to.add(cmd, s)
	flags := cmd.Flags()
	flags.StringVar(&f.target, "forward-to", "", "the URL of an app that gets each delivery, instead of a receiver here")
	flags.StringVar(&f.endpoint, "endpoint", "", "with --forward-to: take from this endpoint of kind pull, by id or uid (default: one is made, and deleted at the end)")
	flags.StringArrayVar(&f.topics, "topic", []string{"*"}, "with --forward-to: what it gets; may be repeated")
	flags.StringVar(&f.tenant, "tenant", "", "with --forward-to: whose messages it gets")
	flags.IntVar(&f.fail, "fail", 0, "with --forward-to: have the first so many attempts fail")
	term.DurationVar(flags, &f.delay, "delay", 0, "with --forward-to: wait before each attempt")
}

// forwardFlags are those that need --forward-to, and receiverFlags those that it excludes.
var (
	forwardFlags  = []string{"endpoint", "topic", "tenant", "fail", "delay", "server", "key-file"}
	receiverFlags = []string{"addr", "signature", "save"}
)

// check checks the flags that were given together.
func (f *forwarding) check(cmd *cobra.Command, status int) error {
	wrong, why := forwardFlags, "is for --forward-to"
	if f.target != "" {
		wrong, why = receiverFlags, "is of a receiver here, and not for --forward-to"
	}
	for _, name := range wrong {
		if cmd.Flags().Changed(name) {
			return usagef("--%s %s", name, why)
		}
	}
	if f.target == "" {
		return nil
	}
	if cmd.Flags().Changed("status") {
		f.status = status
	}
	u, err := url.Parse(f.target)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return usagef("--forward-to %q: must be a URL as http://localhost:3000/hooks", f.target)
	case f.fail < 0:
		return usagef("--fail %d: must be 0 or more", f.fail)
	case f.delay < 0 || f.delay > time.Hour:
		return usagef("--delay %s: must be from 0s to 1h", ladder.FormatDuration(f.delay))
	case f.endpoint != "" && (cmd.Flags().Changed("topic") || cmd.Flags().Changed("tenant")):
		return usagef("--topic and --tenant are of an endpoint that is made: leave them out with --endpoint")
	}
	return nil
}

// forwardWithin is how long an app may take to answer.
const forwardWithin = 30 * time.Second

// run forwards until ctx ends, or q is pressed. An endpoint that is made signs with the
// secret; empty: with that of the environment, or with a fresh one.
func (f *forwarding) run(cmd *cobra.Command, secret string) (err error) {
	api, err := f.to.client()
	if err != nil {
		return err
	}
	ctx, quit := context.WithCancel(cmd.Context())
	defer quit()
	if !signal.Ignored(syscall.SIGHUP) { // as nohup has it
		// A terminal that was closed, or a pipe, ends it too. Else the endpoint would be left.
		ctx, quit = signal.NotifyContext(ctx, syscall.SIGHUP, syscall.SIGPIPE)
		defer quit()
	}
	f.secret = cmp.Or(secret, f.to.vars["SIGNING_SECRET"])
	endpoint, forget, err := f.open(ctx, api)
	if err != nil {
		return err
	}
	app := &pull.Forward{
		URL: f.target, Timeout: forwardWithin, Delay: f.delay, Status: cmp.Or(f.status, http.StatusInternalServerError),
		All: f.status != 0 && f.fail == 0, Out: cmd.OutOrStdout(), Clock: func() string { return time.Now().Format(show.Clock) },
	}
	app.FailNext(f.fail)
	help := "Ctrl-C ends it"
	if terminal, ok := cmd.InOrStdin().(*os.File); ok && term.IsTerminal(terminal) {
		press := func(key byte) bool { return f.press(ctx, key, api, endpoint, app) }
		shown, restore, err := pull.Keys(terminal, app.Out, press, quit)
		if err != nil {
			return errors.Join(err, forget())
		}
		defer restore()
		app.Out, help = shown, "r sends the last one again, f has the next one fail, q ends it"
	}
	app.Println("taking from %s for %s; %s", endpoint, f.target, help)
	if f.fresh {
		app.Println("signed with %s", f.secret)
	}
	loop := pull.Loop{
		Take: api.Take, Settle: api.Settle, Queue: endpoint, Workers: 8, Lease: time.Minute, Handle: app.Handle,
		Say: func(format string, args ...any) { app.Println("%s", term.Visible(fmt.Sprintf(format, args...))) },
	}
	err = loop.Run(ctx)
	if isGone(err) {
		return fmt.Errorf("%s was deleted, so nothing arrives here any more: %w", endpoint, err)
	}
	return errors.Join(err, forget())
}

// Keys that end it besides q: Ctrl-C and Ctrl-D, which a terminal hands on as they are
// while keys are read.
const (
	keyInterrupt = 3
	keyEnd       = 4
)

// press does what a key asks for. It answers false for those that end it.
func (f *forwarding) press(ctx context.Context, key byte, api *client.Client, endpoint string, app *pull.Forward) bool {
	switch key {
	case 'q', keyInterrupt, keyEnd:
		return false
	case 'f':
		app.FailNext(1)
		app.Println("the next attempt fails")
	case 'r':
		last := app.Last()
		if last == "" {
			app.Println("nothing came yet")
			return true
		}
		if _, err := api.Retry(ctx, last, endpoint); err != nil {
			app.Println("%s can't be sent again: %s", last, term.Visible(err.Error()))
		}
	}
	return true
}

// isGone reports whether the API said that there is no such thing.
func isGone(err error) bool {
	var p *client.Problem
	return errors.As(err, &p) && p.Status == http.StatusNotFound
}

// open finds the endpoint, or makes one that no other listener has: each of them deletes
// its own. forget deletes what was made.
func (f *forwarding) open(ctx context.Context, api *client.Client) (id string, forget func() error, err error) {
	keep := func() error { return nil }
	if f.endpoint != "" {
		view, err := api.Endpoint(ctx, f.endpoint)
		if err == nil && view.Kind != "pull" {
			err = usagef("--endpoint %s is called at its URL: name one of kind pull", f.endpoint)
		}
		return view.ID, keep, err
	}
	host, _ := os.Hostname()
	host = cmp.Or(host, "unknown")
	view, _, err := api.CreateEndpoint(ctx, &wire.Endpoint{
		UID: uidOf("listen-"+host[:min(len(host), 64)]) + "-" + strings.ToLower(rand.Text()), Kind: "pull", Tenant: f.tenant, Topics: f.topics, Secret: f.secret,
		Description: "hookladder listen --forward-to: deleted when it ends",
		Metadata:    map[string]string{"host": host, "pid": strconv.Itoa(os.Getpid()), "since": time.Now().UTC().Format(time.RFC3339)},
	})
	if err != nil {
		return "", keep, err
	}
	f.fresh, f.secret = f.secret == "", cmp.Or(view.Secret, f.secret)
	return view.ID, func() error {
		call, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		if _, err := api.DeleteEndpoint(call, view.ID); !isGone(err) {
			return err
		}
		return nil
	}, nil
}

// uidOf makes a uid of a text: other characters than those of uids become dashes.
func uidOf(text string) string {
	uid := []byte(text[:min(len(text), 128)])
	for i, c := range uid {
		if !dispatcher.ValidUID(string(c)) && !slices.Contains([]byte("-._:"), c) {
			uid[i] = '-'
		}
	}
	return string(uid)
}

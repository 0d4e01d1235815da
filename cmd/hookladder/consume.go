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

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/ladder"
)

func newConsume(s world) *cobra.Command {
	var to clientFlags
	program := execHandler{Environ: s.environ}
	loop := takeLoop{Grace: 20 * time.Second}
	cmd := &cobra.Command{
		Use:   "consume <queue>",
		Short: "Take from a queue, and run a program with each body",
		Long: `Takes deliveries of a queue, or of the endpoint of kind pull with this id. With --exec
the shell runs a program for each delivery. The body is its standard input. The
variables HOOKLADDER_DELIVERY_ID, _MESSAGE_ID, _TOPIC, _TENANT, _SUBJECT, _ATTEMPT and
_CONTENT_TYPE are in its environment. Its exit status is the outcome of the delivery:

  0      delivered
  65     dead: it is not retried
  other  failed: it is retried after the next wait of its ladder; the last line of
         standard error is stored with the attempt

A status of 126 or 127 means that there is no such program, and ends consume. Without
--exec each delivery is printed as a line of JSON, and counts as delivered.

It runs until Ctrl-C. Then running programs may finish. After 20 seconds they are
interrupted, and their deliveries are retried.`,
		Example: `  hookladder consume orders --exec ./handle-order
  hookladder consume orders --exec 'jq -r .order_id' --parallel 8
  hookladder consume ep_01JC3A8Q7K --drain`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("consume needs one queue, or the id of one endpoint")
			}
			loop.Queue = args[0]
			if !dispatcher.ValidQueue(loop.Queue) && !dispatcher.Lane(loop.Queue).IsEndpoint() {
				return usagef("%q is not a valid name of a queue: use 1 to 64 of A-Z a-z 0-9 _ . -, and do not begin with ep_, u_ or q_", loop.Queue)
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
	flags.StringVar(&program.Command, "exec", "", "the shell command for each delivery")
	durationVar(flags, &program.Timeout, "timeout", time.Minute, "the time limit of a program, up to 1h")
	flags.IntVar(&loop.Workers, "parallel", 1, "how many programs run at once")
	durationVar(flags, &loop.Lease, "lease", 30*time.Second, "how long a delivery is leased; the command extends the lease, and if it dies, the delivery is retried after it")
	flags.IntVar(&loop.Most, "max", 0, "end after this number of deliveries (default 0: no limit)")
	flags.BoolVar(&loop.Drain, "drain", false, "end when there are no more deliveries")
	return cmd
}

// checkConsume returns an error if a flag is out of range.
func checkConsume(l *takeLoop, timeout time.Duration) error {
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

// sayer returns a function that prints messages for people, with control characters escaped.
func sayer(out io.Writer) func(format string, args ...any) {
	return func(format string, args ...any) {
		fmt.Fprintln(out, "hookladder: "+visible(fmt.Sprintf(format, args...)))
	}
}

// printer returns a handler that prints each delivery.
func printer(out io.Writer) takenHandler {
	return func(_ context.Context, d *wire.TakenDelivery) (wire.Settlement, error) {
		text, err := d.Append(nil)
		if err == nil {
			_, err = fmt.Fprintf(safeJSON{Out: out}, "%s\n", text)
		}
		if err != nil {
			return wire.Settlement{Outcome: "retry", Error: "it could not be printed"}, fmt.Errorf("print %s: %w", d.ID, err)
		}
		return wire.Settlement{Outcome: "delivered"}, nil
	}
}

// forwarding is hookladder listen with --forward-to. It takes the deliveries of an endpoint of
// kind pull, so no server has to reach this machine.
type forwarding struct {
	to       clientFlags
	target   string
	endpoint string // an existing endpoint; empty: one is created, and deleted at the end
	topics   []string
	tenant   string
	fail     int
	delay    time.Duration
	status   int    // replaces the app's response; 0: does not replace it
	secret   string // of a created endpoint
	fresh    bool   // the server created the secret
}

// add adds the flags to cmd.
func (f *forwarding) add(cmd *cobra.Command, s world) {
	f.to.add(cmd, s)
	flags := cmd.Flags()
	flags.StringVar(&f.target, "forward-to", "", "the URL of an app that receives each delivery, instead of this command")
	flags.StringVar(&f.endpoint, "endpoint", "", "with --forward-to: take from this endpoint of kind pull, by id or uid (default: one is created, and deleted at the end)")
	flags.StringArrayVar(&f.topics, "topic", []string{"*"}, "with --forward-to: the topics that it receives; may be repeated")
	flags.StringVar(&f.tenant, "tenant", "", "with --forward-to: the tenant whose messages it receives")
	flags.IntVar(&f.fail, "fail", 0, "with --forward-to: make this number of first attempts fail")
	durationVar(flags, &f.delay, "delay", 0, "with --forward-to: wait before each attempt")
}

// forwardFlags need --forward-to, and receiverFlags exclude it.
var (
	forwardFlags  = []string{"endpoint", "topic", "tenant", "fail", "delay", "server", "key-file"}
	receiverFlags = []string{"addr", "signature", "save"}
)

// check returns an error if the flags exclude each other.
func (f *forwarding) check(cmd *cobra.Command, status int) error {
	wrong, why := forwardFlags, "needs --forward-to"
	if f.target != "" {
		wrong, why = receiverFlags, "can't be used with --forward-to"
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
		return usagef("--forward-to must be a URL such as http://localhost:3000/hooks") // it is not printed, because it may have a password
	case f.fail < 0:
		return usagef("--fail %d: must be 0 or more", f.fail)
	case f.delay < 0 || f.delay > time.Hour:
		return usagef("--delay %s: must be from 0s to 1h", ladder.FormatDuration(f.delay))
	case f.endpoint != "" && (cmd.Flags().Changed("topic") || cmd.Flags().Changed("tenant")):
		return usagef("--topic and --tenant are for a created endpoint: leave them out with --endpoint")
	}
	return nil
}

// forwardWithin is the timeout of an app's response.
const forwardWithin = 30 * time.Second

// run forwards until ctx ends, or q is pressed. secret is for a created endpoint; empty:
// SIGNING_SECRET, or a random secret.
func (f *forwarding) run(cmd *cobra.Command, secret string) (err error) {
	api, err := f.to.client()
	if err != nil {
		return err
	}
	ctx, quit := context.WithCancel(cmd.Context())
	defer quit()
	if !signal.Ignored(syscall.SIGHUP) { // nohup ignores it
		// A closed terminal or pipe ends it too. Otherwise the endpoint would not be deleted.
		ctx, quit = signal.NotifyContext(ctx, syscall.SIGHUP, syscall.SIGPIPE)
		defer quit()
	}
	f.secret = cmp.Or(secret, f.to.vars["SIGNING_SECRET"])
	endpoint, forget, err := f.open(ctx, api)
	if err != nil {
		return err
	}
	app := &forwardHandler{
		URL: f.target, Timeout: forwardWithin, Delay: f.delay, Status: cmp.Or(f.status, http.StatusInternalServerError),
		All: f.status != 0 && f.fail == 0, Out: cmd.OutOrStdout(), Clock: func() string { return time.Now().Format(clockFormat) },
	}
	app.FailNext(f.fail)
	help := "Ctrl-C ends it"
	if terminal, ok := cmd.InOrStdin().(*os.File); ok && isTerminal(terminal) {
		press := func(key byte) bool { return f.press(ctx, key, api, endpoint, app) }
		shown, restore, err := readKeys(terminal, app.Out, press, quit)
		if err != nil {
			return errors.Join(err, forget())
		}
		defer restore()
		app.Out, help = shown, "r sends the last one again, f makes the next one fail, q ends it"
	}
	app.Println("taking from %s for %s; %s", endpoint, f.target, help)
	if f.fresh {
		app.Println("signed with %s", f.secret)
	}
	loop := takeLoop{
		Take: api.Take, Settle: api.Settle, Queue: endpoint, Workers: 8, Lease: time.Minute, Handle: app.Handle,
		Say: func(format string, args ...any) { app.Println("%s", visible(fmt.Sprintf(format, args...))) },
	}
	err = loop.Run(ctx)
	if isGone(err) {
		return fmt.Errorf("%s was deleted, so there are no more deliveries: %w", endpoint, err)
	}
	return errors.Join(err, forget())
}

// Keys that end it besides q: Ctrl-C and Ctrl-D. A terminal in raw mode sends them as
// characters.
const (
	keyInterrupt = 3
	keyEnd       = 4
)

// press handles a key. It returns false for keys that end the command.
func (f *forwarding) press(ctx context.Context, key byte, api *client.Client, endpoint string, app *forwardHandler) bool {
	switch key {
	case 'q', keyInterrupt, keyEnd:
		return false
	case 'f':
		app.FailNext(1)
		app.Println("the next attempt fails")
	case 'r':
		last := app.Last()
		if last == "" {
			app.Println("there was no delivery yet")
			return true
		}
		if _, err := api.Retry(ctx, last, endpoint); err != nil {
			app.Println("%s can't be sent again: %s", last, visible(err.Error()))
		}
	}
	return true
}

// isGone reports whether the API returned not found.
func isGone(err error) bool {
	var p *client.Problem
	return errors.As(err, &p) && p.Status == http.StatusNotFound
}

// open returns the endpoint, or creates one. Listeners do not share a created endpoint, because
// each of them deletes its own. forget deletes a created endpoint.
func (f *forwarding) open(ctx context.Context, api *client.Client) (id string, forget func() error, err error) {
	keep := func() error { return nil }
	if f.endpoint != "" {
		view, err := api.Endpoint(ctx, f.endpoint)
		if errors.Is(err, client.ErrDenied) {
			return f.endpoint, keep, nil // a merchant's key may only take from it, and the take refuses what it has to
		}
		if err == nil && view.Kind != "pull" {
			err = usagef("--endpoint %s has a URL: use an endpoint of kind pull", f.endpoint)
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

// uidOf returns a uid of a text: it replaces invalid characters with dashes.
func uidOf(text string) string {
	uid := []byte(text[:min(len(text), 128)])
	for i, c := range uid {
		if !dispatcher.ValidUID(string(c)) && !slices.Contains([]byte("-._:"), c) {
			uid[i] = '-'
		}
	}
	return string(uid)
}

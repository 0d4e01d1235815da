package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/hookladder/hookladder/cmd/hookladder/internal/settings"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/ladder"
)

// apiCall is a command's request to a running Hookladder, and how the command prints the
// response.
type apiCall[T any] struct {
	do   func(cmd *cobra.Command, c *client.Client, args []string) (T, error)
	text func(out io.Writer, answer T)
	json func(out io.Writer, answer T) error                   // nil: print the response unchanged
	then func(cmd *cobra.Command, answer T, asJSON bool) error // runs after the response was printed; may be nil
}

// on makes cmd run the call, and adds the call's flags to cmd.
func (a apiCall[T]) on(cmd *cobra.Command, s world) *cobra.Command {
	var to clientFlags
	var asJSON bool
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := to.client()
		if err != nil {
			return err
		}
		answer, err := a.do(cmd, c, args)
		if err != nil {
			return err
		}
		if err := a.show(cmd.OutOrStdout(), answer, asJSON); err != nil {
			return err
		}
		if a.then != nil {
			return a.then(cmd, answer, asJSON)
		}
		return nil
	}
	to.add(cmd, s)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the answer as JSON")
	return cmd
}

func (a apiCall[T]) show(out io.Writer, answer T, asJSON bool) error {
	switch {
	case asJSON && a.json != nil:
		return a.json(out, answer)
	case asJSON:
		return printJSON(out, answer)
	}
	var text bytes.Buffer
	a.text(&text, answer)
	_, err := text.WriteTo(out)
	return err
}

// clientFlags are the flags of all commands that call a running Hookladder.
type clientFlags struct {
	vars    map[string]string
	server  string
	keyFile string
	repeats client.Repeats // none: commandRepeats
	err     io.Writer      // reports a server that forgets; nil: it is not reported
}

// add adds the flags to cmd. There is no flag for the key itself, because it would appear in the
// list of processes and in the shell's history.
func (c *clientFlags) add(cmd *cobra.Command, s world) {
	c.vars, c.err = s.vars(), s.err
	cmd.Flags().StringVar(&c.server, "server", "",
		"the URL of Hookladder (default HOOKLADDER_URL, or this host with the port of LISTEN or PORT, 8080)")
	cmd.Flags().StringVar(&c.keyFile, "key-file", "", "a file with the API key (default: the key in HOOKLADDER_KEY)")
}

// commandRepeats are the retries during a short outage. After them the command reports the error.
var commandRepeats = client.Repeats{Tries: 3, Within: 5 * time.Second}

// client returns a client with the flags and the environment.
func (c *clientFlags) client() (*client.Client, error) { return c.clientAt(localServer) }

// clientAt returns a client with another default than this host's API.
func (c *clientFlags) clientAt(local func(vars map[string]string) (string, error)) (*client.Client, error) {
	server, from := c.vars["HOOKLADDER_URL"], "HOOKLADDER_URL"
	if c.server != "" {
		server, from = c.server, "--server"
	}
	if server == "" {
		var err error
		if server, err = local(c.vars); err != nil {
			return nil, usageError{err}
		}
	}
	server, err := withScheme(server)
	if err != nil {
		return nil, usagef("%s: %w", from, err)
	}
	key, keyFrom := c.vars["HOOKLADDER_KEY"], "HOOKLADDER_KEY"
	if c.keyFile != "" {
		text, err := os.ReadFile(c.keyFile)
		if err != nil {
			return nil, usagef("--key-file: %w", err)
		}
		key, keyFrom = strings.TrimSpace(string(text)), "--key-file"
	}
	made, err := client.New(server, key, client.WithRepeats(cmp.Or(c.repeats, commandRepeats)), client.WithHTTPClient(&http.Client{
		Transport:     &warning{out: c.err, server: server},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // the API never redirects, and the key must not be sent elsewhere
	}))
	if err != nil {
		return nil, usagef("%s", strings.NewReplacer("api url:", from+":", "api key:", keyFrom+":").Replace(err.Error()))
	}
	return made, nil
}

// warning prints a line if a response comes from hookladder dev, because another server may have
// been meant.
type warning struct {
	out    io.Writer // nil: nothing is printed
	server string
	once   sync.Once
}

// RoundTrip makes a request.
func (w *warning) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err == nil && w.out != nil && resp.Header.Get(wire.HeaderStore) == wire.InMemory {
		w.once.Do(func() {
			fmt.Fprintf(w.out, "%s is hookladder dev, which loses all data when it ends\n", w.server)
		})
	}
	return resp, err
}

// withScheme returns the URL of a server. A host on this machine needs no scheme, because the
// connection to it is not visible to others.
func withScheme(server string) (string, error) {
	if strings.Contains(server, "://") {
		return server, nil
	}
	host, _, _ := strings.Cut(server, "/")
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	address, err := netip.ParseAddr(strings.Trim(host, "[]"))
	if host == "localhost" || err == nil && address.IsLoopback() {
		return "http://" + server, nil
	}
	return "", errors.New("a URL needs its scheme, as in https://hooks.example; only for this machine http:// may be left out, as in 127.0.0.1:8080")
}

// localServer returns the URL of a Hookladder on this host with the same environment.
func localServer(vars map[string]string) (string, error) {
	listen := vars["LISTEN"]
	switch {
	case listen == settings.ListenOff:
		return "", errors.New("LISTEN=off serves no API here: set another server with --server or HOOKLADDER_URL")
	case listen == "" && vars["PORT"] != "":
		listen = ":" + vars["PORT"]
	}
	return thisHost(listen), nil
}

// healthServer returns the URL of the health checks, because a process may serve them without an
// API. So a health check inside a container needs no flag.
func healthServer(vars map[string]string) (string, error) {
	switch {
	case vars["LISTEN"] != settings.ListenOff:
		return localServer(vars)
	case vars["METRICS_LISTEN"] == "":
		return "", errors.New("LISTEN=off and METRICS_LISTEN is not set: this dispatcher has no address for health checks. Set one with METRICS_LISTEN=127.0.0.1:9464, or another server with --server")
	}
	return thisHost(vars["METRICS_LISTEN"]), nil
}

// thisHost returns the URL of a process on this host with that listening address.
func thisHost(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		host, port = "", "8080"
	}
	if host == "" || host == "0.0.0.0" || host == "::" { // all addresses of the host
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port)
}

// spanFlags select a time range.
type spanFlags struct{ since, until string }

func (f *spanFlags) add(cmd *cobra.Command, what string) {
	cmd.Flags().StringVar(&f.since, "since", "", what+" at this time or later, such as 2026-01-31T12:00:00Z, or an age such as 36h or 7d")
	cmd.Flags().StringVar(&f.until, "until", "", what+" before this time, or an age")
}

func (f *spanFlags) read() (since, until time.Time, err error) {
	if since, err = timeFlag("since", f.since); err == nil {
		until, err = timeFlag("until", f.until)
	}
	return since, until, err
}

// timeFlag returns the time of a flag, which has a time or an age; empty: no time.
func timeFlag(name, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	ago, err := ladder.ParseDuration(text)
	if err != nil {
		return time.Time{}, usagef("--%s must be a time such as 2026-01-31T12:00:00Z, or an age such as 24h or 7d, not %q", name, text)
	}
	return time.Now().Add(-ago), nil
}

// pingPatience is shorter than the usual timeout of a health check (5 s in the Dockerfile). So
// the command prints the reason before it is killed.
const pingPatience = 4 * time.Second

func newPing(s world) *cobra.Command {
	var to clientFlags
	var instances bool
	cmd := &cobra.Command{
		Use:   "ping",
		Short: "Check whether Hookladder is ready, for health checks",
		Long: `Requests /readyz. The exit code is 0 if Hookladder is ready, 1 if its store can't be
used, 4 if it does not respond, and 2 if there is no address for the request.

With LISTEN=off the request goes to METRICS_LISTEN, which serves /healthz and /readyz
too. The image sets METRICS_LISTEN. A dispatcher without both has no address.

With a key that has the scope read, it prints the store and the paused lanes.
--instances also lists the instances: their version, age and deliveries in flight.`,
		Example: `  hookladder ping
  hookladder ping --server https://hooks.example --instances
  LISTEN=off METRICS_LISTEN=127.0.0.1:9464 hookladder ping`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := to.clientAt(healthServer)
			if err != nil {
				return err
			}
			ctx, stop := context.WithTimeout(cmd.Context(), pingPatience)
			defer stop()
			ready, err := c.Ready(ctx)
			if err != nil {
				return err
			}
			if ready.Store == nil { // no key, or a key without the scope read
				_, err = fmt.Fprintln(cmd.OutOrStdout(), ready.Status)
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s, on %s\n%s", ready.Status, strings.TrimSpace(ready.Store.Kind+" "+ready.Store.Version), pausedText(ready))
			if err != nil || !instances {
				return err
			}
			var list []wire.Instance
			for i, err := range c.EachInstance(ctx) {
				if err != nil {
					return err
				}
				list = append(list, i)
			}
			printInstances(cmd.OutOrStdout(), list, time.Now())
			return nil
		},
	}
	to.add(cmd, s)
	cmd.Flags().BoolVar(&instances, "instances", false, "also list the instances")
	return cmd
}

// pausedText returns a line for each paused lane; empty: no lane is paused.
func pausedText(ready wire.Ready) string {
	var b strings.Builder
	for _, l := range ready.Paused {
		name := cmp.Or(l.UID, l.URL, l.Lane)
		if l.Lane == client.AllLanes {
			name = "every destination"
		}
		fmt.Fprintf(&b, "%s is paused since %s by %s\n", visible(name), whenText(l.Since), visible(cmp.Or(l.By, "-")))
	}
	if more := ready.PausedLanes - len(ready.Paused); more > 0 {
		fmt.Fprintf(&b, "and %d more\n", more)
	}
	return b.String()
}

func printInstances(out io.Writer, list []wire.Instance, now time.Time) {
	printTable(out, "INSTANCE\tVERSION\tAGE\tSEEN\tIN FLIGHT\tPERMITS\tHOLDING", list, func(i wire.Instance) []any {
		age := "-"
		if !i.StartedAt.IsZero() {
			age = ladder.FormatDuration(max(now.Sub(i.StartedAt.Time), 0).Truncate(time.Second))
		}
		return []any{i.Name, cmp.Or(i.Version, "-"), age, i.SeenAt, i.InFlight, i.Permits, i.Holding}
	})
}

package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// clientFlags are the flags of every command that calls a running Hookladder.
type clientFlags struct {
	vars    map[string]string
	server  string
	keyFile string
}

// add gives cmd the flags. There is none for the key itself: it would stand in
// the list of processes and in the shell's history.
func (c *clientFlags) add(cmd *cobra.Command, s stage) {
	c.vars = s.vars()
	cmd.Flags().StringVar(&c.server, "server", "",
		"where Hookladder answers (default HOOKLADDER_URL, else this host at the port of LISTEN or PORT, 8080)")
	cmd.Flags().StringVar(&c.keyFile, "key-file", "", "a file that holds the API key (default: the key in HOOKLADDER_KEY)")
}

// client makes the client that the flags and the environment ask for.
func (c *clientFlags) client() (*client.Client, error) { return c.clientAt(localServer) }

// clientAt is the same with another place to look for, where neither flag nor
// HOOKLADDER_URL name one.
func (c *clientFlags) clientAt(local func(vars map[string]string) (string, error)) (*client.Client, error) {
	server := cmp.Or(c.server, c.vars["HOOKLADDER_URL"])
	if server == "" {
		var err error
		if server, err = local(c.vars); err != nil {
			return nil, usageError{err}
		}
	}
	key := c.vars["HOOKLADDER_KEY"]
	if c.keyFile != "" {
		text, err := os.ReadFile(c.keyFile)
		if err != nil {
			return nil, usagef("--key-file: %w", err)
		}
		key = strings.TrimSpace(string(text))
	}
	made, err := client.New(server, key)
	if err != nil {
		return nil, usageError{err}
	}
	return made, nil
}

// localServer is where a Hookladder with the same environment answers.
func localServer(vars map[string]string) (string, error) {
	listen := vars["LISTEN"]
	switch {
	case listen == listenOff:
		return "", errors.New("LISTEN=off serves no API here: name one with --server or HOOKLADDER_URL")
	case listen == "" && vars["PORT"] != "":
		listen = ":" + vars["PORT"]
	}
	return thisHost(listen), nil
}

// healthServer is where it tells how it is, also without an API. A health check
// inside a container so finds it without a flag.
func healthServer(vars map[string]string) (string, error) {
	switch {
	case vars["LISTEN"] != listenOff:
		return localServer(vars)
	case vars["METRICS_LISTEN"] == "":
		return "", errors.New("LISTEN=off and METRICS_LISTEN is not set: a dispatcher without an address can't be asked how it is. Give it one with METRICS_LISTEN=127.0.0.1:9464, or name another with --server")
	}
	return thisHost(vars["METRICS_LISTEN"]), nil
}

// thisHost is how a process is called that listens there on this host.
func thisHost(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		host, port = "", "8080"
	}
	if host == "" || host == "0.0.0.0" || host == "::" { // all addresses, so this one too
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port)
}

// Times are shown to the millisecond, since that is how exact they are.
const (
	clock = "15:04:05.000"
	stamp = "2006-01-02 15:04:05.000 MST"
)

func when(t wire.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format(stamp)
}

// waits are the words of waiting_for as people say them.
var waits = map[string]string{
	"due":         "waiting for its time",
	"rung":        "waiting for its next rung",
	"paused":      "its destination is paused",
	"breaker":     "its destination keeps failing, so the breaker is open",
	"retry_after": "its destination asked to be left alone (Retry-After)",
	"rate":        "waiting for its turn: the rate of its endpoint is used up",
	"sealed":      "an instance can't open its endpoint: its ENCRYPTION_KEY lacks a key",
	"missing":     "its endpoint is not in the store",
	"order":       "waiting for the one before it",
	"limit":       "waiting for its turn: as many as may are in flight to its destination",
	"permits":     "waiting for a free permit",
}

// printDelivery tells how one delivery stands.
func printDelivery(out io.Writer, d wire.Delivery) {
	fmt.Fprintf(out, "%s\n", d.ID)
	row := func(name, text string) {
		if text != "" {
			fmt.Fprintf(out, "  %-12s %s\n", name, text)
		}
	}
	row("to", visible(d.URL))
	status := d.Status
	if d.DeadReason != "" {
		status += ", " + d.DeadReason
	}
	if why := waits[d.WaitingFor]; why != "" {
		status += ", " + why
		if until := d.WaitingUntil; !until.IsZero() && until != d.NextAttemptAt {
			status += ", until " + when(until)
		}
	}
	row("status", status)
	if d.Topic != "" { // else the key may not read, and was told the status alone
		row("attempts", fmt.Sprint(d.Attempts))
	}
	if d.LastStatusCode != 0 {
		row("last status", fmt.Sprint(d.LastStatusCode))
	}
	row("last error", visible(d.LastError))
	if !d.DeliveredAt.IsZero() {
		row("delivered", when(d.DeliveredAt))
	} else if !d.EndedAt.IsZero() {
		row("ended", when(d.EndedAt))
	}
	if !d.NextAttemptAt.IsZero() {
		row("next attempt", when(d.NextAttemptAt))
	}
	for _, a := range d.History {
		printAttempt(out, a)
	}
}

func printAttempt(out io.Writer, a wire.Attempt) {
	answer := "no answer"
	if a.StatusCode != 0 {
		answer = fmt.Sprint(a.StatusCode)
	}
	took := (time.Duration(a.DurationMS) * time.Millisecond).String()
	if a.DurationMS == 0 {
		took = "<1ms"
	}
	fmt.Fprintf(out, "  attempt %-4d %s  %s  %s in %s", a.Attempt, when(a.At), a.Outcome, answer, took)
	if a.Error != "" {
		fmt.Fprintf(out, "  %s", visible(a.Error))
	}
	fmt.Fprintln(out)
	printExcerpt(out, a.ResponseExcerpt)
}

// What is shown of an answer, so that one page of HTML does not fill the screen.
const (
	shownExcerpt = 512 // bytes
	shownLines   = 8
)

// printExcerpt shows the beginning of what a receiver answered, each line behind
// a bar, so that none looks like one of ours.
func printExcerpt(out io.Writer, text string) {
	more := len(text) > shownExcerpt
	if more {
		text = strings.ToValidUTF8(text[:shownExcerpt], "")
	}
	lines := slices.Collect(strings.Lines(text))
	if len(lines) > shownLines {
		lines, more = lines[:shownLines], true
	}
	for i, line := range lines {
		line = strings.TrimRight(line, "\r\n")
		if more && i == len(lines)-1 {
			line += " ..."
		}
		fmt.Fprintf(out, "    | %s\n", visible(line))
	}
}

func printJSON(out io.Writer, v any) error {
	enc := json.NewEncoder(plainJSON{out})
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

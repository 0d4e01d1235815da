package main

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// supervisor is the systemd that started this process.
type supervisor struct {
	socket   string        // empty: there is none
	watchdog time.Duration // 0: it does not expect a sign of life
}

// supervisorFrom returns the supervisor in the environment, which has NOTIFY_SOCKET for Type=notify and
// WATCHDOG_USEC for WatchdogSec.
func supervisorFrom(vars map[string]string) supervisor {
	micros, _ := strconv.ParseInt(vars["WATCHDOG_USEC"], 10, 64)
	return supervisor{socket: vars["NOTIFY_SOCKET"], watchdog: max(time.Duration(micros)*time.Microsecond, 0)}
}

// Ready reports that the process serves requests. Until ctx ends, it reports signs of life, as long
// as alive returns nil and the API at addr, if there is one, answers /healthz. After ctx ended, it
// reports the stop. It returns at once.
func (s supervisor) Ready(ctx context.Context, addr string, alive func() error) {
	if s.socket == "" {
		return
	}
	s.report("READY=1")
	due, end := s.signs()
	go func() { // it ends with the process
		defer end()
		for {
			select {
			case <-ctx.Done():
				s.report("STOPPING=1")
				ctx = context.Background() // a stop may take longer than the watchdog waits
			case <-due:
				if s.healthy(addr, alive) {
					s.report("WATCHDOG=1")
				}
			}
		}
	}()
}

// signs returns the times at which a sign of life is due: twice as often as systemd expects it.
func (s supervisor) signs() (due <-chan time.Time, end func()) {
	if s.watchdog == 0 {
		return nil, func() {}
	}
	tick := time.NewTicker(s.watchdog / 2)
	return tick.C, tick.Stop
}

// healthy reports whether the process is alive and its API answers. During a stop its listener may be closed, which counts as
// an answer: only a process that hangs must be killed.
func (s supervisor) healthy(addr string, alive func() error) bool {
	if alive() != nil {
		return false
	}
	at, err := netip.ParseAddrPort(addr)
	if err != nil {
		return true // it has no API
	}
	if at.Addr().IsUnspecified() {
		at = netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), at.Port())
	}
	client := http.Client{Timeout: s.watchdog / 4}
	res, err := client.Get("http://" + at.String() + "/healthz")
	if err != nil {
		return strings.Contains(err.Error(), "refused")
	}
	return res.Body.Close() == nil // an API that is too busy to say more is alive too
}

// report sends one state. An error changes nothing: systemd then acts as its unit says.
func (s supervisor) report(state string) {
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: s.socket, Net: "unixgram"}) // a name that begins with @ is abstract
	if err != nil {
		return
	}
	defer conn.Close() //nolint:errcheck // the datagram is sent
	_, _ = conn.Write([]byte(state))
}

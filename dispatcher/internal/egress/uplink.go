package egress

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

const (
	// checkEvery is the shortest time between two checks of one kind. While our network
	// is down, a check runs that often.
	checkEvery = time.Second
	// checkWithin is the timeout of a check.
	checkWithin = 2 * time.Second
)

// uplink decides whether a failed attempt is the fault of our own network. For that it
// runs checks: calls that fail only if our network is down. It never counts failed
// attempts, because a tenant decides which receivers fail.
type uplink struct {
	proxy    *proxy
	resolver *resolverCheck
	datagram func(to netip.AddrPort) error // connects a datagram socket, which sends nothing

	mu      sync.Mutex // guards the fields below
	latest  map[dispatcher.EgressFault]*networkCheck
	down    map[dispatcher.EgressFault]error    // the error of the last failed check, by kind
	known   bool                                // there was a check
	failing string                              // the host whose lookup failed last
	worked  [2]netip.AddrPort                   // the address that was reached last: IPv4, IPv6
	lost    [2]bool                             // families without a route
	timer   *time.Timer                         // of the next round of checks; nil: none is scheduled
	changed func(dispatcher.EgressFault, error) // nil: there is no watcher
}

// networkCheck is one check, which several attempts may wait for.
type networkCheck struct {
	began time.Time
	done  chan struct{} // closed when err is set
	err   error         // nil: it succeeded
}

func newUplink(r Resolver, p *proxy) *uplink {
	return &uplink{
		proxy: p, resolver: &resolverCheck{resolver: r}, datagram: datagramTo,
		latest: map[dispatcher.EgressFault]*networkCheck{}, down: map[dispatcher.EgressFault]error{},
	}
}

// watch calls changed whenever the result of the checks changes, until ctx ends.
func (u *uplink) watch(ctx context.Context, changed func(dispatcher.EgressFault, error)) {
	u.mu.Lock()
	u.changed = changed
	u.scheduleRecheck()
	u.mu.Unlock()
	context.AfterFunc(ctx, func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.changed = nil
		if u.timer != nil {
			u.timer.Stop()
			u.timer = nil
		}
	})
}

// reachedAddr remembers an address that a connection was opened to.
func (u *uplink) reachedAddr(to netip.AddrPort) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.worked[family(to.Addr())] = to
}

// family returns the index of an address in uplink.worked.
func family(a netip.Addr) int {
	if a.Unmap().Is4() {
		return 0
	}
	return 1
}

// fault returns the kind of our own fault that made the attempt fail, or "" if it is not
// ours. It may wait for a check, but no longer than the call is not cancelled.
func (u *uplink) fault(call context.Context, host string, err error) dispatcher.EgressFault {
	var stage *stageError
	var away *proxyUnreachable
	var routes *noRouteError
	switch {
	case errors.Is(err, context.Canceled), exhausted(err):
		return ""
	case errors.As(err, &away):
		if c := u.check(dispatcher.FaultProxy, host); late(err) && !c.failed(call) {
			return "" // because the endpoint's timeout may be very short
		}
		return dispatcher.FaultProxy
	case errors.As(err, &routes):
		if u.routeLost(routes) {
			return dispatcher.FaultRoute
		}
		return ""
	case errors.As(err, &stage) && stage.class == dispatcher.ClassDNS && !answeredLookup(stage.err):
		if u.check(dispatcher.FaultResolver, host).failed(call) {
			return dispatcher.FaultResolver
		}
	}
	return ""
}

// failed waits for a check and reports whether it failed. It returns false early if the
// call is cancelled. The call's timeout does not end the wait, because a lookup that used
// all of the time needs the check as well.
func (c *networkCheck) failed(call context.Context) bool {
	select {
	case <-c.done:
		return c.err != nil
	case <-call.Done():
	}
	if errors.Is(call.Err(), context.Canceled) {
		return false
	}
	<-c.done // returns within checkWithin
	return c.err != nil
}

// check returns the last check of a kind, or starts a new one if the last began a while
// ago.
func (u *uplink) check(why dispatcher.EgressFault, host string) *networkCheck {
	u.mu.Lock()
	defer u.mu.Unlock()
	if why == dispatcher.FaultResolver && host != "" {
		u.failing = host
	}
	c := u.latest[why]
	if c != nil && time.Since(c.began) < checkEvery {
		return c
	}
	c = &networkCheck{began: time.Now(), done: make(chan struct{})}
	u.latest[why] = c
	failing := u.failing
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), checkWithin)
		defer cancel()
		if why == dispatcher.FaultProxy {
			c.err = u.proxy.check(ctx)
		} else {
			c.err = u.resolver.run(ctx, failing)
		}
		u.found(why, c.err)
		close(c.done)
	}()
	return c
}

// routes are the system's errors for an address without a route.
var routes = []syscall.Errno{syscall.ENETUNREACH, syscall.EHOSTUNREACH, syscall.EADDRNOTAVAIL, syscall.ENETDOWN}

// noRouteError is the error of an attempt if the system has no route to any address of
// the receiver.
type noRouteError struct {
	err      error
	families [2]bool // of the addresses
	netDown  bool    // an interface is down
}

func (e *noRouteError) Error() string { return e.err.Error() }
func (e *noRouteError) Unwrap() error { return e.err }

// routeLost reports whether our own route is missing. The receiver's address is no
// evidence, because a tenant may name one that has no route. So routeLost checks the
// address of the same family that was reached last. A family that never worked is not
// counted.
func (u *uplink) routeLost(e *noRouteError) bool {
	u.mu.Lock()
	worked := u.worked
	u.mu.Unlock()
	lost := [2]bool{}
	var why error
	for f, has := range e.families {
		if !has || !worked[f].IsValid() {
			continue
		}
		if err := u.datagram(worked[f]); err != nil {
			lost[f], why = true, err
		}
	}
	if why != nil {
		u.mu.Lock()
		for f := range lost {
			u.lost[f] = u.lost[f] || lost[f]
		}
		u.mu.Unlock()
		u.found(dispatcher.FaultRoute, why)
	}
	return why != nil || e.netDown
}

// checkRoutes connects a datagram socket again for each family without a route.
func (u *uplink) checkRoutes() error {
	u.mu.Lock()
	lost, worked := u.lost, u.worked
	u.mu.Unlock()
	var why error
	for f := range lost {
		if !lost[f] {
			continue
		}
		if err := u.datagram(worked[f]); err != nil {
			why = err
		} else {
			lost[f] = false
		}
	}
	u.mu.Lock()
	u.lost = lost
	u.mu.Unlock()
	return why
}

// found records the result of a check. While a check fails, it is repeated.
func (u *uplink) found(why dispatcher.EgressFault, err error) {
	u.mu.Lock()
	news := !u.known || (u.down[why] == nil) != (err == nil)
	u.known = true
	if err != nil {
		u.down[why] = err
	} else {
		delete(u.down, why)
	}
	u.scheduleRecheck()
	changed := u.changed
	u.mu.Unlock()
	if news && changed != nil {
		changed(why, err)
	}
}

// scheduleRecheck schedules the failed checks again, if there is a watcher. The caller
// holds mu.
func (u *uplink) scheduleRecheck() {
	if len(u.down) > 0 && u.timer == nil && u.changed != nil {
		u.timer = time.AfterFunc(checkEvery, u.recheck)
	}
}

// recheck runs the failed checks once more.
func (u *uplink) recheck() {
	u.mu.Lock()
	u.timer = nil
	down := make([]dispatcher.EgressFault, 0, len(u.down))
	for why := range u.down {
		down = append(down, why)
	}
	watched := u.changed != nil
	u.mu.Unlock()
	if !watched {
		return
	}
	for _, why := range down {
		if why == dispatcher.FaultRoute {
			u.found(why, u.checkRoutes())
			continue
		}
		c := u.check(why, "")
		<-c.done
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.scheduleRecheck()
}

// state returns the result of the checks. The caller holds mu.
func (u *uplink) state() dispatcher.NetworkState {
	switch {
	case len(u.down) > 0:
		return dispatcher.NetworkDown
	case u.known:
		return dispatcher.NetworkUp
	}
	return dispatcher.NetworkUnknown
}

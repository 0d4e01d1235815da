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
	// controlEvery is the shortest time between two controls of one kind. While our
	// network is down, they are made that often.
	controlEvery = time.Second
	// controlWithin bounds a control.
	controlWithin = 2 * time.Second
)

// uplink judges whether a failed attempt is the fault of our own network. It makes
// controls for that: calls that fail only if our network is down. A tenant decides
// which receivers fail, so no number of failed attempts says anything about us.
type uplink struct {
	proxy     *proxy
	questions *questions
	datagram  func(to netip.AddrPort) error // connects a datagram socket, which sends nothing

	mu      sync.Mutex // guards what follows
	latest  map[dispatcher.EgressFault]*control
	down    map[dispatcher.EgressFault]error    // why the last control of a kind failed
	known   bool                                // there was a control
	failing string                              // the host whose look-up failed last
	worked  [2]netip.AddrPort                   // the address that answered last: IPv4, IPv6
	lost    [2]bool                             // families whose route is missing
	timer   *time.Timer                         // of the next round of controls; nil: none is due
	changed func(dispatcher.EgressFault, error) // nil: it is not watched
}

// control is one control, which several attempts may wait for.
type control struct {
	began time.Time
	done  chan struct{} // closed when err is set
	err   error         // nil: it succeeded
}

func newUplink(r Resolver, p *proxy) *uplink {
	return &uplink{
		proxy: p, questions: &questions{resolver: r}, datagram: datagramTo,
		latest: map[dispatcher.EgressFault]*control{}, down: map[dispatcher.EgressFault]error{},
	}
}

// watch has changed called whenever what the controls find changes, until ctx ends.
func (u *uplink) watch(ctx context.Context, changed func(dispatcher.EgressFault, error)) {
	u.mu.Lock()
	u.changed = changed
	u.rest()
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

// answered remembers an address that a connection was opened to.
func (u *uplink) answered(to netip.AddrPort) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.worked[family(to.Addr())] = to
}

// family is the place of an address in uplink.worked.
func family(a netip.Addr) int {
	if a.Unmap().Is4() {
		return 0
	}
	return 1
}

// fault is the kind of our own fault that made the attempt of a call fail; empty: it
// is not ours. It may wait for a control, but not once the call was cancelled.
func (u *uplink) fault(call context.Context, host string, err error) dispatcher.EgressFault {
	var stage *stageError
	var away *proxyAway
	var routes *noRouteError
	switch {
	case errors.Is(err, context.Canceled), exhausted(err):
		return ""
	case errors.As(err, &away):
		if c := u.control(dispatcher.FaultProxy, host); late(err) && !c.failed(call) {
			return "" // the receiver's endpoint may allow very little time
		}
		return dispatcher.FaultProxy
	case errors.As(err, &routes):
		if u.routeLost(routes) {
			return dispatcher.FaultRoute
		}
		return ""
	case errors.As(err, &stage) && stage.class == dispatcher.ClassDNS && !answeredLookup(stage.err):
		if u.control(dispatcher.FaultResolver, host).failed(call) {
			return dispatcher.FaultResolver
		}
	}
	return ""
}

// failed waits for a control and reports whether it failed. It does not wait any longer
// once the call was cancelled. The end of a call's time does not matter: a look-up that
// used all of it needs the control as well.
func (c *control) failed(call context.Context) bool {
	select {
	case <-c.done:
		return c.err != nil
	case <-call.Done():
	}
	if errors.Is(call.Err(), context.Canceled) {
		return false
	}
	<-c.done // within controlWithin
	return c.err != nil
}

// control is the last control of a kind, or a new one if that began a while ago.
func (u *uplink) control(why dispatcher.EgressFault, host string) *control {
	u.mu.Lock()
	defer u.mu.Unlock()
	if why == dispatcher.FaultResolver && host != "" {
		u.failing = host
	}
	c := u.latest[why]
	if c != nil && time.Since(c.began) < controlEvery {
		return c
	}
	c = &control{began: time.Now(), done: make(chan struct{})}
	u.latest[why] = c
	failing := u.failing
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), controlWithin)
		defer cancel()
		if why == dispatcher.FaultProxy {
			c.err = u.proxy.check(ctx)
		} else {
			c.err = u.questions.ask(ctx, failing)
		}
		u.found(why, c.err)
		close(c.done)
	}()
	return c
}

// routes are the system's errors that say that there is no way to an address.
var routes = []syscall.Errno{syscall.ENETUNREACH, syscall.EHOSTUNREACH, syscall.EADDRNOTAVAIL, syscall.ENETDOWN}

// noRouteError is the error of an attempt for which the system knew no way to any
// address of the receiver.
type noRouteError struct {
	err      error
	families [2]bool // of the addresses
	netDown  bool    // an interface is down
}

func (e *noRouteError) Error() string { return e.err.Error() }
func (e *noRouteError) Unwrap() error { return e.err }

// routeLost reports whether our own route is missing. The receiver's own address says
// little: a tenant may name one that has no route. So the address of the same family
// that answered last is used. A family that never worked is not ours to have.
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

// checkRoutes connects a datagram socket again for each family whose route is missing.
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

// found notes the result of a control. While one fails, controls go on.
func (u *uplink) found(why dispatcher.EgressFault, err error) {
	u.mu.Lock()
	news := !u.known || (u.down[why] == nil) != (err == nil)
	u.known = true
	if err != nil {
		u.down[why] = err
	} else {
		delete(u.down, why)
	}
	u.rest()
	changed := u.changed
	u.mu.Unlock()
	if news && changed != nil {
		changed(why, err)
	}
}

// rest has what is down controlled again after a while, if it is watched. The caller
// holds mu.
func (u *uplink) rest() {
	if len(u.down) > 0 && u.timer == nil && u.changed != nil {
		u.timer = time.AfterFunc(controlEvery, u.again)
	}
}

// again makes the controls that failed once more.
func (u *uplink) again() {
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
		c := u.control(why, "")
		<-c.done
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.rest()
}

// state is what the controls found. The caller holds mu.
func (u *uplink) state() dispatcher.NetworkState {
	switch {
	case len(u.down) > 0:
		return dispatcher.NetworkDown
	case u.known:
		return dispatcher.NetworkUp
	}
	return dispatcher.NetworkUnknown
}

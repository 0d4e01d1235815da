package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

const (
	// headStart is how long a connection attempt runs before the next address is tried
	// beside it. RFC 8305 recommends a quarter of a second.
	headStart = 250 * time.Millisecond
	// maxAddrs bounds the addresses tried for one name, so that a name can't make us
	// connect to hundreds of hosts.
	maxAddrs = 8
	// handshakesAtOnce bounds the memory of handshakes to 25 MiB. Two cores make about 2,000
	// handshakes a second, so few of them run at once.
	handshakesAtOnce = 256
	// slowHandshake is the time after which a handshake no longer counts. It is longer than
	// most round trips to a receiver. If receivers hang, each place serves ten a second.
	slowHandshake = 100 * time.Millisecond
)

// dialer opens connections to addresses that the guard allows. It resolves names itself,
// so that it can distinguish an address that is not allowed from one that does not
// respond.
type dialer struct {
	guard    *Guard
	links    *Guard // for URLs that were set through a link
	uplink   *uplink
	resolver Resolver
	hosts    Resolver // of the system's hosts file; nil: resolver is not the system's
	tls      *tls.Config
	short    *tls.Config // for targets that do not answer a long ClientHello
	hellos   *hellos
	quick    bool   // there are retries within a call
	proxy    *proxy // nil: no proxy
	tcp      dialFunc

	handshakes chan struct{} // has an element for each handshake that counts
}

type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

func newDialer(o Options) *dialer {
	d := &dialer{guard: o.Guard, links: o.LinkGuard, resolver: o.Resolver, hosts: o.hosts, handshakes: make(chan struct{}, handshakesAtOnce), tls: &tls.Config{
		MinVersion:         tls.VersionTLS12,
		RootCAs:            o.RootCAs,
		Certificates:       o.Certificates,
		NextProtos:         []string{"http/1.1"},
		ClientSessionCache: tls.NewLRUClientSessionCache(maxSessions),
	}}
	d.short, d.hellos, d.quick = newShort(d.tls), newHellos(), o.QuickRetries > 0
	d.proxy = newProxy(o.Proxy, d.tls)
	d.uplink = newUplink(o.Resolver, d.proxy)
	direct := net.Dialer{ControlContext: d.control}
	d.tcp = direct.DialContext
	return d
}

// guardOf returns the guard for the call that a dial belongs to.
func (d *dialer) guardOf(ctx context.Context) *Guard {
	if t := callStateOf(ctx); t != nil && t.call.Linked {
		return d.links
	}
	return d.guard
}

// control checks the address that the system is about to connect to. It is the last
// check.
func (d *dialer) control(ctx context.Context, _, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	return d.guardOf(ctx).Addr(to)
}

// stageError is the error of one part of a dial.
type stageError struct {
	class dispatcher.Class
	text  string // for people, printed before the cause
	err   error
}

func (e *stageError) Error() string { return e.text + ": " + e.err.Error() }
func (e *stageError) Unwrap() error { return e.err }

// dialTLS opens a connection and makes the TLS handshake.
func (d *dialer) dialTLS(ctx context.Context, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	conn, err := d.open(ctx, address)
	if err != nil {
		return nil, err
	}
	enter(ctx, stageHandshake)
	target := strings.ToLower(undotted(address))
	how, known := d.hellos.of(target)
	config := d.tls.Clone()
	if how.short {
		config = d.short.Clone()
	}
	config.ServerName = undotted(host)
	wire := &listening{Conn: conn}
	secure := tls.Client(wire, config)
	if err := d.handshake(ctx, secure, wire, d.patience(ctx, known)); err != nil {
		_ = conn.Close()
		if wire.unheard(err) {
			err = &unanswered{err, how.short, d.hellos.unanswered(target, how.short)}
		}
		return nil, &stageError{dispatcher.ClassTLS, "TLS handshake", err}
	}
	if how.short {
		d.hellos.answered(target)
	}
	if t := callStateOf(ctx); t != nil {
		t.short = how.short
	}
	return secure, nil
}

// patience returns how long a handshake waits for the first byte; 0: as long as the call. Only
// the first try of a call to a target of which nothing is known waits shorter, so that
// the short ClientHello can be tried within the call.
func (d *dialer) patience(ctx context.Context, known bool) time.Duration {
	t := callStateOf(ctx)
	end, ends := ctx.Deadline()
	if known || !d.quick || !ends || t == nil || t.retries {
		return 0
	}
	return time.Until(end) / 2
}

// handshake makes a TLS handshake on a goroutine of its own. A handshake grows the stack to 32
// KiB, and a call would keep that much while it waits for the response. Handshakes take 100
// KiB each in all, so their number is bounded. A slow receiver loses its place to the next
// one.
func (d *dialer) handshake(ctx context.Context, secure *tls.Conn, wire *listening, patience time.Duration) error {
	select {
	case d.handshakes <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	leave := sync.OnceFunc(func() { <-d.handshakes })
	defer leave()
	slow := time.AfterFunc(slowHandshake, leave)
	defer slow.Stop()
	if patience > 0 {
		waits := time.AfterFunc(patience, wire.hurry)
		defer waits.Stop()
	}
	var err error
	var fault any
	over := make(chan struct{})
	go func() {
		defer close(over)
		defer func() { fault = recover() }() // the goroutine of the call handles it, as each fault of an attempt
		err = secure.HandshakeContext(ctx)
	}()
	<-over
	if fault != nil {
		panic(fault)
	}
	return err
}

// enter records how far the dial of a call got.
func enter(ctx context.Context, stage int) {
	if t := callStateOf(ctx); t != nil {
		t.stage = stage
	}
}

// open opens a plain connection to address, a host and a port.
func (d *dialer) open(ctx context.Context, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("port %.10q: %w", port, err)
	}
	enter(ctx, stageLookup)
	lookups, stop := context.WithCancel(ctx)
	defer stop() // ends a query that is still unanswered
	found, late, err := d.lookup(lookups, host)
	if err != nil {
		return nil, err
	}
	guard := d.guardOf(ctx)
	to, err := allowed(guard, found, uint16(n))
	if err != nil && late != nil {
		to, err = allowed(guard, append(found, (<-late).addrs...), uint16(n))
		late = nil
	}
	if err != nil {
		return nil, err
	}
	var more chan []netip.AddrPort
	if late != nil {
		more = make(chan []netip.AddrPort, 1)
		go func() {
			may, _ := allowed(guard, (<-late).addrs, uint16(n))
			more <- may
		}()
	}
	if d.proxy != nil {
		enter(ctx, stageProxy)
	} else {
		enter(ctx, stageConnect)
	}
	conn, err := d.race(ctx, to, more)
	if err != nil {
		return nil, err
	}
	if r, ok := conn.(*reached); ok {
		if t := callStateOf(ctx); t != nil {
			t.address = r.to.String()
		}
		conn = r.Conn
	}
	return conn, nil
}

// reached is a connection with the receiver's address. Behind a proxy, the address of the
// connection itself is the proxy's.
type reached struct {
	net.Conn
	to netip.AddrPort
}

// allowed returns the addresses that the guard allows at a port, at most maxAddrs. The two families
// alternate, and the resolver's first choice comes first. If no address is allowed, it
// returns the first refusal.
func allowed(guard *Guard, found []netip.Addr, port uint16) ([]netip.AddrPort, error) {
	var refused error
	var first, second []netip.AddrPort // by family; the family of the first choice is in first
	for _, a := range found {
		to := netip.AddrPortFrom(a.Unmap(), port)
		if err := guard.Addr(to); err != nil {
			if refused == nil {
				refused = err
			}
			continue
		}
		if len(first) == 0 || to.Addr().Is4() == first[0].Addr().Is4() {
			first = append(first, to)
		} else {
			second = append(second, to)
		}
	}
	if len(first) == 0 {
		return nil, refused
	}
	turns := inTurn(first, second)
	return turns[:min(len(turns), maxAddrs)], nil
}

// inTurn joins two lists whose elements alternate, beginning with a.
func inTurn(a, b []netip.AddrPort) []netip.AddrPort {
	turns := make([]netip.AddrPort, 0, len(a)+len(b))
	for i := range max(len(a), len(b)) {
		if i < len(a) {
			turns = append(turns, a[i])
		}
		if i < len(b) {
			turns = append(turns, b[i])
		}
	}
	return turns
}

// race connects to the first address that responds. If the system has no route to any of
// them, it returns a noRouteError.
func (d *dialer) race(ctx context.Context, to []netip.AddrPort, more <-chan []netip.AddrPort) (net.Conn, error) {
	if d.proxy != nil {
		return race(ctx, to, more, d.connect)
	}
	var mu sync.Mutex
	var none noRouteError
	tried, routeless := 0, 0
	conn, err := race(ctx, to, more, func(ctx context.Context, a netip.AddrPort) (net.Conn, error) {
		conn, err := d.connect(ctx, a)
		if err == nil {
			d.uplink.reachedAddr(a)
			return conn, nil
		}
		mu.Lock()
		defer mu.Unlock()
		tried++
		var errno syscall.Errno
		if errors.As(err, &errno) && slices.Contains(routes, errno) && !exhausted(err) {
			routeless++
			none.families[family(a.Addr())] = true
			none.netDown = none.netDown || errno == syscall.ENETDOWN
		}
		return nil, err
	})
	if err == nil || routeless < tried || ctx.Err() != nil {
		return conn, err
	}
	none.err = err
	return nil, &none
}

type connectFunc func(ctx context.Context, to netip.AddrPort) (net.Conn, error)

// race connects to the first address that responds. Each has a head start on the next,
// and if one fails, the next starts at once. Addresses that become known later come from more,
// once; nil: there are none. It returns after all its goroutines have ended.
func race(ctx context.Context, to []netip.AddrPort, more <-chan []netip.AddrPort, connect connectFunc) (net.Conn, error) {
	if len(to) == 1 && more == nil {
		return connect(ctx, to[0])
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	type result struct {
		conn net.Conn
		err  error
	}
	results := make(chan result)
	started, running := 0, 0
	turn := time.NewTimer(headStart)
	defer turn.Stop()
	var won net.Conn
	var failed error // the first error, because it is mostly about the resolver's first choice
	for next := true; ; {
		if next && won == nil && ctx.Err() == nil && len(to) > 0 {
			a := to[0]
			to = to[1:]
			started++
			running++
			next = false
			turn.Reset(headStart)
			go func() {
				conn, err := connect(ctx, a)
				results <- result{conn, err}
			}()
		}
		if running == 0 && (more == nil || won != nil) {
			break
		}
		select {
		case r := <-results:
			running--
			next = true
			switch {
			case r.err == nil && won == nil:
				won = r.conn
				stop()
			case r.err == nil:
				_ = r.conn.Close()
			case failed == nil || exhausted(r.err) && !exhausted(failed):
				failed = r.err // exhaustion wins, because it means that the receiver was not called
			}
		case <-turn.C:
			next = true
		case late := <-more:
			more = nil
			to = inTurn(late, to) // the other family has its chance already
			to = to[:min(len(to), maxAddrs-started)]
		}
	}
	switch {
	case won != nil:
		return won, nil
	case failed == nil: // ctx had ended before the first one
		return nil, context.Cause(ctx)
	default:
		return nil, failed
	}
}

// connect opens a connection to an address that the guard allowed, and checks it once
// more. This is the last step before the system or the proxy gets the address.
func (d *dialer) connect(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	if d.proxy != nil {
		if err := d.guardOf(ctx).Addr(to); err != nil {
			return nil, err
		}
		conn, err := d.proxy.open(ctx, to)
		if err != nil {
			return nil, err
		}
		return &reached{conn, to}, nil
	}
	conn, err := d.tcp(ctx, "tcp", to.String())
	if err != nil {
		return nil, &stageError{dispatcher.ClassConnect, "connect to " + to.String(), markExhausted(bare(err), to, d.uplink.datagram)}
	}
	return &reached{conn, to}, nil
}

// bare returns the system's own error, without the addresses in the text of its wrapper.
func bare(err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return err
}

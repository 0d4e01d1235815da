package redistest

import (
	"bytes"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
)

// Proxy forwards connections to a server. It can cut a connection or drop its data,
// like a network with faults.
type Proxy struct {
	t      testing.TB
	target string
	addr   string
	wg     sync.WaitGroup

	mu       sync.Mutex     // guards the fields below
	listener net.Listener   // nil if it refuses connections
	lines    map[*line]bool // open connections
	delay    time.Duration
	closed   bool
}

// line is one connection through the proxy.
type line struct {
	near, far net.Conn
	swallow   chan struct{} // closed when no more data passes
	end       chan struct{} // closed when the connection is cut
	swallowed sync.Once     // closes swallow once
	over      sync.Once     // cuts once
}

// NewProxy listens on a loopback port in front of target, a host:port. The proxy ends
// with the test.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	p := &Proxy{t: t, target: target, lines: map[*line]bool{}}
	var err error
	for range 5 { // another process may take the free port first
		p.addr = kit.Loopback(FreePort(t))
		if p.listener, err = net.Listen("tcp", p.addr); err == nil {
			break
		}
	}
	require.NoError(t, err)
	l := p.listener
	p.wg.Go(func() { p.serve(l) })
	t.Cleanup(func() {
		p.Refuse()
		p.mu.Lock()
		p.closed = true
		p.mu.Unlock()
		p.Cut()
		p.wg.Wait()
	})
	return p
}

// Addr returns its address as host:port.
func (p *Proxy) Addr() string { return p.addr }

// URL returns the Redis URL through the proxy.
func (p *Proxy) URL() string { return "redis://" + p.addr + "/0" }

// Cut closes all connections. New connections work.
func (p *Proxy) Cut() {
	for _, l := range p.open() {
		l.cut()
	}
}

// Swallow keeps all connections open but drops their data, and even their end. A
// connection behaves like this after its machine slept, or after a firewall removed
// it from its table. New connections work.
func (p *Proxy) Swallow() {
	for _, l := range p.open() {
		l.swallowed.Do(func() { close(l.swallow) })
	}
}

// Open returns the number of connections that are not cut.
func (p *Proxy) Open() int { return len(p.open()) }

// Refuse accepts no new connections. Open connections continue.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		_ = p.listener.Close()
		p.listener = nil
	}
}

// Accept accepts new connections again.
func (p *Proxy) Accept() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		return
	}
	l, err := net.Listen("tcp", p.addr)
	require.NoError(p.t, err)
	p.listener = l
	p.wg.Go(func() { p.serve(l) })
}

// Delay delays each reply of the server by d. The default is 0.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

func (p *Proxy) open() (lines []*line) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.lines {
		lines = append(lines, l)
	}
	return lines
}

func (p *Proxy) serve(l net.Listener) {
	for {
		near, err := l.Accept()
		if err != nil {
			return // refused from now on
		}
		p.wg.Go(func() { p.join(near) })
	}
}

// join forwards one connection until both directions have ended.
func (p *Proxy) join(near net.Conn) {
	far, err := net.DialTimeout("tcp", p.target, kit.Patience)
	if err != nil {
		_ = near.Close()
		return
	}
	l := &line{near: near, far: far, swallow: make(chan struct{}), end: make(chan struct{})}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		l.cut()
		return
	}
	p.lines[l] = true
	p.mu.Unlock()
	var ways sync.WaitGroup
	ways.Go(func() { l.carry(far, near, func() time.Duration { return 0 }) })
	ways.Go(func() { l.carry(near, far, p.late) })
	ways.Wait()
	p.mu.Lock()
	delete(p.lines, l)
	p.mu.Unlock()
}

func (p *Proxy) late() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.delay
}

// chunk is the data of one read, and the time when it may pass.
type chunk struct {
	data []byte
	due  time.Time
}

// chunksMost is the limit for delayed chunks. At the limit the sender waits, as on a
// real line.
const chunksMost = 256

// carry copies data in one direction until the connection is cut or a side ends it.
// The end of a connection is delayed like its data. A delayed chunk does not block
// the next read.
func (l *line) carry(to, from net.Conn, late func() time.Duration) {
	chunks := make(chan chunk, chunksMost)
	var reader sync.WaitGroup
	reader.Go(func() {
		defer close(chunks)
		buffer := make([]byte, 64<<10)
		for {
			n, err := from.Read(buffer)
			select {
			case chunks <- chunk{data: bytes.Clone(buffer[:n]), due: time.Now().Add(late())}:
			case <-l.end:
				return
			}
			if err != nil {
				return
			}
		}
	})
	defer reader.Wait()
	defer l.cut()
	for c := range chunks {
		if wait := time.Until(c.due); wait > 0 {
			select {
			case <-time.After(wait):
			case <-l.end:
				return
			}
		}
		select {
		case <-l.swallow:
			<-l.end
			return
		default:
		}
		if _, err := to.Write(c.data); err != nil {
			return
		}
	}
	select {
	case <-l.swallow:
		<-l.end // a connection's end does not pass either
	default:
	}
}

func (l *line) cut() {
	l.over.Do(func() {
		close(l.end)
		_ = l.near.Close()
		_ = l.far.Close()
	})
}

package engine_test

import (
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

// mini is a Redis in memory, by the clock of the bubble that it is in.
type mini struct {
	*miniredis.Miniredis
	server  *server.Server // also for a command that comes while it closes
	running atomic.Int64   // scripts
	skew    atomic.Int64   // of its clock, against the host's, in ns
	careful atomic.Bool    // a new lane begins as it really does

	mu    sync.Mutex // guards the fields below
	at    time.Time  // of the last command
	ticks time.Duration
}

// A new lane begins with two deliveries in flight. Here it begins as if it had
// answered well for long: so a test has as much under way as it asks for.
const slowStart = "local FIRST_WINDOW, UNKNOWN, WORST = 2, 3, 8"

var fastStart = strings.NewReplacer(slowStart, "local FIRST_WINDOW, UNKNOWN, WORST = 1048576, 3, 8", "{ slow = UNKNOWN,", "{ slow = 0,")

// scripts are the texts of all scripts by their SHA-1. Each server would parse
// them anew, which takes longer than most tests.
var scripts sync.Map

func newMini(t testing.TB) *mini {
	t.Helper()
	m := &mini{Miniredis: miniredis.NewMiniRedis()}
	m.ClockTTL(true)
	t.Cleanup(m.Close)
	c, err := m.Dial() // which makes its server
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	m.server = m.Server()
	m.server.SetPreHook(m.before)
	return m
}

// before runs before each command.
func (m *mini) before(c *server.Peer, name string, args ...string) bool {
	switch {
	case name == "SCRIPT" && strings.EqualFold(args[0], "LOAD"):
		if strings.Contains(args[1], "FIRST_WINDOW") && !strings.Contains(args[1], slowStart) {
			panic("the scripts say in other words how a new lane begins")
		}
		sum := sha1.Sum([]byte(args[1]))
		sha := hex.EncodeToString(sum[:])
		scripts.Store(sha, [2]string{fastStart.Replace(args[1]), args[1]})
		c.WriteBulk(sha)
		return true
	case name == "SCRIPT" && strings.EqualFold(args[0], "EXISTS"):
		c.WriteLen(len(args) - 1)
		for _, sha := range args[1:] {
			n := 0
			if _, ok := scripts.Load(sha); ok {
				n = 1
			}
			c.WriteInt(n)
		}
		return true
	case name == "EVALSHA":
		m.tick()
		if text, ok := scripts.Load(args[0]); ok {
			m.running.Add(1)
			defer m.running.Add(-1)
			m.server.Dispatch(c, append([]string{"EVAL", text.([2]string)[flag(m.careful.Load())]}, args[1:]...))
			return true
		}
	case name == "TIME" && m.running.Load() == 0: // a script has the time of its start
		m.tick()
	}
	return false
}

// now is its clock.
func (m *mini) now() time.Time {
	return time.Now().Add(time.Duration(m.skew.Load()))
}

// tick sets its clock. Commands of one instant would have no order.
func (m *mini) tick() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now := time.Now(); !now.Equal(m.at) {
		m.at, m.ticks = now, 0
	}
	m.ticks += time.Microsecond
	m.SetTime(m.at.Add(time.Duration(m.skew.Load()) + m.ticks%time.Millisecond))
}

// dial connects to it.
func (m *mini) dial(context.Context, string, string) (net.Conn, error) {
	c, err := m.Dial()
	if err != nil {
		return nil, err
	}
	return newPipe(c), nil
}

// pipe is an end of a net.Pipe that takes all that is written at once: a client
// writes a whole pipeline before it reads the first answer.
type pipe struct {
	net.Conn
	wake chan struct{} // 1 deep

	mu     sync.Mutex // guards the fields below
	buffer bytes.Buffer
	closed bool
}

func newPipe(c net.Conn) *pipe {
	p := &pipe{Conn: c, wake: make(chan struct{}, 1)}
	go p.pump()
	return p
}

func (p *pipe) pump() {
	for range p.wake {
		for {
			p.mu.Lock()
			b := bytes.Clone(p.buffer.Bytes())
			p.buffer.Reset()
			p.mu.Unlock()
			if len(b) == 0 {
				break
			}
			if _, err := p.Conn.Write(b); err != nil {
				return
			}
		}
	}
}

func (p *pipe) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return 0, net.ErrClosed
	}
	p.buffer.Write(b)
	select {
	case p.wake <- struct{}{}:
	default:
	}
	return len(b), nil
}

func (p *pipe) SetDeadline(t time.Time) error    { return p.Conn.SetReadDeadline(t) }
func (p *pipe) SetWriteDeadline(time.Time) error { return nil }

func (p *pipe) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return net.ErrClosed
	}
	p.closed = true
	close(p.wake)
	return p.Conn.Close()
}

// SyscallConn lets go-redis ask whether the other end closed it, of which a pipe
// knows nothing.
func (p *pipe) SyscallConn() (syscall.RawConn, error) { return openPipe{}, nil }

type openPipe struct{}

func (openPipe) Control(func(uintptr)) error    { return nil }
func (openPipe) Read(func(uintptr) bool) error  { return nil }
func (openPipe) Write(func(uintptr) bool) error { return nil }

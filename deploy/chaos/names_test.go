package chaos_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
)

// resolverAway is the fault of a resolver that does not answer, or answers nothing of use.
const resolverAway = "resolver away"

// names is a DNS server, and the instances ask it only: each has an /etc/resolv.conf of its own. That takes
// a mount namespace and port 53 of a loopback address, so it takes root.
type names struct {
	conf  string // a resolv.conf
	addr  string // of the server
	shell string // runs a program with conf in place of the machine's
	known map[string]netip.Addr

	mu     sync.Mutex // guards what follows
	conn   net.PacketConn
	answer func(query []byte) []byte // nil: it is silent
}

// errNoNames says why the instances have no resolver of their own.
var errNoNames = errors.New("receivers have no names here")

// newNames starts the server.
func newNames(t testing.TB) (*names, error) {
	t.Helper()
	n := &names{known: map[string]netip.Addr{}}
	server, err := n.claim(t)
	if err != nil {
		return nil, errors.Join(errNoNames, err)
	}
	n.conf = filepath.Join(t.TempDir(), "resolv.conf")
	require.NoError(t, os.WriteFile(n.conf, []byte("nameserver "+server+"\noptions timeout:1 attempts:2\n"), 0o644))
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		return nil, errors.Join(errNoNames, err)
	}
	n.shell = unshare
	command := n.wrapped("/bin/cat", "/etc/resolv.conf")
	if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil || !bytes.Contains(out, []byte(server)) {
		return nil, fmt.Errorf("%w: no mount namespace: %w: %s", errNoNames, err, out)
	}
	if err := n.listen(); err != nil {
		return nil, errors.Join(errNoNames, err)
	}
	t.Cleanup(n.close)
	return n, nil
}

// claim finds an address that no other run has. While the server is gone nothing listens for packets
// there, so a listener of TCP keeps the address until the test is over.
func (n *names) claim(t testing.TB) (server string, err error) {
	for i := range 250 {
		server = fmt.Sprintf("127.53.%d.53", i)
		n.addr = net.JoinHostPort(server, "53")
		var claimed net.Listener
		if claimed, err = net.Listen("tcp4", n.addr); err == nil {
			t.Cleanup(func() { _ = claimed.Close() })
			return server, nil
		}
	}
	return "", err
}

// wrapped is a command that runs a program with the server as its resolver. The process
// stays the same one.
func (n *names) wrapped(program string, args ...string) []string {
	return append([]string{n.shell, "-m", "/bin/sh", "-c", `mount --bind "$0" /etc/resolv.conf && exec "$@"`, n.conf, program}, args...)
}

// name gives an address a name in a domain of its own.
func (n *names) name(place string, addr netip.Addr) string {
	name := "hooks." + strings.TrimPrefix(place, "/") + "-shop.test"
	n.mu.Lock()
	defer n.mu.Unlock()
	n.known[name] = addr
	return name
}

func (n *names) listen() error {
	conn, err := net.ListenPacket("udp4", n.addr)
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.conn, n.answer = conn, n.find
	go n.serve(conn) // ends when conn is closed
	return nil
}

func (n *names) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	_ = n.conn.Close()
}

func (n *names) serve(conn net.PacketConn) {
	b := make([]byte, 1500)
	for {
		size, from, err := conn.ReadFrom(b)
		if err != nil {
			return
		}
		n.mu.Lock()
		answer := n.answer
		n.mu.Unlock()
		if answer == nil || size < dnsHeader+6 {
			continue
		}
		_, _ = conn.WriteTo(answer(bytes.Clone(b[:size])), from)
	}
}

// The parts of a DNS message, RFC 1035, section 4.1.
const (
	dnsHeader     = 12
	dnsOK         = 0
	dnsServerFail = 2
	dnsNoName     = 3
	dnsA          = 1
)

// find answers a question by the names that are known.
func (n *names) find(query []byte) []byte {
	var labels []string
	for at := dnsHeader; at < len(query) && query[at] != 0; {
		end := at + 1 + int(query[at])
		if end > len(query) {
			return reply(query, dnsServerFail, netip.Addr{})
		}
		labels = append(labels, string(query[at+1:end]))
		at = end
	}
	n.mu.Lock()
	addr, known := n.known[strings.ToLower(strings.Join(labels, "."))]
	n.mu.Unlock()
	switch {
	case !known:
		return reply(query, dnsNoName, addr)
	case question(query) != dnsA:
		return reply(query, dnsOK, netip.Addr{})
	}
	return reply(query, dnsOK, addr)
}

// questionEnd is where the question ends.
func questionEnd(query []byte) int {
	return dnsHeader + max(bytes.IndexByte(query[dnsHeader:], 0), 0) + 5 // the root label, type and class
}

func question(query []byte) uint16 {
	end := questionEnd(query)
	if end > len(query) {
		return 0
	}
	return binary.BigEndian.Uint16(query[end-4:])
}

// reply answers a question with one address or none.
func reply(query []byte, code byte, addr netip.Addr) []byte {
	b := bytes.Clone(query[:min(questionEnd(query), len(query))])
	count := byte(0)
	if addr.Is4() {
		raw := addr.As4()
		b = append(b, 0xc0, dnsHeader, 0, dnsA, 0, 1, 0, 0, 0, 0, 0, byte(len(raw)))
		b = append(b, raw[:]...)
		count = 1
	}
	copy(b[2:dnsHeader], []byte{0x81, 0x80 | code, 0, 1, 0, count, 0, 0, 0, 0})
	return b
}

// away makes the server useless until mended: it is silent, its port is closed, or it
// only says that it failed.
func (n *names) away(random *rand.Rand) (how string, mend func() error) {
	set := func(answer func([]byte) []byte) func() error {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.answer = answer
		return func() error {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.answer = n.find
			return nil
		}
	}
	switch random.IntN(3) {
	case 0:
		return "silent", set(nil)
	case 1:
		return "failing", set(func(q []byte) []byte { return reply(q, dnsServerFail, netip.Addr{}) })
	}
	n.close()
	return "gone", n.listen
}

// resolving breaks the resolver of all instances.
type resolving struct {
	*trouble
	names *names
}

func (b *resolving) away(ctx context.Context, random *rand.Rand) {
	mended := b.begins(resolverAway, "")
	how, mend := b.names.away(random)
	b.say("the resolver is %s", how)
	kit.Rest(ctx, between(random, 2*time.Second, b.longest))
	if err := mend(); err != nil {
		b.fleet.t.Error(err)
	}
	mended()
}

// blamed is the complaint about an attempt that counts against its receiver though the resolver was away.
const blamed = "blamed for our resolver"

// noticedWithin is how long an instance may take its resolver for one that works.
const noticedWithin = 2 * time.Second

// blamed judges that no receiver is blamed while the resolver is away.
func (j *judge) blamed() {
	for _, n := range j.h.notes {
		if !n.blames {
			continue
		}
		for _, f := range j.h.faults {
			if f.kind == resolverAway && n.at.After(f.from.Add(noticedWithin)) && n.at.Before(f.to) {
				j.complain(blamed, n.id, "attempt %d by %s at %s, the resolver was away from %s to %s",
					n.n, n.who, n.at.Format("15:04:05.000"), f.from.Format("15:04:05.000"), f.to.Format("15:04:05.000"))
			}
		}
	}
}

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
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
)

// The faults of the resolver.
const (
	resolverAway = "resolver away"            // it does not answer, or answers nothing of use
	resolverHalf = "resolver silent for IPv6" // which keeps no attempt from its receiver
)

// searchDomain is where a name is looked up that is not complete. Its wildcard record answers for every
// name there, as a network of one's own may have it in a cluster.
const searchDomain = "corp.test"

// wildcard is the address of that record. The receiver listens there too, but nobody is to be called there.
var wildcard = netip.AddrFrom4([4]byte{127, 80, 80, 80})

// names is a DNS server, and the instances ask it only: each has an /etc/resolv.conf of its own. That takes
// a mount namespace and port 53 of a loopback address, so it takes root.
type names struct {
	conf  string // a resolv.conf
	addr  string // of the server
	shell string // runs a program with conf in place of the machine's
	known map[string]netip.Addr
	wild  bool // there is a search domain

	mu     sync.Mutex // guards what follows
	conn   net.PacketConn
	answer func(query []byte) []byte // returns nil: there is no answer
}

// errNoNames says why the instances have no resolver of their own.
var errNoNames = errors.New("receivers have no names here")

// newNames starts the server. If wild is true, it has a search domain.
func newNames(t testing.TB, wild bool) (*names, error) {
	t.Helper()
	n := &names{known: map[string]netip.Addr{}, wild: wild}
	server, err := n.claim(t)
	if err != nil {
		return nil, errors.Join(errNoNames, err)
	}
	n.conf = filepath.Join(t.TempDir(), "resolv.conf")
	conf := "nameserver " + server + "\noptions timeout:1 attempts:2\n"
	if wild {
		conf += "search " + searchDomain + "\noptions ndots:5\n"
	}
	require.NoError(t, os.WriteFile(n.conf, []byte(conf), 0o644))
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
		if size < dnsHeader+6 {
			continue
		}
		if reply := answer(bytes.Clone(b[:size])); reply != nil {
			_, _ = conn.WriteTo(reply, from)
		}
	}
}

// The parts of a DNS message, RFC 1035, section 4.1.
const (
	dnsHeader     = 12
	dnsOK         = 0
	dnsServerFail = 2
	dnsNoName     = 3
	dnsA          = 1
	dnsAAAA       = 28
)

// find answers a question by the names that are known.
func (n *names) find(query []byte) []byte {
	name, whole := asked(query)
	if !whole {
		return fail(query)
	}
	n.mu.Lock()
	addr, known := n.known[name]
	n.mu.Unlock()
	if !known && n.searched(name) {
		addr, known = wildcard, true
	}
	switch {
	case !known:
		return reply(query, dnsNoName, addr)
	case question(query) != dnsA:
		return reply(query, dnsOK, netip.Addr{})
	}
	return reply(query, dnsOK, addr)
}

// searched reports whether a name is in the search domain.
func (n *names) searched(name string) bool {
	return n.wild && strings.HasSuffix(name, "."+searchDomain)
}

// asked is the name that a query asks for. If the query is cut, whole is false.
func asked(query []byte) (name string, whole bool) {
	var labels []string
	for at := dnsHeader; at < len(query) && query[at] != 0; {
		end := at + 1 + int(query[at])
		if end > len(query) {
			return "", false
		}
		labels = append(labels, string(query[at+1:end]))
		at = end
	}
	return strings.ToLower(strings.Join(labels, ".")), true
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

func fail(query []byte) []byte { return reply(query, dnsServerFail, netip.Addr{}) }

// way is a way in which the server is broken.
type way struct {
	how    string
	fault  string
	answer func(query []byte) []byte // nil: its port is closed
}

// ways are all of them.
func (n *names) ways() []way {
	all := []way{
		{"silent", resolverAway, func([]byte) []byte { return nil }},
		{"failing", resolverAway, fail},
		{"gone", resolverAway, nil},
	}
	if !n.wild {
		return all
	}
	return append(all,
		way{"silent for IPv6", resolverHalf, func(query []byte) []byte {
			if question(query) == dnsAAAA {
				return nil
			}
			return n.find(query)
		}},
		way{"failing but for its search domain", resolverAway, func(query []byte) []byte {
			if name, _ := asked(query); n.searched(name) {
				return n.find(query)
			}
			return fail(query)
		}},
	)
}

// breaks breaks the server in a way until mended.
func (n *names) breaks(w way) (mend func() error) {
	if w.answer == nil {
		n.close()
		return n.listen
	}
	set := func(answer func([]byte) []byte) {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.answer = answer
	}
	set(w.answer)
	return func() error {
		set(n.find)
		return nil
	}
}

// resolving breaks the resolver of all instances.
type resolving struct {
	*trouble
	names *names
}

func (b *resolving) away(ctx context.Context, random *rand.Rand) {
	ways := b.names.ways()
	way := ways[random.IntN(len(ways))]
	mended := b.begins(way.fault, "")
	mend := b.names.breaks(way)
	b.say("the resolver is %s", way.how)
	kit.Rest(ctx, between(random, 2*time.Second, b.longest))
	if err := mend(); err != nil {
		b.fleet.t.Error(err)
	}
	mended()
}

// blamed is the complaint about an attempt that counts against its receiver though the resolver was broken.
const blamed = "blamed for our resolver"

// noticedWithin is how long an instance may take its resolver for one that works.
const noticedWithin = 2 * time.Second

// lookedUpWithin is how long an attempt may wait for the resolver. An instance that stands still
// meanwhile misses the answer of a resolver that works.
const lookedUpWithin = 10 * time.Second

// blamed judges that no receiver is blamed while the resolver is broken.
func (j *judge) blamed() {
	for _, n := range j.h.notes {
		stoodStill := func(f *fault) bool {
			return f.kind == stopped && f.who == n.who && f.touches(n.at.Add(-lookedUpWithin), n.at)
		}
		if !n.blames || slices.ContainsFunc(j.h.faults, stoodStill) {
			continue
		}
		for _, f := range j.h.faults {
			if (f.kind == resolverAway || f.kind == resolverHalf) && n.at.After(f.from.Add(noticedWithin)) && n.at.Before(f.to) {
				j.complain(blamed, n.id, "attempt %d by %s at %s, %s from %s to %s",
					n.n, n.who, n.at.Format("15:04:05.000"), f.kind, f.from.Format("15:04:05.000"), f.to.Format("15:04:05.000"))
			}
		}
	}
}

// newTestQuery is a question of DNS.
func newTestQuery(name string, kind byte) []byte {
	q := make([]byte, dnsHeader)
	for _, label := range strings.Split(name, ".") {
		q = append(append(q, byte(len(label))), label...)
	}
	return append(q, 0, 0, kind, 0, 1)
}

// broken is the server's answer while it is broken in a way.
func (n *names) broken(t *testing.T, how, name string, kind byte) []byte {
	t.Helper()
	for _, w := range n.ways() {
		if w.how == how {
			return w.answer(newTestQuery(name, kind))
		}
	}
	require.Fail(t, "there is no such way", how)
	return nil
}

func TestTheResolverHasAWildcardInItsSearchDomain(t *testing.T) {
	n := &names{known: map[string]netip.Addr{}, wild: true}
	shop := netip.MustParseAddr("127.0.1.2")
	name := n.name("/d1", shop)
	searched := name + "." + searchDomain
	has := func(query []byte, a netip.Addr) []byte { return reply(query, dnsOK, a) }
	query := func(name string) []byte { return newTestQuery(name, dnsA) }
	require.Equal(t, has(query(name), shop), n.find(query(name)))
	require.Equal(t, has(query(searched), wildcard), n.find(query(searched)))
	require.Equal(t, reply(query("other.test"), dnsNoName, netip.Addr{}), n.find(query("other.test")))

	require.Nil(t, n.broken(t, "silent for IPv6", name, dnsAAAA))
	require.Equal(t, has(query(name), shop), n.broken(t, "silent for IPv6", name, dnsA))
	require.Equal(t, fail(query(name)), n.broken(t, "failing but for its search domain", name, dnsA))
	require.Equal(t, has(query(searched), wildcard), n.broken(t, "failing but for its search domain", searched, dnsA))

	n.wild = false
	require.Equal(t, reply(query(searched), dnsNoName, netip.Addr{}), n.find(query(searched)))
}

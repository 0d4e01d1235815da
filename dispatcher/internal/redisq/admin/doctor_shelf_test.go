package admin_test

import (
	"encoding/hex"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// shelfDamages are of the lists that lanes and tenants have of all their deliveries.
var shelfDamages = []damage{
	{"one that its lane does not list", func(p *ward) { p.do("ZREM", p.key("of:a"), "due") }, "unlisted", map[string]redisqtest.Place{"a:due": redisqtest.PlaceDue}},
	{"a lane that lists nothing", func(p *ward) { p.do("DEL", p.key("of:b")) }, "unlisted", map[string]redisqtest.Place{"b:dead": redisqtest.PlaceDead}},
	{"one that its lane lists at another time", func(p *ward) { p.do("ZADD", p.key("of:b"), 7, "done") }, "unlisted", map[string]redisqtest.Place{"b:done": redisqtest.PlaceDone}},
	{"a lane lists what is gone", func(p *ward) { p.do("ZADD", p.key("of:b"), 7, "cut", 8, "nothing") }, "leftover", nil},
	{"a lane lists what another has", func(p *ward) { p.do("ZADD", p.key("of:b"), 7, "due") }, "leftover", nil},

	{"a lane that its tenant does not list", func(p *ward) { p.tenants(); p.do("DEL", p.key("tenant:"+p.hash())) }, "unlisted", map[string]redisqtest.Place{"u_1:t1": redisqtest.PlaceDue}},
	{"a lane of which it is not known whose it is", func(p *ward) { p.tenants(); p.do("DEL", p.key("owners")) }, "unlisted", map[string]redisqtest.Place{"u_1:t1": redisqtest.PlaceDue}},
	{"a lane that is said to be another's", func(p *ward) { p.tenants(); p.do("HSET", p.key("owners"), "u_1", "0123456789abcdef") }, "unlisted", nil},
	{"one that its tenant's part of a queue does not list", func(p *ward) { p.tenants(); p.do("DEL", p.key("of:q_a~"+p.hash())) }, "unlisted", map[string]redisqtest.Place{"q_a:t1": redisqtest.PlaceDue}},
	{"one that this lists at another time", func(p *ward) { p.tenants(); p.do("ZADD", p.key("of:q_a~"+p.hash()), 7, "t1") }, "unlisted", nil},
	{"a tenant lists a lane of which nothing is kept", func(p *ward) { p.tenants(); p.do("ZADD", p.key("tenant:"+p.hash()), 0, "u_x") }, "astray_shelf", nil},
	{"a tenant lists another's lane", func(p *ward) { p.tenants(); p.do("ZADD", p.key("tenant:"+p.hash()), 0, "a") }, "astray_shelf", nil},
	{"nobody lists the lane of a tenant that is not there", func(p *ward) { p.do("HSET", p.key("owners"), "u_x", "0123456789abcdef") }, "astray_shelf", nil},
	{"a tenant's part of a queue lists another's", func(p *ward) { p.tenants(); p.do("ZADD", p.key("of:q_a~"+p.hash()), 7, "t2") }, "astray_shelf", nil},
	{"a part of a queue is nobody's", func(p *ward) {
		p.tenants()
		p.do("ZADD", p.key("of:q_a~0123456789abcdef"), 1767323045000, "t3", 8, "nothing")
	}, "astray_shelf", nil},

	{"one that its subject does not find", func(p *ward) { p.subjects(); p.do("HSET", p.key("subjects"), p.few(), "s2") }, "unfound", map[string]redisqtest.Place{"u_1:s1": redisqtest.PlaceDue}},
	{"no subject finds anything", func(p *ward) { p.subjects(); p.do("DEL", p.key("subjects")) }, "unfound", nil},
	{"one of many that their subject does not find", func(p *ward) { p.subjects(); p.do("ZREM", p.crowds(), "c3") }, "unfound", nil},
	{"many that are not there", func(p *ward) { p.subjects(); p.do("DEL", p.crowds()) }, "unfound", nil},
	{"a subject finds what is gone", func(p *ward) { p.subjects(); p.do("HSET", p.key("subjects"), p.few(), "s1 gone1 s2") }, "astray_subject", nil},
	{"a subject finds what has another", func(p *ward) { p.subjects(); p.do("HSET", p.key("subjects"), p.few(), "c3 s1 s2") }, "astray_subject", nil},
	{"a subject of nothing finds", func(p *ward) { p.do("HSET", p.key("subjects"), "01234567", "nothing") }, "astray_subject", nil},
	{"a subject of nothing is said to have many", func(p *ward) { p.do("HSET", p.key("subjects"), "01234567", "*") }, "astray_subject", nil},
	{"last digits find nothing", func(p *ward) { p.subjects(); p.do("DEL", p.key("digits:713")) }, "unfound", map[string]redisqtest.Place{"u_1:s1": redisqtest.PlaceDue}},
	{"one that its last digits do not find", func(p *ward) { p.subjects(); p.do("LPOP", p.key("digits:713")); p.do("LPOP", p.key("digits:713")) }, "unfound", nil},
	{"last digits find what is gone", func(p *ward) { p.do("RPUSH", p.key("digits:713"), "012345678", "012345678") }, "astray_digits", nil},
	{"one of many is gone", func(p *ward) { p.subjects(); p.do("ZADD", p.crowds(), 7, "nothing") }, "astray_subject", nil},

	{"a lane is in use of which nothing is kept", func(p *ward) { p.do("HSET", p.key("in"), "u_x", "0 0") }, "unused", nil},
}

// tenants publishes a message of a tenant, and another one to the same queue.
func (p *ward) tenants() {
	p.Helper()
	p.put("t1", to("u_1", "q_a"), later, func(m *dispatcher.Message) { m.Tenant = "acme" })
	p.put("t2", to("q_a"), later)
	p.mustBeSound()
}

// hash names the tenant in keys.
func (p *ward) hash() string { return p.store.Conn().TenantHash("acme") }

// subjects publishes messages of two subjects: one of few messages, and one of more than a
// field of a hash names.
func (p *ward) subjects() {
	p.Helper()
	about := func(subject string) func(*dispatcher.Message) {
		return func(m *dispatcher.Message) { m.Subject = subject }
	}
	p.put("s1", to("u_1"), later, about("order 8713"))
	p.put("s2", to("u_1", "u_2"), later, about("#8713"))
	for i := range 18 {
		p.put(fmt.Sprint("c", i), to("u_1"), later, about("a crowd"))
	}
	p.mustBeSound()
}

// few and crowd are the fields of these.
func (p *ward) few() string   { return p.store.Conn().SubjectHash("8713") }
func (p *ward) crowd() string { return p.store.Conn().SubjectHash("A crowd") }
func (p *ward) crowds() string {
	return p.key("subject:" + hex.EncodeToString([]byte(p.crowd())))
}

// A list of last digits loses its oldest elements at its limit. That is no damage, and remains none when
// newer messages go and the list is short again.
func TestDoctorKnowsAListOfLastDigitsThatWasCut(t *testing.T) {
	t.Parallel()
	p := newTestWard(t, redistest.Start(t))
	p.alive("one")
	const most, over = 4096, 4
	var newest []dispatcher.DeliveryID
	for n := 0; n < most+over; n += 100 {
		var batch []dispatcher.Entry
		for k := n; k < n+100; k++ {
			m := &dispatcher.Message{
				ID: fmt.Sprint("m", k), Topic: "a.b", URL: "https://example.com", Body: []byte("{}"), CreatedAt: p.now, Subject: fmt.Sprintf("order_%d4711", k), Delay: time.Hour,
			}
			batch = append(batch, dispatcher.Entry{Message: m, Digest: m.Digest(), Lanes: to("u_1")})
			if k >= over {
				newest = append(newest, dispatcher.DeliveryID{Lane: "u_1", Message: m.ID})
			}
		}
		_, _, err := p.store.Schedule(p.Context(), "one", 1<<20, 0, batch)
		require.NoError(t, err)
	}
	_, found := p.examine(false)
	require.Empty(t, found, "the list is full")

	end := func(ids []dispatcher.DeliveryID) {
		for some := range slices.Chunk(ids, 100) {
			_, _, err := p.store.Cancel(p.Context(), "one", some)
			require.NoError(t, err)
		}
		for more := true; more; {
			trimmed, err := p.store.Trim(p.Context(), "one", []int{0}, dispatcher.Keep{}, false)
			require.NoError(t, err)
			more = trimmed.More
		}
	}
	ending := func() (ids []string) {
		list, _, err := p.store.Subjects(p.Context(), nil, []string{"4711"}, time.Time{})
		require.NoError(t, err)
		for _, m := range list {
			ids = append(ids, m.ID)
		}
		return ids
	}
	for _, some := range [][]dispatcher.DeliveryID{newest[:2000], newest[2000:]} {
		end(some)
		_, found = p.examine(true)
		require.Empty(t, found)
		p.mustBeSound()
	}
	require.Empty(t, ending(), "the oldest were cut away")
	p.put("again", to("u_2"), later, func(m *dispatcher.Message) { m.Subject = "order 04711" })
	p.put("twice", to("u_2"), later, func(m *dispatcher.Message) { m.Subject = "order 04711" })
	require.ElementsMatch(t, []string{"again", "m0", "twice"}, ending())
	for _, id := range []string{"m0", "twice", "again"} {
		require.Contains(t, ending(), "again", "the oldest message of its order has no element, and takes none away")
		end([]dispatcher.DeliveryID{{Lane: "u_2", Message: id}, {Lane: "u_1", Message: id}})
		_, found = p.examine(true)
		require.Empty(t, found)
		p.mustBeSound()
	}
	require.Empty(t, ending())
}

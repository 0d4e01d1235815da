package admin_test

import (
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/admin"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
	"github.com/hookladder/hookladder/signer"
)

// fillEndpoints makes one of each sort: with a uid and a tenant, with a public
// key, and with neither; enough that none is found in a first page.
func (p *ward) fillEndpoints() {
	p.Helper()
	p.alive("one")
	for i := range 200 {
		e := redisqtest.Endpoint(fmt.Sprintf("ep_%09d", i))
		e.UID, e.Tenant = fmt.Sprint("uid", i), []string{"t1", "t2", ""}[i%3]
		if i%4 == 1 {
			e.UID, e.Signature = "", signer.StandardEd25519
			e.Secrets = []dispatcher.EndpointSecret{{Secret: signer.StandardEd25519.NewSecret()}}
		}
		redisqtest.MustCreate(p, p.store, e)
		_, _, err := p.store.Limit(p.Context(), "one", e.Lane(), e.Limits(), false)
		require.NoError(p, err)
	}
}

// indexes are what all indexes hold.
func (p *ward) indexes() map[string]any {
	p.Helper()
	uids, err := p.client.HGetAll(p.Context(), p.home("uids")).Result()
	require.NoError(p, err)
	sealed, err := p.client.HGetAll(p.Context(), p.home("sealed")).Result()
	require.NoError(p, err)
	out := map[string]any{"uids": uids, "sealed": sealed}
	for _, name := range []string{"all", "public", "tenant:t1", "tenant:t2", "tenant:", "tenant:gone"} {
		out[name], err = p.client.ZRangeWithScores(p.Context(), p.home(name), 0, -1).Result()
		require.NoError(p, err)
	}
	return out
}

func TestDoctorOfTheIndexesOfEndpoints(t *testing.T) {
	t.Parallel()
	const id = "ep_000000100" // t2, with a uid
	filled := newTestWard(t, redistest.Start(t))
	filled.fillEndpoints() // each case repairs what it damages
	for name, c := range map[string]struct {
		kind, subject, what string
		do                  func(p *ward)
	}{
		"not in :all":                     {"index", id, ":all", func(p *ward) { p.do("ZREM", p.home("all"), id) }},
		"at another time in :all":         {"index", id, ":all", func(p *ward) { p.do("ZADD", p.home("all"), 5, id) }},
		"not in its tenant's":             {"index", id, ":tenant:", func(p *ward) { p.do("ZREM", p.home("tenant:t2"), id) }},
		"its uid is gone":                 {"index", id, ":uids", func(p *ward) { p.do("HDEL", p.home("uids"), "uid100") }},
		"its uid names nothing":           {"index", id, ":uids", func(p *ward) { p.do("HSET", p.home("uids"), "uid100", "ep_x") }},
		"not in :public":                  {"index", "ep_000000101", ":public", func(p *ward) { p.do("ZREM", p.home("public"), "ep_000000101") }},
		"in :public without a public key": {"index", id, ":public", func(p *ward) { p.do("ZADD", p.home("public"), 5, id) }},
		"in :all and not there":           {"astray", "ep_x in :all", "without a matching endpoint", func(p *ward) { p.do("ZADD", p.home("all"), 5, "ep_x") }},
		"in :public and not there":        {"astray", "ep_x in :public", "without a matching endpoint", func(p *ward) { p.do("ZADD", p.home("public"), 5, "ep_x") }},
		"in a tenant's and not there":     {"astray", "ep_x in :tenant:gone", "without a matching endpoint", func(p *ward) { p.do("ZADD", p.home("tenant:gone"), 5, "ep_x") }},
		"in another tenant's":             {"astray", id + " in :tenant:t1", "without a matching endpoint", func(p *ward) { p.do("ZADD", p.home("tenant:t1"), 5, id) }},
		"among those without a tenant":    {"astray", id + " in :tenant", "without a matching endpoint", func(p *ward) { p.do("ZADD", p.home("tenant:"), 5, id) }},
		"a uid of nothing":                {"astray", "uidx in :uids", "without a matching endpoint", func(p *ward) { p.do("HSET", p.home("uids"), "uidx", "ep_x") }},
		"a count by key too high":         {"index", ":sealed", "but the count is", func(p *ward) { p.do("HINCRBY", p.home("sealed"), "-", 1) }},
		"a count by key that is none":     {"index", ":sealed", "but the count is", func(p *ward) { p.do("HSET", p.home("sealed"), "-", "x") }},
		"a count by key of another key":   {"index", ":sealed", "0a1b2c3d: 0 endpoints, but the count is 7", func(p *ward) { p.do("HSET", p.home("sealed"), "0a1b2c3d", 7) }},
		"no counts by key":                {"index", ":sealed", "but the count is 0", func(p *ward) { p.do("DEL", p.home("sealed")) }},
		"a uid of what has another":       {"astray", "uidx in :uids", "without a matching endpoint", func(p *ward) { p.do("HSET", p.home("uids"), "uidx", id) }},
	} {
		t.Run(name, func(t *testing.T) {
			here := *filled
			here.TB = t
			p := &here
			_, found := p.examine(true)
			require.Empty(t, found)
			before := p.indexes()
			c.do(p)
			broken := p.indexes()
			require.NotEqual(t, before, broken)
			_, found = p.examine(false)
			require.NotEmpty(t, found)
			at := 0
			for i, f := range found {
				if f.Kind == c.kind {
					at = i
				}
			}
			require.Equal(t, c.kind, found[at].Kind)
			require.Equal(t, c.subject, found[at].Subject)
			require.Contains(t, found[at].What, c.what)
			for _, kind := range kinds(found) {
				require.Contains(t, []string{"index", "astray"}, kind, "a missing index entry causes no other finding")
			}
			require.Equal(t, broken, p.indexes(), "it was only looked at")
			out, _ := p.examine(true)
			require.Equal(t, out.Findings, out.Fixed)
			require.Equal(t, before, p.indexes())
			_, found = p.examine(true)
			require.Empty(t, found)
		})
	}
}

// An endpoint that can't be read is listed, and nothing else is said of it.
func TestDoctorListsAnEndpointThatCantBeRead(t *testing.T) {
	t.Parallel()
	p := newTestWard(t, redistest.Start(t))
	p.alive("one")
	p.do("HSET", p.home("endpoints"), "ep_x", "7 {broken")
	_, found := p.examine(true)
	require.Contains(t, kinds(found), "index")
	all, err := p.client.ZRangeWithScores(t.Context(), p.home("all"), 0, -1).Result()
	require.NoError(t, err)
	require.Equal(t, []redis.Z{{Score: 0, Member: "ep_x"}}, all)
	_, found = p.examine(true)
	require.Equal(t, []string{"unopened"}, kinds(found))
}

func TestDoctorTellsOfAUIDThatTwoHave(t *testing.T) {
	t.Parallel()
	p := newTestWard(t, redistest.Start(t))
	p.fillEndpoints()
	p.do("HDEL", p.home("uids"), "uid100")
	e := redisqtest.Endpoint("ep_second000")
	e.UID = "uid100" // it was free
	redisqtest.MustCreate(t, p.store, e)
	_, _, err := p.store.Limit(t.Context(), "one", e.Lane(), e.Limits(), false)
	require.NoError(t, err)
	out, found := p.examine(true)
	require.Equal(t, []string{"same_uid"}, kinds(found))
	require.Equal(t, "ep_000000100", found[0].Subject)
	require.Contains(t, found[0].What, e.ID)
	require.Zero(t, out.Fixed)
	redisqtest.MustDelete(t, p.store, "ep_000000100")
	id, err := p.store.EndpointID(t.Context(), "uid100")
	require.NoError(t, err)
	require.Equal(t, e.ID, id, "the other is found as before")
}

// What changes between the reading of a record and its judgement is left.
func TestDoctorLeavesAnEndpointThatIsChangedMeanwhile(t *testing.T) {
	t.Parallel()
	p := newTestWard(t, redistest.Start(t))
	p.fillEndpoints()
	before := p.indexes()
	require.NoError(t, admin.CompareIndexes(t.Context(), p.store.Queue(), "ep_000000100", "9 {}"))
	require.NoError(t, admin.CompareIndexes(t.Context(), p.store.Queue(), "ep_unknown00", "1 {}"))
	require.Equal(t, before, p.indexes())
}

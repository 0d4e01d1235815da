package home_test

import (
	"context"
	"crypto/sha256"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/home"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// accessRig is a store of sessions and links with the raw keys behind it, and its clock.
type accessRig struct {
	*testing.T
	*home.Access
	options redisq.Options
	client  redis.UniversalClient
	home    string
	now     time.Time
	keys    dispatcher.AccessKeys // that are valid now
}

func newAccessRig(t *testing.T, server redisqtest.Server) *accessRig {
	t.Helper()
	r := &accessRig{T: t, now: time.Now().Truncate(time.Millisecond), options: redisq.Options{
		URL: redisqtest.PatientURL(server), Project: redisqtest.ProjectName(), LaneMaxInFlight: 8, Permits: 8, TestClock: true,
	}}
	r.home = "{" + r.options.Project + "}"
	store := redisqtest.Open(t, r.options)
	r.Access, r.client = store.Access(), store.Client()
	r.keys = dispatcher.AccessKeys{testKey("ops"), testKey("shop")}
	r.UseKeys(func() dispatcher.AccessKeys { return r.keys })
	r.pass(0)
	return r
}

// testKey is the key of a name, which is its owner text too.
func testKey(name string) dispatcher.AccessKey {
	return dispatcher.NewAccessKey(name, sha256.Sum256([]byte("key "+name)))
}

// another is the store of another instance.
func (r *accessRig) another() *home.Access {
	r.Helper()
	other := redisqtest.Open(r.T, r.options).Access()
	other.UseKeys(func() dispatcher.AccessKeys { return r.keys })
	return other
}

// pass lets time pass.
func (r *accessRig) pass(d time.Duration) {
	r.Helper()
	r.now = r.now.Add(d)
	require.NoError(r, r.client.Set(r.Context(), r.home+":clock", r.now.UnixMicro(), 0).Err())
}

// raw is all that Redis has of the project, names and values.
func (r *accessRig) raw() string {
	r.Helper()
	var all strings.Builder
	for _, key := range redisqtest.Keys(r.T, r.client, r.options.Project) {
		kind, err := r.client.Type(r.Context(), key).Result()
		require.NoError(r, err)
		if kind == "hash" && key != r.home+":meta" {
			for name, value := range r.client.HGetAll(r.Context(), key).Val() {
				all.WriteString(key + " " + name + " " + value + "\n")
			}
		}
	}
	return all.String()
}

// full has Redis refuse every write that takes memory.
func (r *accessRig) full() {
	r.Helper()
	require.NoError(r, r.client.ConfigSet(r.Context(), "maxmemory", "1").Err())
	r.Cleanup(func() { _ = r.client.ConfigSet(context.Background(), "maxmemory", "0").Err() })
	require.ErrorContains(r, r.client.Set(r.Context(), r.home+":x", "x", 0).Err(), "OOM")
}

func (r *accessRig) create(l dispatcher.Link, lasts time.Duration) (made dispatcher.Link, token string) {
	r.Helper()
	token, made, err := r.CreateLink(r.Context(), l, lasts)
	require.NoError(r, err)
	return made, token
}

// ids are those of all links, page by page.
func (r *accessRig) ids(limit int) (found []string) {
	r.Helper()
	for cursor := ""; ; {
		page, next, err := r.Links(r.Context(), limit, cursor)
		require.NoError(r, err)
		require.LessOrEqual(r, len(page), limit)
		for _, l := range page {
			found = append(found, l.ID)
		}
		if cursor = next; cursor == "" {
			return found
		}
	}
}

// kept is how many entries each of the keys of links has.
func (r *accessRig) kept() [3]int64 {
	r.Helper()
	ctx := r.Context()
	return [3]int64{r.client.HLen(ctx, r.home+":links").Val(), r.client.ZCard(ctx, r.home+":linked").Val(), r.client.ZCard(ctx, r.home+":lapse").Val()}
}

// onBothForAccess runs a test on both stores.
func onBothForAccess(t *testing.T, test func(t *testing.T, r *accessRig)) {
	t.Run("redis", func(t *testing.T) { test(t, newAccessRig(t, redistest.Start(t))) })
	t.Run("miniredis", func(t *testing.T) { test(t, newAccessRig(t, redistest.StartMini(t))) })
}

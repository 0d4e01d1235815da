package home_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
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

// auditRig is an audit with the raw key behind it, and its clock and its log.
type auditRig struct {
	*testing.T
	*home.Audit
	client redis.UniversalClient
	key    string // of the operator's entries
	acts   string // of those by links
	log    bytes.Buffer
	now    time.Time
}

func newAuditRig(t *testing.T, server redisqtest.Server) *auditRig {
	t.Helper()
	r := &auditRig{T: t, now: time.Now()}
	project := redisqtest.ProjectName()
	store, err := redisq.Open(t.Context(), redisq.Options{
		URL: redisqtest.PatientURL(server), Project: project, LaneMaxInFlight: 8, Permits: 8, Log: slog.New(slog.NewTextHandler(&r.log, nil)),
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	r.Audit, r.client, r.key = store.Audit(), store.Client(), "{"+project+"}:audit"
	r.acts = "{" + project + "}:acts"
	r.SetClock(func() time.Time { return r.now })
	return r
}

func (r *auditRig) read(f dispatcher.AuditFilter) dispatcher.AuditPage {
	r.Helper()
	page, err := r.ReadAudit(r.Context(), f)
	require.NoError(r, err)
	return page
}

// targets are those of all pages, newest first.
func (r *auditRig) targets(f dispatcher.AuditFilter) (found []string) {
	r.Helper()
	for {
		page := r.read(f)
		for _, e := range page.Entries {
			found = append(found, e.Target)
		}
		if f.Cursor = page.Next; f.Cursor == "" {
			return found
		}
	}
}

// onBothForAudit runs a test on both stores.
func onBothForAudit(t *testing.T, test func(t *testing.T, r *auditRig)) {
	t.Helper()
	redisqtest.OnBoth(t, func(t *testing.T, server redisqtest.Server) { test(t, newAuditRig(t, server)) })
}

func TestTheAuditTellsWhoChangedWhat(t *testing.T) {
	onBothForAudit(t, func(t *testing.T, r *auditRig) {
		require.Empty(t, r.read(dispatcher.AuditFilter{}))
		want := dispatcher.AuditEntry{By: "key:ops", What: "endpoint.update", Target: "ep_1", Tenant: "m7", Detail: "url, topics"}
		r.Record(t.Context(), want)
		got := r.read(dispatcher.AuditFilter{})
		require.Len(t, got.Entries, 1)
		require.WithinDuration(t, time.Now(), got.Entries[0].At, time.Minute)
		want.At = got.Entries[0].At
		require.Equal(t, dispatcher.AuditPage{Entries: []dispatcher.AuditEntry{want}}, got)
	})
}

func TestTheAuditIsReadByPagesAndFilters(t *testing.T) {
	onBothForAudit(t, func(t *testing.T, r *auditRig) {
		for i := range 6 {
			r.Record(t.Context(), dispatcher.AuditEntry{
				By: fmt.Sprintf("key:k%d", i%2), What: []string{"lane.pause", "lane.resume", "endpoint.delete"}[i%3],
				Target: fmt.Sprintf("t%d", i), Tenant: fmt.Sprintf("m%d", i%2),
			})
		}
		require.Equal(t, []string{"t5", "t4", "t3", "t2", "t1", "t0"}, r.targets(dispatcher.AuditFilter{Limit: 2}))
		require.Equal(t, []string{"t5", "t3", "t1"}, r.targets(dispatcher.AuditFilter{By: []string{"key:k1"}, Limit: 1}))
		require.Equal(t, []string{"t4", "t3", "t1", "t0"}, r.targets(dispatcher.AuditFilter{What: []string{"lane.pause", "lane.resume"}, Limit: 3}))
		require.Equal(t, []string{"t4", "t2"}, r.targets(dispatcher.AuditFilter{Targets: []string{"t2", "t4"}}))
		require.Equal(t, []string{"t4", "t2", "t0"}, r.targets(dispatcher.AuditFilter{Tenants: []string{"m0"}}))
		require.Empty(t, r.targets(dispatcher.AuditFilter{Tenants: []string{"m0"}, By: []string{"key:k1"}}))

		page := r.read(dispatcher.AuditFilter{Limit: 2})
		for _, bad := range []string{"x", "1-1", page.Next + "A", page.Next[1:], page.Next[:len(page.Next)-2]} {
			_, err := r.ReadAudit(t.Context(), dispatcher.AuditFilter{Cursor: bad})
			require.ErrorIs(t, err, dispatcher.ErrCursor, bad)
		}
		_, err := r.ReadAudit(t.Context(), dispatcher.AuditFilter{Cursor: page.Next, By: []string{"key:k1"}})
		require.ErrorIs(t, err, dispatcher.ErrCursor, "of another filter")
	})
}

func TestTheAuditIsReadByTime(t *testing.T) {
	onBothForAudit(t, func(t *testing.T, r *auditRig) {
		at := func(ms int64) time.Time { return time.UnixMilli(ms) }
		for _, ms := range []int64{1000, 1001, 1002, 2000} {
			require.NoError(t, r.client.XAdd(t.Context(), &redis.XAddArgs{
				Stream: r.key, ID: fmt.Sprintf("%d-3", ms), Values: []string{"target", fmt.Sprint(ms)},
			}).Err())
		}
		for _, c := range []struct {
			since, until time.Time
			want         []string
		}{
			{at(1001), time.Time{}, []string{"2000", "1002", "1001"}},
			{time.Time{}, at(1001), []string{"1000"}},
			{at(1001), at(2000), []string{"1002", "1001"}},
			{at(1001).Add(time.Microsecond), at(1002).Add(time.Microsecond), []string{"1002"}},
			{at(-5), at(0), nil},
			{at(3000), time.Time{}, nil},
		} {
			require.Equal(t, c.want, r.targets(dispatcher.AuditFilter{Since: c.since, Until: c.until, Limit: 1}), "%v", c)
		}
	})
}

// A filter that finds little reads on, page by page, to the end.
func TestAPageOfTheAuditLooksAtSoMany(t *testing.T) {
	r := newAuditRig(t, redistest.Share(t))
	pipe := r.client.Pipeline()
	for i := range 9_000 {
		target := "other"
		if i < 2 || i == 8_000 {
			target = "wanted"
		}
		pipe.XAdd(t.Context(), &redis.XAddArgs{Stream: r.key, Values: []string{"target", target}})
	}
	_, err := pipe.Exec(t.Context())
	require.NoError(t, err)
	f := dispatcher.AuditFilter{Targets: []string{"wanted"}}
	first := r.read(f)
	require.Len(t, first.Entries, 1)
	require.NotEmpty(t, first.Next)
	require.Len(t, r.targets(f), 3)
}

func TestTheAuditKeepsTheNewestTenThousand(t *testing.T) {
	r := newAuditRig(t, redistest.Share(t))
	pipe := r.client.Pipeline()
	for i := range 10_005 {
		pipe.XAdd(t.Context(), &redis.XAddArgs{Stream: r.key, Values: []string{"target", fmt.Sprint(i)}})
	}
	_, err := pipe.Exec(t.Context())
	require.NoError(t, err)
	r.Record(t.Context(), dispatcher.AuditEntry{By: "key:ops", What: "lane.pause", Target: "newest"})
	require.EqualValues(t, 10_000, r.client.XLen(t.Context(), r.key).Val())
	require.Equal(t, "newest", r.read(dispatcher.AuditFilter{}).Entries[0].Target)
}

// A loop of calls must not push out the rest of the audit.
func TestALoopOfCallsIsTenEntriesAMinuteAndACount(t *testing.T) {
	onBothForAudit(t, func(t *testing.T, r *auditRig) {
		retries := func(key string, n int) {
			for i := range n {
				r.Record(t.Context(), dispatcher.AuditEntry{By: key, What: "message.retry", Target: fmt.Sprintf("msg_%d", i), Tenant: "m7"})
			}
		}
		retries("key:shop", 500)
		retries("key:other", 1)
		for i := range 25 {
			r.Record(t.Context(), dispatcher.AuditEntry{By: "key:shop", What: "endpoint.delete", Target: fmt.Sprintf("ep_%d", i), Detail: "why"})
		}
		r.Count(t.Context())
		before := r.read(dispatcher.AuditFilter{}).Entries
		require.Len(t, before, 21, "the minute is not over")

		r.now = r.now.Add(time.Minute)
		r.Count(t.Context())
		all := r.read(dispatcher.AuditFilter{}).Entries
		require.Len(t, all, 23)
		require.Equal(t, before, all[2:], "an entry never moves or changes")
		require.False(t, all[1].At.Before(before[0].At))
		require.Equal(t, []string{"msg_9", "msg_8", "msg_7", "msg_6", "msg_5", "msg_4", "msg_3", "msg_2", "msg_1", "msg_0"},
			r.targets(dispatcher.AuditFilter{By: []string{"key:shop"}, What: []string{"message.retry"}, Tenants: []string{"m7"}}))
		for _, e := range all[:2] {
			require.Equal(t, "key:shop", e.By)
			require.Empty(t, e.Target)
			require.Empty(t, e.Tenant)
			more := map[string]string{"message.retry": "490 more calls in the minute from ", "endpoint.delete": "15 more calls in the minute from "}[e.What]
			last := map[string]string{"message.retry": ", the last of msg_499", "endpoint.delete": ", the last of ep_24"}[e.What]
			require.True(t, strings.HasPrefix(e.Detail, more) && strings.HasSuffix(e.Detail, last), e.Detail)
		}

		retries("key:shop", 11) // the next minute, which the next but one ends
		r.now = r.now.Add(time.Minute)
		retries("key:shop", 1)
		details := r.read(dispatcher.AuditFilter{By: []string{"key:shop"}, What: []string{"message.retry"}}).Entries
		require.Len(t, details, 11+10+2)
		require.Contains(t, details[1].Detail, "1 more calls")
	})
}

// An auditor asks by whom order 17 was resent.
func TestEachActOfAPersonIsAnEntry(t *testing.T) {
	onBothForAudit(t, func(t *testing.T, r *auditRig) {
		for i := range 60 {
			for _, by := range []string{"key:ops", "link:lnk_1"} {
				r.Record(t.Context(), dispatcher.AuditEntry{By: by, What: "message.retry", Target: fmt.Sprintf("order_%d", i), Person: true})
			}
		}
		r.now = r.now.Add(time.Minute)
		r.Count(t.Context())
		require.Len(t, r.targets(dispatcher.AuditFilter{}), 120)
		found := r.read(dispatcher.AuditFilter{Targets: []string{"order_17"}}).Entries
		require.Len(t, found, 2)
		require.ElementsMatch(t, []string{"key:ops", "link:lnk_1"}, []string{found[0].By, found[1].By})
	})
}

func TestACountIsWrittenWhenTheProcessEnds(t *testing.T) {
	r := newAuditRig(t, redistest.StartMini(t))
	for range 13 {
		r.Record(t.Context(), dispatcher.AuditEntry{By: "key:shop", What: "message.cancel", Target: "m"})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, r.Audit.Run(ctx))
	all := r.read(dispatcher.AuditFilter{})
	require.Len(t, all.Entries, 11)
	require.Contains(t, all.Entries[0].Detail, "3 more calls")
}

// Failures are counted as calls are, so each of them is somewhere.
func TestFailuresAreCountedBesideTheirCalls(t *testing.T) {
	r := newAuditRig(t, redistest.StartMini(t))
	for range 12 {
		e := dispatcher.AuditEntry{By: "key:shop", What: "message.retry", Target: "m"}
		r.Record(t.Context(), e)
		e.Failed, e.Detail = true, "failed: 404 not-found"
		r.Record(t.Context(), e)
	}
	r.now = r.now.Add(time.Minute)
	r.Count(t.Context())
	all := r.read(dispatcher.AuditFilter{}).Entries
	require.Len(t, all, 22)
	counts := all[0].Detail + " " + all[1].Detail
	require.Contains(t, counts, "2 more calls")
	require.Contains(t, counts, "2 more failures")
}

// What one link does in a loop must not push out what the operator did.
func TestLinksHaveTwoThousandEntriesBesideTheOthers(t *testing.T) {
	r := newAuditRig(t, redistest.Share(t))
	r.Record(t.Context(), dispatcher.AuditEntry{By: "key:ops", What: "endpoint.delete", Target: "first"})
	pipe := r.client.Pipeline()
	for i := range 2_500 {
		pipe.XAdd(t.Context(), &redis.XAddArgs{Stream: r.acts, Values: []string{"by", "link:lnk_1", "target", fmt.Sprint(i)}})
	}
	_, err := pipe.Exec(t.Context())
	require.NoError(t, err)
	r.Record(t.Context(), dispatcher.AuditEntry{By: "key:ops", What: "endpoint.delete", Target: "second"})
	r.Record(t.Context(), dispatcher.AuditEntry{By: "link:lnk_1", What: "endpoint.pause", Target: "last", Person: true})
	require.EqualValues(t, 2_000, r.client.XLen(t.Context(), r.acts).Val())
	require.EqualValues(t, 2, r.client.XLen(t.Context(), r.key).Val())
	found := r.targets(dispatcher.AuditFilter{Limit: 300})
	require.Len(t, found, 2_002)
	require.Contains(t, found[:2], "last") // within a ms the order of the two streams is not known
	require.Contains(t, found, "second")
	require.Contains(t, found, "first")
	require.NotContains(t, found, "500")
	require.Equal(t, []string{"second", "first"}, r.targets(dispatcher.AuditFilter{By: []string{"key:ops"}, Limit: 1}))
}

// Two entries of one millisecond have one id in both streams: each is listed once.
func TestPagesOfBothStreamsMissNothing(t *testing.T) {
	onBothForAudit(t, func(t *testing.T, r *auditRig) {
		var want []string
		for i := range 30 {
			for name, key := range map[string]string{"a": r.key, "l": r.acts} {
				target := fmt.Sprint(name, i)
				want = append(want, target)
				require.NoError(t, r.client.XAdd(t.Context(), &redis.XAddArgs{Stream: key, ID: fmt.Sprintf("%d-0", 1000+i), Values: []string{"target", target}}).Err())
			}
		}
		for _, limit := range []int{1, 2, 7, 100} {
			found := r.targets(dispatcher.AuditFilter{Limit: limit})
			require.ElementsMatch(t, want, found)
			require.Equal(t, "29", found[0][1:])
		}
	})
}

func TestTheAuditWorksWhileMemoryIsFull(t *testing.T) {
	r := newAuditRig(t, redistest.Start(t))
	r.Record(t.Context(), dispatcher.AuditEntry{By: "key:ops", What: "lane.pause", Target: "before"})
	require.NoError(t, r.client.ConfigSet(t.Context(), "maxmemory", "1").Err())
	r.Record(t.Context(), dispatcher.AuditEntry{By: "key:ops", What: "lane.pause", Target: "*"})
	require.Equal(t, []string{"*", "before"}, r.targets(dispatcher.AuditFilter{}))
	require.NotContains(t, r.log.String(), "audit entry not written")
}

// What can't be written stands in the log.
func TestWithoutItsStoreTheLogHasTheEntry(t *testing.T) {
	server := redistest.Start(t)
	r := newAuditRig(t, server)
	server.Stop()
	r.Record(t.Context(), dispatcher.AuditEntry{By: "key:ops", What: "endpoint.delete", Target: "ep_1", Tenant: "m7"})
	require.Contains(t, r.log.String(), "audit entry not written")
	for _, part := range []string{"key:ops", "endpoint.delete", "ep_1", "m7"} {
		require.Contains(t, r.log.String(), part)
	}
	_, err := r.ReadAudit(t.Context(), dispatcher.AuditFilter{})
	require.ErrorIs(t, err, dispatcher.ErrUnavailable)
}

func TestAKeyOfAnotherTypeBeginsAnew(t *testing.T) {
	onBothForAudit(t, func(t *testing.T, r *auditRig) {
		require.NoError(t, r.client.Set(t.Context(), r.key, "by hand", 0).Err())
		r.Record(t.Context(), dispatcher.AuditEntry{By: "key:ops", What: "lane.pause", Target: "*"})
		require.Equal(t, []string{"*"}, r.targets(dispatcher.AuditFilter{}))
	})
}

func TestLongTextsAreCut(t *testing.T) {
	r := newAuditRig(t, redistest.StartMini(t))
	r.Record(t.Context(), dispatcher.AuditEntry{By: "key:ops", What: "lane.pause", Target: strings.Repeat("ä", 1000), Detail: strings.Repeat("b", 5000)})
	e := r.read(dispatcher.AuditFilter{}).Entries[0]
	require.Less(t, len(e.Target), 300)
	require.Less(t, len(e.Detail), 1100)
	require.True(t, strings.HasPrefix(e.Target, "ääää"))
}

package redisq_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

// stat is how often Redis has run a command.
func (r *trap) stat(command string) (calls int) {
	r.Helper()
	text, err := r.store.Client().Info(r.Context(), "commandstats").Result()
	require.NoError(r, err)
	_, text, found := strings.Cut(text, "cmdstat_"+command+":calls=")
	if found {
		_, err = fmt.Sscanf(text, "%d,", &calls)
		require.NoError(r, err)
	}
	return calls
}

func (r *trap) list(f dispatcher.Filter) dispatcher.Page {
	r.Helper()
	page, err := r.store.List(r.Context(), f)
	require.NoError(r, err)
	return page
}

func TestAListByStatusCallsNoScriptForEachLane(t *testing.T) {
	const n = 5000
	r := newTrap(t)
	batch := make([]dispatcher.Entry, n)
	for i := range batch {
		batch[i] = r.entry(laneOf(i), fmt.Sprintf("m%d", i), time.Hour)
	}
	r.schedule(batch...)
	r.schedule(r.entry("here", "ready", 0), r.entry("here", "cancelled", 0))
	_, _, err := r.store.Cancel(t.Context(), "one", []dispatcher.DeliveryID{{Lane: "here", Message: "cancelled"}})
	require.NoError(t, err)
	for status, want := range map[dispatcher.Status]string{
		dispatcher.StatusReady: "ready", dispatcher.StatusCancelled: "cancelled",
		dispatcher.StatusDelivered: "", dispatcher.StatusDead: "", dispatcher.StatusInFlight: "",
	} {
		before, records := r.stat("evalsha"), r.stat("hget")
		page := r.list(dispatcher.Filter{Statuses: []dispatcher.Status{status}, Limit: 10})
		require.Less(t, r.stat("evalsha")-before, 20, "%s", status)
		require.Less(t, r.stat("hget")-records, 16, "%s", status)
		require.Empty(t, page.Next)
		var got string
		for _, d := range page.Deliveries {
			got += d.ID.Message
		}
		require.Equal(t, want, got, "%s", status)
	}
}

func TestAListReadsWhatThePageNeedsAndNoScriptMoreThanAMiB(t *testing.T) {
	const n, size = 300, 15 << 10
	r := newTrap(t)
	batch := make([]dispatcher.Entry, n)
	for i := range batch {
		batch[i] = r.entry("a", fmt.Sprintf("m%03d", i), 0)
		batch[i].Message.Body = bytes.Repeat([]byte("1"), size)
		batch[i].Digest = batch[i].Message.Digest()
	}
	r.schedule(batch...)
	ready := []dispatcher.Status{dispatcher.StatusReady}
	before := r.stat("hget")
	require.Len(t, r.list(dispatcher.Filter{Statuses: ready, Limit: 1}).Deliveries, 1)
	require.LessOrEqual(t, r.stat("hget")-before, 12, "eight records at most, and the key of cursors")

	records, scripts := r.stat("hget"), r.stat("evalsha")
	page := r.list(dispatcher.Filter{Topics: []string{"never"}, Limit: 500})
	require.Empty(t, page.Deliveries)
	require.Empty(t, page.Next, "it was read whole, though each script stopped early")
	require.Equal(t, 2*n, page.LookedAt, "once more at the end, for what moved")
	require.LessOrEqual(t, r.stat("hget")-records, 2*(r.stat("evalsha")-scripts)*((1<<20)/size+1))
}

// A delivery that the filter excludes by lane or status costs no record.
func TestAListReadsTheRecordsOfWhatMatchesOnly(t *testing.T) {
	const n = 300
	r := newTrap(t)
	batch := make([]dispatcher.Entry, n)
	for i := range batch {
		batch[i] = r.entry(laneOf(i%10), fmt.Sprintf("m%03d", i), time.Hour)
	}
	r.schedule(batch...)
	before := r.stat("hget")
	page := r.list(dispatcher.Filter{Lanes: []dispatcher.Lane{laneOf(3)}, Limit: 500})
	require.Len(t, page.Deliveries, n/10)
	require.Equal(t, n, page.LookedAt)
	require.LessOrEqual(t, r.stat("hget")-before, n/10)
	before = r.stat("hget")
	require.Empty(t, r.list(dispatcher.Filter{Statuses: []dispatcher.Status{dispatcher.StatusRetrying}, Limit: 500}).Deliveries)
	require.LessOrEqual(t, r.stat("hget")-before, 1, "the epoch, since nothing was found")
}

// The same holds where the deliveries of a tenant are too many to be read whole for their order.
func TestAListOfATenantByDueReadsNoRecordsOfOthers(t *testing.T) {
	const n, others = 1200, 4000
	r := newTrap(t)
	for from := 0; from < n+others; from += 1300 {
		var batch []dispatcher.Entry
		for i := from; i < from+1300; i++ {
			e := r.entry(laneOf(1000+i%100), fmt.Sprintf("other%04d", i), time.Hour)
			if i%13 < 3 {
				e = r.entry(laneOf(i%13), fmt.Sprintf("m%04d", i), time.Hour)
				e.Message.Tenant = "shop"
			}
			batch = append(batch, e)
		}
		r.schedule(batch...)
	}
	before := r.stat("hget")
	page := r.list(dispatcher.Filter{Tenants: []string{"shop"}, Order: dispatcher.OrderDue, Statuses: []dispatcher.Status{dispatcher.StatusScheduled}, Limit: 500})
	require.Equal(t, 500, len(page.Deliveries))
	require.Less(t, r.stat("hget")-before, 1000, "one for each, and what is read ahead")
}

// If nothing is ready, a list scans no lanes.
func TestAListLooksThroughNoLanesWhereNothingIsReady(t *testing.T) {
	r := newTrap(t)
	r.fill(200)
	looks := func() int {
		before := r.stat("hscan")
		require.Len(t, r.list(dispatcher.Filter{Statuses: []dispatcher.Status{dispatcher.StatusScheduled}, Limit: 500}).Deliveries, 200)
		return r.stat("hscan") - before
	}
	require.Zero(t, looks())
	r.schedule(r.entry("here", "ready", 0))
	require.Positive(t, looks())
}

// A tenant with more destinations than one call reads is found by the statuses, on all pages.
func TestATenantOfVeryManyDestinationsIsListedToTheEnd(t *testing.T) {
	const n = 20_001
	r := newTrap(t)
	for from := 0; from < n; from += 2001 {
		var batch []dispatcher.Entry
		for i := from; i < min(from+2001, n); i++ {
			e := r.entry(dispatcher.Lane(fmt.Sprint("u_", i)), fmt.Sprint("m", i), time.Hour)
			e.Message.Tenant = "m7"
			batch = append(batch, e)
		}
		r.schedule(batch...)
	}
	seen := map[dispatcher.DeliveryID]bool{}
	f := dispatcher.Filter{Tenants: []string{"m7"}, Limit: 500, Order: dispatcher.OrderAccepted}
	for more := true; more; more = f.Cursor != "" {
		page := r.list(f)
		for _, d := range page.Deliveries {
			require.False(t, seen[d.ID], d.ID)
			seen[d.ID] = true
		}
		f.Cursor = page.Next
	}
	require.Len(t, seen, n)
}

func TestAPageEndsWhereItHasLookedAtEnoughAndItsCursorGoesOn(t *testing.T) {
	const n = 6000
	r := newTrap(t)
	r.fill(n)
	f := dispatcher.Filter{Topics: []string{"never"}, Limit: 500}
	pages, looked := 0, 0
	for more := true; more; pages++ {
		before := r.calls()
		page := r.list(f)
		require.Less(t, r.calls()-before, 20_000)
		require.Empty(t, page.Deliveries)
		looked += page.LookedAt
		f.Cursor, more = page.Next, page.Next != ""
	}
	require.Equal(t, 2*n, looked, "once more at the end, for what moved")
	require.Equal(t, 7, pages)
}

// A name costs Redis some 1 µs, so that no script may look at many.
func TestAListOfADestinationReadsNoRecordsOfOthersAndSomeNamesAScript(t *testing.T) {
	const n = 6000
	r := newTrap(t)
	calls := func() int {
		before := r.stat("evalsha")
		r.list(dispatcher.Filter{Lanes: []dispatcher.Lane{"never"}, Limit: 500})
		return r.stat("evalsha") - before
	}
	empty := calls()
	r.fill(n)
	records := r.stat("hget")
	more := calls() - empty
	require.Less(t, r.stat("hget")-records, 20)
	require.Equal(t, (n-1)/2048, more, "2,048 names a script, and the first one finds that there are none")
	page := r.list(dispatcher.Filter{Lanes: []dispatcher.Lane{"never"}, Limit: 500})
	require.Empty(t, page.Deliveries)
	require.Equal(t, n, page.LookedAt)
}

// The oldest due delivery is found among all destinations, however many there
// are.
func TestStatsTellTheOldestOfAllLanes(t *testing.T) {
	r := newTrap(t)
	r.schedule(r.entry("starving", "m", 0))
	since := r.now
	r.setClock(r.now.Add(6 * time.Second))
	var batch []dispatcher.Entry
	for i := range 60 {
		batch = append(batch, r.entry(laneOf(i), fmt.Sprintf("a%d", i), 0), r.entry(laneOf(i), fmt.Sprintf("b%d", i), 0))
	}
	r.schedule(batch...)
	stats, err := r.store.Stats(t.Context())
	require.NoError(t, err)
	require.Equal(t, since, stats.OldestDue)
	require.Len(t, stats.Lanes, 50)
	for _, l := range stats.Lanes {
		require.Equal(t, 2, l.Waiting)
		require.Equal(t, "", l.URL)
	}
}

// Idle lanes cost one page of the scan for each four hundred, and nothing else.
func TestStatsPassIdleLanesQuickly(t *testing.T) {
	r := newTrap(t)
	fields := make([]any, 0, 2*50_000)
	for i := range 50_000 {
		fields = append(fields, fmt.Sprintf("u_%d", i), "0 0")
	}
	key := r.store.Conn().Tag(0) + ":in"
	require.NoError(t, r.store.Client().HSet(t.Context(), key, fields...).Err())
	r.schedule(r.entry("busy", "m", 0))
	before := r.calls()
	stats, err := r.store.Stats(t.Context())
	require.NoError(t, err)
	require.Less(t, r.calls()-before, 1000)
	require.Len(t, stats.Lanes, 1)
	require.Equal(t, dispatcher.Lane("busy"), stats.Lanes[0].Lane)
}

func TestStatsSayWhereNotAllLanesWereLookedAt(t *testing.T) {
	r := newTrap(t)
	r.schedule(r.entry("busy", "m", 0))
	stats := func() dispatcher.Stats {
		st, err := r.store.Stats(t.Context())
		require.NoError(t, err)
		return st
	}
	r.store.ReadLanesWithin(0)
	require.True(t, stats().Partial, "the first look is under way")
	r.store.ReadLanesWithin(time.Minute)
	whole := stats()
	require.False(t, whole.Partial)
	require.Len(t, whole.Lanes, 1)
	r.store.ReadLanesWithin(0)
	st := stats()
	require.False(t, st.Partial, "the one before it was a moment ago")
	require.Len(t, st.Lanes, 1)
	require.Equal(t, whole.OldestDue, st.OldestDue)
	r.store.ForgetPolls()
	st = stats()
	require.True(t, st.Partial, "what was so an hour ago is not told as if it were now")
	require.Empty(t, st.Lanes)
	require.Zero(t, st.OldestDue)
}

// Each partition is cut for itself. The log of several is whole only from where the one
// that forgot most begins, and a page of one partition's destination tells of that one.
func TestTheLogOfSeveralPartitionsIsWholeFromTheNewestCutOn(t *testing.T) {
	store := laneStore(t)
	since := func() time.Time {
		page, err := store.ReadLog(t.Context(), dispatcher.LogFilter{}, 10, "")
		require.NoError(t, err)
		return page.CompleteSince
	}
	require.Zero(t, since())
	first := time.UnixMilli(1_770_000_000_000).UTC()
	for n, cut := range []time.Duration{time.Minute, time.Hour, time.Second} {
		key := fmt.Sprintf("{lanes:%d}:archive", n)
		require.NoError(t, store.Client().HSet(t.Context(), key, "cut", fmt.Sprintf("%d-0", first.Add(cut).UnixMilli())).Err())
	}
	require.Equal(t, first.Add(time.Hour), since().UTC())
}

package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
	"github.com/hookladder/hookladder/dispatcher/internal/postgres"
)

// me is the instance of most tests.
const me = "me"

// mustOpen opens an archive that ends with the test.
func mustOpen(t testing.TB, o postgres.Options) *postgres.Archive {
	t.Helper()
	a, err := postgres.Open(o)
	require.NoError(t, err)
	t.Cleanup(a.Close)
	return a
}

// newTestArchive is the archive of a new database.
func newTestArchive(t testing.TB, url string) *postgres.Archive {
	t.Helper()
	return mustOpen(t, postgres.Options{URL: url})
}

// line is the log of a partition.
type line struct {
	partition int
	epoch     string
	at        archive.Position
	last      int64
}

func newLine() *line { return &line{epoch: "e0"} }

// hold takes the line's partition.
func (l *line) hold(t testing.TB, a archive.Archive) archive.PartitionLease {
	t.Helper()
	leases, err := a.Lease(t.Context(), me, []archive.Want{{Partition: l.partition, Epoch: l.epoch, At: l.at}})
	require.NoError(t, err)
	require.Len(t, leases, 1)
	return leases[0]
}

// part is what comes next in the log.
func (l *line) part(accepted []archive.Accepted, events ...archive.Event) archive.Part {
	p := archive.Part{Partition: l.partition, Epoch: l.epoch, From: l.at, Accepted: accepted, Events: events}
	for i := range p.Accepted { // accepted ones stand before events
		p.Accepted[i].Pos = int64(i)
	}
	for i := range p.Events {
		p.Events[i].Pos = int64(len(p.Accepted) + i)
	}
	l.last = p.Number(l.last)
	l.at.MS++
	p.To = l.at
	return p
}

// write keeps what comes next in the log.
func (l *line) write(t testing.TB, a archive.Archive, accepted []archive.Accepted, events ...archive.Event) archive.Written {
	t.Helper()
	w, err := a.Write(t.Context(), me, []archive.Part{l.part(accepted, events...)})
	require.NoError(t, err)
	return w
}

// now is when most things happen, within this month.
var now = time.Now().UTC().Truncate(time.Millisecond)

const lane = dispatcher.Lane("u_1")

func of(id string) dispatcher.DeliveryID { return dispatcher.DeliveryID{Lane: lane, Message: id} }

// accepted are messages that were accepted now.
func accepted(ids ...string) (all []archive.Accepted) {
	for _, id := range ids {
		all = append(all, acceptedAt(now, id))
	}
	return all
}

func acceptedAt(at time.Time, id string) archive.Accepted {
	return archive.Accepted{
		ID: id, Lanes: []dispatcher.Lane{lane}, At: at, Due: at, Head: []byte("head of " + id), Body: []byte("body of " + id),
		Message: &dispatcher.Message{ID: id, Topic: "order.paid", Tenant: "shop", Subject: "o-1", URL: "https://example.com", CreatedAt: at},
	}
}

func event(kind archive.Kind, id string, number int) archive.Event {
	return archive.Event{
		ID: of(id), Kind: kind, At: now, Attempt: dispatcher.Attempt{
			Number: number, At: now.Add(-time.Second), Duration: time.Second, Status: 200, Address: "192.0.2.1:443", Excerpt: []byte("ok\x00\xff"),
		},
	}
}

// read is a query's first column as texts, in the query's order.
func read(t testing.TB, url, query string, values ...any) (all []string) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer c.Close(context.Background()) //nolint:errcheck // it only read
	rows, err := c.Query(t.Context(), query, values...)
	require.NoError(t, err)
	for rows.Next() {
		v, err := rows.Values()
		require.NoError(t, err)
		all = append(all, fmt.Sprint(v[0]))
	}
	require.NoError(t, rows.Err())
	return all
}

// run is a statement from outside.
func run(t testing.TB, url string, statements ...string) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer c.Close(context.Background()) //nolint:errcheck // all was answered
	for _, s := range statements {
		_, err := c.Exec(t.Context(), s)
		require.NoError(t, err, s)
	}
}

// notes is a log that tests read.
type notes struct {
	mu   sync.Mutex
	text strings.Builder
}

func (n *notes) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.Write(p)
}

func (n *notes) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.String()
}

func (n *notes) log() *slog.Logger { return slog.New(slog.NewTextHandler(n, nil)) }

func silent(int, int) {}

func TestAnExportHasTheNewestEndOfEachDeliveryOnce(t *testing.T) {
	postgres.ReadLittle(t)
	l := newLibrary(t)
	all := l.drawn(rand.New(rand.NewPCG(5, 6)), 300, l.months(5))
	middle := all[len(all)/2].At
	for _, c := range []struct {
		of   archive.Selection
		keep func(e archive.Event) bool
	}{
		{archive.Selection{}, func(archive.Event) bool { return true }},
		{archive.Selection{Tenant: "t0"}, func(e archive.Event) bool { return e.Tenant == "t0" }},
		{archive.Selection{Tenant: "t0", Subject: "s3", Before: middle}, func(e archive.Event) bool {
			return e.Tenant == "t0" && e.Subject == "s3" && e.At.Before(middle)
		}},
		{archive.Selection{Since: middle}, func(e archive.Event) bool { return !e.At.Before(middle) }},
		{archive.Selection{Tenant: "none"}, func(archive.Event) bool { return false }},
	} {
		var want []string
		for _, e := range all {
			if c.keep(e) {
				want = append(want, namesOf([]archive.End{{Event: e}})...)
			}
		}
		var got []archive.End
		done, of := 0, 0
		require.NoError(t, l.ExportEnds(t.Context(), c.of, func(e *archive.End) error {
			got = append(got, *e)
			return nil
		}, func(d, o int) { done, of = d, o }))
		require.ElementsMatch(t, want, namesOf(got), "%+v", c.of)
		require.Equal(t, of, done)
		for i := range got {
			require.True(t, c.of.Tenant == "" || i == 0 || !got[i].At.Before(got[i-1].At), "the oldest first")
		}
	}
}

func TestMessagesAreExportedWithTheirBodiesWhereTheseAreAskedFor(t *testing.T) {
	l := newLibrary(t)
	first := l.months(3)
	want := map[string]int{}
	for i := range 50 {
		m := dispatcher.Message{ID: fmt.Sprint("m", i), CreatedAt: first.Add(time.Duration(i) * 24 * time.Hour), Topic: "a.b", Tenant: fmt.Sprint("t", i%2), Body: []byte("body")}
		if m.CreatedAt.After(time.Now()) {
			break
		}
		body := m.Body
		if i%3 == 0 {
			body = nil // it is not kept
		}
		l.message(m, "head", body)
		want[m.ID] = i
	}
	for _, bodies := range []bool{true, false} {
		got := map[string]bool{}
		require.NoError(t, l.ExportMessages(t.Context(), archive.Selection{}, bodies, func(f *archive.Found) error {
			require.False(t, got[f.Message.ID])
			got[f.Message.ID] = true
			require.Equal(t, bodies && want[f.Message.ID]%3 != 0, f.HasBody)
			require.Equal(t, "head", string(f.Head))
			require.Equal(t, 4, f.Size)
			return nil
		}, silent))
		require.Len(t, got, len(want))
	}
	n := 0
	require.NoError(t, l.ExportMessages(t.Context(), archive.Selection{Tenant: "t1", Since: first.Add(time.Hour)}, false, func(*archive.Found) error {
		n++
		return nil
	}, silent))
	require.Equal(t, len(want)/2, n)
}

// What ends an export is told as it is, and not as the archive's fault.
func TestAnExportEndsWithItsReader(t *testing.T) {
	l := newLibrary(t)
	l.message(dispatcher.Message{ID: "m", CreatedAt: time.Now().UTC(), Topic: "a.b"}, "head", nil)
	l.event(archive.Event{ID: dispatcher.DeliveryID{Lane: "l", Message: "m"}, At: time.Now(), Kind: archive.Delivered})
	full := errors.New("disk full")
	err := l.ExportMessages(t.Context(), archive.Selection{}, false, func(*archive.Found) error { return full }, silent)
	require.ErrorIs(t, err, full)
	require.NotErrorIs(t, err, archive.ErrUnavailable)
	err = l.ExportEnds(t.Context(), archive.Selection{}, func(*archive.End) error { return full }, silent)
	require.Equal(t, full, err)
}

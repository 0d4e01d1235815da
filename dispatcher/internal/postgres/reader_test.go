package postgres_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/pgtest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
	"github.com/hookladder/hookladder/dispatcher/internal/postgres"
)

// library is an archive whose rows tests write themselves.
type library struct {
	testing.TB
	*postgres.Reader
	conn *pgx.Conn
	pos  int64
}

func newLibrary(t testing.TB) *library {
	t.Helper()
	url := pgtest.New(t)
	a, err := postgres.Open(postgres.Options{URL: url})
	require.NoError(t, err)
	t.Cleanup(a.Close)
	require.NoError(t, a.Maintain(t.Context(), 0))
	r, err := postgres.OpenReader(postgres.Options{URL: url, QueryTimeout: time.Minute})
	require.NoError(t, err)
	t.Cleanup(r.Close)
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return &library{TB: t, Reader: r, conn: conn}
}

func (l *library) exec(text string, values ...any) {
	l.Helper()
	_, err := l.conn.Exec(l.Context(), text, values...)
	require.NoError(l, err)
}

// months makes the tables of so many months before this one.
func (l *library) months(n int) (first time.Time) {
	l.Helper()
	now := time.Now().UTC()
	this := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	for i := 1; i <= n; i++ {
		m := this.AddDate(0, -i, 0)
		for _, table := range []string{"message", "event"} {
			l.exec(fmt.Sprintf("create table hookladder.%s_%s partition of hookladder.%[1]s for values from ('%[3]s') to ('%[4]s')",
				table, m.Format("2006_01"), m.Format(time.DateOnly), m.AddDate(0, 1, 0).Format(time.DateOnly)))
		}
	}
	return this.AddDate(0, -n, 0)
}

func monthOf(at time.Time) time.Time {
	return time.Date(at.Year(), at.Month(), 1, 0, 0, 0, 0, time.UTC)
}

func (l *library) message(m dispatcher.Message, head string, body []byte) {
	l.Helper()
	l.exec("insert into hookladder.message values ($1, $2, $3, nullif($4, ''), nullif($5, ''), $6, $7, $8, $9)",
		monthOf(m.CreatedAt), m.CreatedAt, m.ID, m.Tenant, m.Subject, m.Topic, len(m.Body), []byte(head), body)
}

// event writes what happened, behind all that was written before.
func (l *library) event(e archive.Event) archive.Event {
	l.Helper()
	l.pos++
	e.Pos = l.pos
	e.At = e.At.Truncate(time.Millisecond).UTC()
	e.Accepted = cmp.Or(e.Accepted, e.At)
	var began *time.Time
	if !e.Attempt.At.IsZero() {
		began = &e.Attempt.At
	}
	var marks []string
	for mark, set := range map[string]bool{"anew": e.Anew, "resend": e.Attempt.Resend, "short": e.Attempt.ShortHello} {
		if set {
			marks = append(marks, mark)
		}
	}
	slices.Sort(marks)
	mark := strings.Join(marks, " ")
	l.exec(`insert into hookladder.event values ($1, $2, $3, 0, $4, $5, $6, $7, $8, 5, $9, $10, null, nullif($11, ''), null, null, null,
		nullif($12, ''), nullif($13, ''), nullif($14, ''), nullif($15, ''), $16, null, $17, nullif(nullif($18, ''), 's4'))`,
		monthOf(e.At), e.At, e.Pos, string(e.Kind), e.ID.Message, string(e.ID.Lane), e.Attempt.Number, e.Attempt.Status, e.Wait.Milliseconds(), began,
		string(e.Reason), mark, e.Topic, e.Tenant, e.Subject, []byte(e.Attempt.Error), e.Accepted, dispatcher.SubjectToken(e.Subject)) // s4 is from before there were tokens
	return e
}

// all reads a list page by page, and calls between between two of them.
func (l *library) all(f archive.Filter, between func()) (list []archive.End) {
	l.Helper()
	for range 10_000 {
		page, err := l.Ends(l.Context(), f)
		require.NoError(l, err)
		require.LessOrEqual(l, len(page.Ends), f.Limit)
		list = append(list, page.Ends...)
		if page.Reached == nil {
			return list
		}
		require.NotEqual(l, f.After, page.Reached, "a page goes on")
		f.After = page.Reached
		between()
	}
	l.Fatal("the list never ends")
	return nil
}

// drawn writes random lives of deliveries over some months, and answers their newest ends,
// the oldest first.
func (l *library) drawn(rnd *rand.Rand, n int, first time.Time) []archive.Event {
	newest := map[dispatcher.DeliveryID]archive.Event{}
	span := time.Now().Add(-time.Hour).Sub(first)
	var lives []archive.Event
	for i := range n {
		e := archive.Event{
			ID:    dispatcher.DeliveryID{Lane: dispatcher.Lane(fmt.Sprint("l", rnd.IntN(3))), Message: fmt.Sprint("m", i)},
			At:    first.Add(time.Duration(rnd.Int64N(int64(span)))).Truncate(time.Duration(1+rnd.IntN(3)) * 24 * time.Hour), // many share a ms
			Topic: []string{"a.b", "a.c"}[rnd.IntN(2)], Tenant: fmt.Sprint("t", rnd.IntN(2)), Subject: fmt.Sprint("s", rnd.IntN(20)),
		}
		e.At = slices.MaxFunc([]time.Time{e.At, first}, time.Time.Compare)
		e.Accepted = e.At.Add(-time.Duration(rnd.IntN(60)) * 24 * time.Hour).Truncate(7 * 24 * time.Hour).UTC() // many share a ms
		lives = append(lives, e)
	}
	slices.SortFunc(lives, func(a, b archive.Event) int { return a.At.Compare(b.At) })
	for _, e := range lives {
		e.Kind = []archive.Kind{archive.Delivered, archive.Dead, archive.Cancelled, archive.Lost}[rnd.IntN(4)]
		if e.Kind == archive.Dead {
			e.Reason = []dispatcher.DeadReason{dispatcher.ReasonGone, dispatcher.ReasonExhausted}[rnd.IntN(2)]
		}
		newest[e.ID] = l.event(e)
		switch rnd.IntN(8) {
		case 0: // it is under way again
			e.Kind, e.At = archive.Resent, e.At.Add(time.Minute)
			l.event(e)
			delete(newest, e.ID)
		case 1: // it ended anew, in a later month perhaps
			e.Kind, e.At = archive.Resent, e.At.Add(time.Minute)
			l.event(e)
			e.Kind, e.At = archive.Delivered, e.At.Add(time.Duration(rnd.Int64N(int64(40*24*time.Hour))))
			if e.At.After(time.Now()) {
				e.At = time.Now()
			}
			e.Reason = ""
			newest[e.ID] = l.event(e)
		case 2: // it was forgotten in the store, and had ended before
			e.Kind, e.Reason, e.At = archive.Forgotten, "", e.At.Add(time.Minute)
			l.event(e)
		}
	}
	list := make([]archive.Event, 0, len(newest))
	for _, e := range newest {
		list = append(list, e)
	}
	slices.SortFunc(list, func(a, b archive.Event) int { return placeOf(a).Compare(placeOf(b)) })
	return list
}

func placeOf(e archive.Event) dispatcher.EndPlace {
	return dispatcher.EndPlace{At: e.At, ID: e.ID.String()}
}

func namesOf(ends []archive.End) []string {
	names := []string{}
	for _, e := range ends {
		names = append(names, e.At.Format(time.RFC3339Nano)+" "+e.ID.String())
	}
	return names
}

func TestEndsAreListedOnceInTheirOrderWhateverThePage(t *testing.T) {
	l := newLibrary(t)
	first := l.months(5)
	rnd := rand.New(rand.NewPCG(1, 2))
	all := l.drawn(rnd, 80, first)
	accepted := slices.Clone(all)
	for i := range accepted {
		accepted[i].At = accepted[i].Accepted
	}
	slices.SortFunc(accepted, func(a, b archive.Event) int { return placeOf(b).Compare(placeOf(a)) })
	middle := all[len(all)/2].At
	for i, c := range []struct {
		f    archive.Filter
		keep func(e archive.Event) bool
	}{
		{archive.Filter{Tenants: []string{"t0", "t1"}}, func(archive.Event) bool { return true }},
		{archive.Filter{Tenants: []string{"t1"}, Topics: []string{"a.c"}}, func(e archive.Event) bool { return e.Tenant == "t1" && e.Topic == "a.c" }},
		{archive.Filter{Lanes: []dispatcher.Lane{"l0", "l2"}, Since: middle}, func(e archive.Event) bool { return e.ID.Lane != "l1" && !e.At.Before(middle) }},
		{archive.Filter{Lanes: []dispatcher.Lane{"l1"}, Until: middle}, func(e archive.Event) bool { return e.ID.Lane == "l1" && e.At.Before(middle) }},
		{archive.Filter{Subjects: []string{"s3", "s4", "s3"}, Tenants: []string{"t0"}}, func(e archive.Event) bool {
			return (e.Subject == "s3" || e.Subject == "s4") && e.Tenant == "t0"
		}},
		{archive.Filter{SubjectLike: []string{"#S3"}, Tenants: []string{"t0"}}, func(e archive.Event) bool { return e.Subject == "s3" && e.Tenant == "t0" }},
		{archive.Filter{Lanes: []dispatcher.Lane{"l1"}, Statuses: []dispatcher.Status{dispatcher.StatusDead}}, func(e archive.Event) bool {
			return e.ID.Lane == "l1" && (e.Kind == archive.Dead || e.Kind == archive.Lost)
		}},
		{archive.Filter{Lanes: []dispatcher.Lane{"l1"}, Reasons: []dispatcher.DeadReason{dispatcher.ReasonGone}}, func(e archive.Event) bool {
			return e.ID.Lane == "l1" && e.Reason == dispatcher.ReasonGone
		}},
		{archive.Filter{Tenants: []string{"none"}}, func(archive.Event) bool { return false }},
	} {
		for _, oldest := range []bool{true, false} {
			want := []string{}
			for _, e := range all {
				if c.keep(e) {
					want = append(want, namesOf([]archive.End{{Event: e}})...)
				}
			}
			if !oldest {
				slices.Reverse(want)
			}
			for _, limit := range []int{1, 7, 1000} {
				c.f.Oldest, c.f.Limit = oldest, limit
				require.Equal(t, want, namesOf(l.all(c.f, func() {})), "%d: limit %d, oldest first: %v", i, limit, oldest)
			}
		}
		want := []string{}
		for _, e := range accepted {
			if c.keep(e) {
				want = append(want, namesOf([]archive.End{{Event: e}})...)
			}
		}
		c.f.Oldest, c.f.Accepted = false, true
		for _, c.f.Limit = range []int{1, 7, 1000} {
			got := l.all(c.f, func() {})
			for i := range got {
				require.Equal(t, got[i].Accepted, got[i].Created)
				got[i].At = got[i].Accepted
			}
			require.Equal(t, want, namesOf(got), "%d: limit %d, by acceptance", i, c.f.Limit)
		}
	}
}

// What ends while somebody pages comes behind all that ended, and changes nothing of it.
func TestAListThatIsReadWhileItGrowsMissesNothing(t *testing.T) {
	postgres.ReadLittle(t)
	for _, f := range []archive.Filter{{Oldest: true}, {}, {Accepted: true}} {
		l := newLibrary(t)
		first := l.months(2)
		all := l.drawn(rand.New(rand.NewPCG(3, 4)), 150, first)
		want := map[string]bool{}
		for _, e := range all {
			want[placeOf(e).ID] = true
		}
		n := 0
		got := map[string]int{}
		for _, e := range l.all(archive.Filter{Tenants: []string{"t0", "t1"}, Limit: 5, Oldest: f.Oldest, Accepted: f.Accepted}, func() {
			if n++; n < 100 {
				l.event(archive.Event{
					ID: dispatcher.DeliveryID{Lane: "l0", Message: fmt.Sprint("new", n)}, At: time.Now(), Kind: archive.Delivered, Topic: "a.b", Tenant: "t1",
				})
			}
		}) {
			got[e.ID.String()]++
		}
		for name, times := range got {
			require.Equal(t, 1, times, name)
		}
		for name := range want {
			require.Contains(t, got, name)
		}
	}
}

func TestAnEndTellsWhatWasBefore(t *testing.T) {
	l := newLibrary(t)
	l.months(1)
	at := time.Now().Add(-time.Hour).Truncate(time.Millisecond).UTC()
	id := dispatcher.DeliveryID{Lane: "l", Message: "m"}
	l.message(dispatcher.Message{ID: "m", CreatedAt: at, Topic: "a.b", Tenant: "t", Body: []byte("body")}, "the head", nil)
	e := archive.Event{ID: id, At: at, Kind: archive.Delivered, Topic: "a.b", Tenant: "t", Attempt: dispatcher.Attempt{Number: 1, Status: 200, At: at}}
	l.event(e)
	e.Kind, e.At, e.Anew = archive.Resent, at.Add(time.Second), true
	e.Attempt = dispatcher.Attempt{Number: 1}
	l.event(e)
	e.Kind, e.At, e.Anew = archive.Retry, at.Add(2*time.Second), false
	e.Attempt = dispatcher.Attempt{Number: 2, Status: 503, Error: "status 503", At: at.Add(2 * time.Second)}
	l.event(e)
	e.Kind, e.At, e.Attempt = archive.Cancelled, at.Add(3*time.Second), dispatcher.Attempt{Number: 2}
	l.event(e)
	page, err := l.Ends(t.Context(), archive.Filter{Lanes: []dispatcher.Lane{"l"}, Limit: 10})
	require.NoError(t, err)
	require.Len(t, page.Ends, 1)
	got := page.Ends[0]
	require.Equal(t, archive.Cancelled, got.Kind)
	require.Equal(t, at, got.Delivered)
	require.Equal(t, 1, got.Base)
	require.Equal(t, at, got.Created)
	require.Equal(t, "the head", string(got.Head))
	require.Equal(t, 503, got.LastStatus)
	require.Equal(t, "status 503", got.LastError)
}

func TestAMessageIsFoundInAnyMonth(t *testing.T) {
	l := newLibrary(t)
	first := l.months(62)
	for _, at := range []time.Time{first.Add(time.Hour), first.AddDate(2, 5, 14), time.Now().Add(-time.Hour)} {
		at = at.Truncate(time.Millisecond).UTC()
		made, err := ulid.New(ulid.Timestamp(at), ulid.DefaultEntropy())
		require.NoError(t, err)
		for _, id := range []string{"msg_" + made.String(), "order_" + fmt.Sprint(at.Unix())} {
			l.message(dispatcher.Message{ID: id, CreatedAt: at, Topic: "a.b", Tenant: "t", Subject: "s", Body: []byte("body")}, "digest----------head", []byte("body"))
			for n, lane := range []dispatcher.Lane{"b", "a"} {
				e := archive.Event{ID: dispatcher.DeliveryID{Lane: lane, Message: id}, At: at.Add(time.Second), Kind: archive.Retry, Wait: time.Minute, Topic: "a.b"}
				e.Attempt = dispatcher.Attempt{Number: 1, Status: 500, At: at, Error: "status 500"}
				l.event(e)
				e.At, e.Kind, e.Attempt.Number, e.Attempt.Status, e.Attempt.Error = at.Add(time.Duration(n+2)*time.Second), archive.Delivered, 2, 200, ""
				e.Attempt.Resend, e.Attempt.ShortHello = lane == "a", true
				l.event(e)
			}
			found, err := l.Find(t.Context(), id)
			require.NoError(t, err)
			require.Equal(t, dispatcher.Message{ID: id, CreatedAt: at, Topic: "a.b", Tenant: "t", Subject: "s", Body: []byte("body")}, found.Message)
			require.True(t, found.HasBody)
			require.Equal(t, 4, found.Size)
			require.Len(t, found.Deliveries, 2)
			require.Equal(t, dispatcher.Lane("a"), found.Deliveries[0].ID.Lane)
			require.Len(t, found.Deliveries[0].Events, 2)
			require.Equal(t, archive.Retry, found.Deliveries[0].Events[0].Kind)
			require.Equal(t, time.Minute, found.Deliveries[0].Events[0].Wait)
			require.Equal(t, "status 500", found.Deliveries[0].Events[0].Attempt.Error)
			require.Equal(t, archive.Delivered, found.Deliveries[0].Events[1].Kind)
			require.Equal(t, 5*time.Millisecond, found.Deliveries[0].Events[1].Attempt.Duration)
			for n, asked := range []bool{true, false} {
				before, last := found.Deliveries[n].Events[0].Attempt, found.Deliveries[n].Events[1].Attempt
				require.False(t, before.Resend || before.ShortHello)
				require.True(t, last.ShortHello)
				require.Equal(t, asked, last.Resend)
			}
		}
	}
	_, err := l.Find(t.Context(), "never")
	require.ErrorIs(t, err, dispatcher.ErrNotFound)
}

// An id may be another message's once the store has forgotten the first: what happened to
// that one is not told of the second. A fan-out has a row for each of its partitions.
func TestTheNewerOfTwoMessagesWithOneIDIsFound(t *testing.T) {
	l := newLibrary(t)
	first := l.months(3)
	then, now := first.Add(time.Hour), time.Now().Add(-time.Hour).Truncate(time.Millisecond).UTC()
	id := dispatcher.DeliveryID{Lane: "l", Message: "m"}
	l.message(dispatcher.Message{ID: "m", CreatedAt: then, Topic: "old"}, "one digest of 16 and more", nil)
	l.event(archive.Event{ID: id, At: then, Kind: archive.Dead})
	for _, at := range []time.Time{now, now.Add(time.Minute)} {
		l.message(dispatcher.Message{ID: "m", CreatedAt: at, Topic: "new"}, "another digest and more", []byte{})
	}
	l.event(archive.Event{ID: id, At: now, Kind: archive.Delivered})
	found, err := l.Find(t.Context(), "m")
	require.NoError(t, err)
	require.Equal(t, "new", found.Message.Topic)
	require.Equal(t, now, found.Message.CreatedAt)
	require.True(t, found.HasBody, "an empty body is one")
	require.Len(t, found.Deliveries, 1)
	require.Len(t, found.Deliveries[0].Events, 1)
}

// Of what has not finished only its own row may have the message.
func TestWhatHasNotFinishedIsFound(t *testing.T) {
	l := newLibrary(t)
	at := time.Now().Add(-time.Hour).Truncate(time.Millisecond).UTC()
	l.exec(`insert into hookladder.open (id, lane, partition, epoch, created, pos, due, attempts, base, beside, topic, tenant, head, body)
		values ('m', 'l', 0, 'e', $1, 7, $2, 3, 1, 0, 'a.b', 't', 'head', 'body')`, at, at.Add(time.Minute))
	found, err := l.Find(t.Context(), "m")
	require.NoError(t, err)
	require.Equal(t, dispatcher.Message{ID: "m", CreatedAt: at, Topic: "a.b", Tenant: "t", Body: []byte("body")}, found.Message)
	require.Equal(t, "head", string(found.Head))
	require.Equal(t, 4, found.Size)
	require.Len(t, found.Deliveries, 1)
	require.Equal(t, archive.Open{
		ID: dispatcher.DeliveryID{Lane: "l", Message: "m"}, Epoch: "e", Pos: 7, Created: at, Due: at.Add(time.Minute),
		Attempts: 3, Base: 1, Topic: "a.b", Tenant: "t",
	}, *found.Deliveries[0].Open)
}

func TestAnArchiveIsWholeSinceItsLastGap(t *testing.T) {
	l := newLibrary(t)
	began := time.Now().Add(-time.Hour).Truncate(time.Millisecond).UTC()
	l.exec("insert into hookladder.position (partition, epoch, ms, seq, last, began) values (0, 'e', 0, 0, 0, $1), (-1, 'e', 0, 0, 0, now())", began)
	since, err := l.Since(t.Context())
	require.NoError(t, err)
	require.Equal(t, slices.MaxFunc([]time.Time{began, monthOf(time.Now().UTC())}, time.Time.Compare), since)

	l = newLibrary(t)
	gap := began.Add(10 * time.Minute)
	l.exec("insert into hookladder.position (partition, epoch, ms, seq, last, began, walk_ms, walk_seq) values (0, 'e', 0, 0, 0, $1, $2, 0)", began, gap.UnixMilli())
	since, err = l.Since(t.Context())
	require.NoError(t, err)
	require.Equal(t, slices.MaxFunc([]time.Time{gap, monthOf(time.Now().UTC())}, time.Time.Compare), since)

	l = newLibrary(t)
	l.exec(`insert into hookladder.position (partition, epoch, ms, seq, last, began, walk_ms, walk_seq, gap_ms, gap_seq)
		values (0, 'e', 0, 0, 0, $1, 0, 0, $2, 0)`, began, gap.UnixMilli())
	since, err = l.Since(t.Context())
	require.NoError(t, err)
	require.Equal(t, slices.MaxFunc([]time.Time{gap, monthOf(time.Now().UTC())}, time.Time.Compare), since, "a gap that was passed and is not compared yet")
}

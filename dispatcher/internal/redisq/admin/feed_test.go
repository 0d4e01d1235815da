package admin_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/admin"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// archived is a store with one partition whose log is archived.
type archived struct {
	*redisqtest.Project
	store *redisqtest.Raw
	feed  *admin.Feed
	made  int
}

func newArchived(t *testing.T, server redisqtest.Server) *archived {
	t.Helper()
	p := redisqtest.NewProject(t, server, 1)
	a := &archived{Project: p, store: p.Open(1)}
	a.feed = admin.NewFeed(a.store.Bare())
	require.NoError(t, a.feed.Begin(t.Context()))
	return a
}

// accept publishes messages of so many bytes to one lane.
func (a *archived) accept(n, bytesOf int) {
	a.T.Helper()
	var batch []dispatcher.Entry
	for range n {
		a.made++
		batch = append(batch, a.Entry(fmt.Sprintf("n%d", a.made), []dispatcher.Lane{"u_a"}, func(m *dispatcher.Message) {
			m.Body, m.Subject = bytes.Repeat([]byte("x"), bytesOf), "" // all are of one size
		}))
	}
	a.Publish(a.store, batch...)
}

// deliver delivers all that is ready.
func (a *archived) deliver() {
	a.T.Helper()
	for {
		claimed, _, err := a.store.Claim(context.Background(), "one", []int{0}, 64, 512)
		require.NoError(a.T, err)
		if len(claimed) == 0 {
			return
		}
		var batch []dispatcher.Settlement
		for _, c := range claimed {
			batch = append(batch, redisqtest.Success(c))
		}
		_, _, err = a.store.Settle(context.Background(), "one", batch)
		require.NoError(a.T, err)
	}
}

func (a *archived) state() archive.State {
	a.T.Helper()
	states, err := a.feed.States(context.Background(), []int{0})
	require.NoError(a.T, err)
	return states[0]
}

func (a *archived) read() archive.Part {
	a.T.Helper()
	p, err := a.feed.Read(context.Background(), 0, a.state().At, 1<<20, 1<<30)
	require.NoError(a.T, err)
	return p
}

func (a *archived) archive(p archive.Part) {
	a.T.Helper()
	require.NoError(a.T, a.feed.Archived(context.Background(), []archive.Part{p}))
}

// trim trims all that it may, and keeps nothing that ended of itself.
func (a *archived) trim(backlog int64, room bool) {
	a.T.Helper()
	keep := dispatcher.Keep{Finished: time.Second, Dead: time.Second, Backlog: backlog}
	for more := true; more; {
		trimmed, err := a.store.Trim(context.Background(), "one", []int{0}, keep, room)
		require.NoError(a.T, err)
		more = trimmed.More
	}
}

// whole counts the messages that are kept.
func (a *archived) whole() (n int) {
	for _, m := range a.States(1)[0].Messages {
		if m.Whole {
			n++
		}
	}
	return n
}

func TestWhatIsNotArchivedIsNotTrimmed(t *testing.T) {
	redisqtest.OnBoth(t, func(t *testing.T, server redisqtest.Server) {
		a := newArchived(t, server)
		a.accept(3, 100)
		a.deliver()
		a.Pass(time.Minute)
		a.trim(0, false)
		require.Equal(t, 3, a.whole())
		require.Positive(t, a.state().Backlog)

		p := a.read()
		require.Len(t, p.Accepted, 3)
		require.Len(t, p.Events, 3)
		require.Equal(t, p.Bytes, a.state().Backlog)
		require.False(t, p.More)
		a.trim(0, false)
		require.Equal(t, 3, a.whole(), "it is read, and not archived")
		a.accept(1, 100)
		a.archive(p)
		a.Pass(time.Minute)
		a.trim(0, false)
		require.Equal(t, 4, a.whole(), "there is more, and the clock may have stepped back by a second")
		p = a.read()
		require.False(t, p.TailLost)
		a.archive(p)
		require.Zero(t, a.state().Backlog)
		a.trim(0, false)
		require.Equal(t, 1, a.whole(), "all is archived")
		require.Equal(t, archive.Position{Seq: 1}, a.state().Gap, "of the begin: nothing was cut since")
		require.Zero(t, a.state().Dropped)
	})
}

func TestALowerPositionChangesNothing(t *testing.T) {
	a := newArchived(t, redistest.Share(t))
	a.accept(2, 100)
	first := a.read()
	a.Pass(time.Millisecond)
	a.accept(2, 100)
	both := a.read()
	require.Equal(t, 2*first.Bytes, both.Bytes)
	a.archive(both)
	a.accept(1, 100)
	before := a.state()
	a.archive(first)
	a.archive(both)
	require.Equal(t, before, a.state())
	other := a.read()
	other.Epoch = "another"
	a.archive(other)
	require.Equal(t, before, a.state(), "it is of data that are gone")
	a.archive(a.read())
	require.NotEqual(t, before.At, a.state().At)
}

func TestBeyondTheBacklogTheOldestGoAndAreCounted(t *testing.T) {
	a := newArchived(t, redistest.Share(t))
	for range 80 {
		a.accept(1, 1000)
		a.deliver()
		a.Pass(2 * time.Second)
	}
	before := a.state()
	a.trim(60_000, false)
	after := a.state()
	require.LessOrEqual(t, after.Backlog, int64(60_000))
	require.Positive(t, after.Dropped)
	require.Equal(t, before.At, after.At)
	require.True(t, after.Gap.After(after.At))
	require.Less(t, a.whole(), 70)
	require.Greater(t, a.whole(), 30, "no more goes than must")

	p := a.read()
	require.Zero(t, p.Missing, "what is still told of is whole")
	require.Equal(t, after.Backlog, p.Bytes)
	a.archive(p)
	require.Zero(t, a.state().Backlog)
	require.Equal(t, after.Gap, a.state().Gap, "until the archive was compared with the store")
}

func TestMemoryIsFreedAlsoOfWhatIsNotArchived(t *testing.T) {
	a := newArchived(t, redistest.Share(t))
	a.accept(8, 1000)
	a.deliver()
	a.Pass(2 * time.Minute)
	a.accept(1, 1000)
	a.deliver()
	a.Pass(2 * time.Minute)
	a.trim(0, false)
	require.Equal(t, 9, a.whole())
	a.trim(0, true)
	require.Less(t, a.whole(), 9)
	require.Positive(t, a.state().Dropped)
}

// An instance that does not know yet that there is an archive keeps nothing for it.
func TestWhatAnInstanceCutsBeforeItKnowsOfTheArchiveIsAGap(t *testing.T) {
	a := newArchived(t, redistest.Share(t))
	a.accept(1, 100)
	a.deliver()
	a.archive(a.read())
	for range 80 {
		a.accept(1, 1000)
		a.deliver()
		a.Pass(2 * time.Second)
	}
	a.Pass(48 * time.Hour)
	a.store.Conn().SetArchives(false)
	a.trim(0, false)
	require.True(t, a.state().Gap.After(a.state().At))
}

// Memory may be freed between the reading of the log and that of its messages.
func TestWhatIsGivenUpWhileItIsReadIsCounted(t *testing.T) {
	a := newArchived(t, redistest.Share(t))
	a.accept(8, 1000)
	a.deliver()
	a.Pass(2 * time.Minute)
	a.accept(1, 1000)
	reader := redisqtest.Open(t, a.Options)
	a.feed = admin.NewFeed(reader.Bare())
	before := a.state()
	reader.Client().AddHook(&swap{before: 1, do: func() { a.trim(0, true) }})
	p, err := a.feed.Read(t.Context(), 0, before.At, 1<<20, 1<<30)
	require.NoError(t, err)
	require.Equal(t, 8, p.Missing)
	require.Len(t, p.Accepted, 9)
	require.EqualValues(t, 17, a.state().Dropped, "their lines of acceptance and end, and one of the ninth")
}

// What is archived makes room: so an archive begins where there is none.
func TestAnArchiveBeginsWhileMemoryIsFull(t *testing.T) {
	p := redisqtest.NewProject(t, redistest.Start(t), 1)
	a := &archived{Project: p, store: p.Open(1)}
	a.feed = admin.NewFeed(a.store.Bare())
	a.accept(1, 10)
	require.NoError(t, a.store.Client().ConfigSet(t.Context(), "maxmemory", "1").Err())
	require.NoError(t, a.feed.Begin(t.Context()))
	require.NoError(t, a.feed.Begin(t.Context()))
	last := a.state().Last
	a.archive(archive.Part{Epoch: a.state().Epoch, To: archive.Position{MS: last.MS + 1}, Bytes: 1})
	require.True(t, a.state().At.After(last))
	require.NoError(t, a.store.Client().ConfigSet(t.Context(), "maxmemory", "0").Err())
}

func TestAStoreThatWasEmptiedHasAnotherEpoch(t *testing.T) {
	a := newArchived(t, redistest.Share(t))
	epoch := a.state().Epoch
	require.NotEmpty(t, epoch)
	require.Equal(t, epoch, a.state().Epoch)
	require.NoError(t, a.store.Client().Del(t.Context(), redisqtest.Keys(t, a.store.Client(), a.Options.Project)...).Err())
	a.Pass(time.Second)
	require.NotEqual(t, epoch, a.state().Epoch)
	require.Equal(t, "1", a.store.Client().HGet(t.Context(), keys.Home(a.Options.Project)+keys.Meta, "archive").Val())
}

func TestWhatWasBeforeTheBeginIsNotRead(t *testing.T) {
	p := redisqtest.NewProject(t, redistest.Share(t), 1)
	a := &archived{Project: p, store: p.Open(1)}
	a.feed = admin.NewFeed(a.store.Bare())
	a.accept(2, 10)
	a.deliver()
	a.accept(2, 10)
	require.NoError(t, a.feed.Begin(t.Context()))
	require.Empty(t, a.read().Events)
	page, err := a.feed.Unfinished(t.Context(), 0, "")
	require.NoError(t, err)
	require.Empty(t, page.Next)
	require.Len(t, page.Open, 2)
	require.Equal(t, 4, page.Messages)
	require.Equal(t, 4, page.Total)
	a.accept(1, 10)
	got := a.read()
	require.Len(t, got.Accepted, 1)
	other := p.Open(1) // another instance knows by :meta
	got2, _, err := other.Schedule(t.Context(), "two", 0, 0, []dispatcher.Entry{p.Entry("x", []dispatcher.Lane{"u_b", "u_c"})})
	require.NoError(t, err)
	require.NoError(t, got2[0].Err)
	require.Len(t, a.read().Accepted, 2)
}

func TestALargeBodyIsReadToo(t *testing.T) {
	a := newArchived(t, redistest.Share(t))
	a.accept(1, 20_000)
	a.accept(1, 2<<20)
	p := a.read()
	require.Len(t, p.Accepted[0].Body, 20_000)
	require.Len(t, p.Accepted[1].Body, 2<<20)
	require.Greater(t, p.Bytes, int64(2<<20+20_000))
	m := redisqtest.Unarchive(t, "n2", p.Accepted[1].Head, p.Accepted[1].Body)
	require.Len(t, m.Body, 2<<20)
	require.Equal(t, "a.b", m.Topic)

	one, err := a.feed.Read(t.Context(), 0, p.From, 100, 1<<20)
	require.NoError(t, err)
	require.Len(t, one.Accepted, 1, "no more bytes than asked for")
	require.True(t, one.More)
}

func TestAMessageThatHasGoneIsCounted(t *testing.T) {
	a := newArchived(t, redistest.Share(t))
	a.accept(2, 10)
	require.NoError(t, a.store.Client().HDel(t.Context(), keys.Tag(a.Options.Project, 0)+keys.Messages, "n1").Err())
	p := a.read()
	require.Equal(t, 1, p.Missing)
	require.Nil(t, p.Accepted[0].Message)
	require.Equal(t, []dispatcher.Lane{"u_a"}, p.Accepted[0].Lanes)
	require.NotNil(t, p.Accepted[1].Message)
}

func TestWhoAskedIsTold(t *testing.T) {
	a := newArchived(t, redistest.Share(t))
	ctx := dispatcher.WithCaller(t.Context(), "key:ops")
	a.Publish(a.store, a.Entry("later", []dispatcher.Lane{"u_a"}, redisqtest.After(time.Hour)))
	due := a.Now.Add(time.Hour)
	_, _, err := a.store.Retry(ctx, "one", []dispatcher.DeliveryID{{Lane: "u_a", Message: "later"}}, false)
	require.NoError(t, err)
	a.deliver()
	_, _, err = a.store.Retry(ctx, "one", []dispatcher.DeliveryID{{Lane: "u_a", Message: "later"}}, true)
	require.NoError(t, err)
	p := a.read()
	require.Len(t, p.Events, 3)
	require.Equal(t, "key:ops", p.Events[0].By)
	require.WithinDuration(t, due, p.Events[0].Due, time.Millisecond)
	require.False(t, p.Events[0].Anew)
	require.Equal(t, archive.Delivered, p.Events[1].Kind)
	require.Equal(t, "key:ops", p.Events[2].By)
	require.True(t, p.Events[2].Anew)
	require.Equal(t, 1, p.Events[2].Attempt.Number)
	require.Len(t, p.Accepted, 2)
	require.True(t, p.Accepted[1].Again)
	folded := archive.Fold([]archive.Part{p}, nil)
	require.Len(t, folded.Open, 1)
	require.Equal(t, 1, folded.Open[0].Base)
	require.NotEmpty(t, folded.Open[0].Body)
}

// A success that comes when its delivery is leased to another instance ends the delivery once.
func TestALateSuccessIsToldOnce(t *testing.T) {
	for _, verdict := range []dispatcher.Verdict{dispatcher.Retry, dispatcher.Delivered} {
		a := newArchived(t, redistest.Share(t))
		a.accept(1, 10)
		claimed, _, err := a.store.Claim(t.Context(), "one", []int{0}, 64, 512)
		require.NoError(t, err)
		for range 2 { // it is repeated, since its answer was lost
			a.settle("two", claimed[0].ID, dispatcher.Delivered)
		}
		a.Now = a.Now.Add(time.Second) // it is another attempt
		a.settle("one", claimed[0].ID, verdict)
		p := a.read()
		folded := archive.Fold([]archive.Part{p}, nil)
		require.Empty(t, folded.Open)
		var kinds []archive.Kind
		for _, e := range p.Events {
			kinds = append(kinds, e.Kind)
		}
		require.ElementsMatch(t, []archive.Kind{archive.Delivered, archive.Late, 0}, kinds)
	}
}

// settle records an attempt of an instance.
func (a *archived) settle(by string, id dispatcher.DeliveryID, verdict dispatcher.Verdict) {
	attempt := dispatcher.Attempt{Number: 1, At: a.Now, Status: 200, Verdict: verdict}
	if verdict != dispatcher.Delivered {
		attempt.Status, attempt.Class = 503, dispatcher.ClassStatus
	}
	_, _, err := a.store.Settle(a.T.Context(), by, []dispatcher.Settlement{{ID: id, Verdict: verdict, Attempt: attempt, Wait: time.Minute}})
	require.NoError(a.T, err)
}

// What the evidence says of an attempt comes with its event.
func TestAnEventHasItsAttempt(t *testing.T) {
	redisqtest.OnBoth(t, func(t *testing.T, server redisqtest.Server) {
		a := newArchived(t, server)
		a.accept(1, 10)
		claimed, _, err := a.store.Claim(t.Context(), "one", []int{0}, 64, 512)
		require.NoError(t, err)
		attempt := dispatcher.Attempt{
			Number: 1, At: a.Now, Status: 503, Verdict: dispatcher.Retry, Duration: 1234 * time.Microsecond, Class: "5xx", Error: "no", Address: "192.0.2.1",
		}
		_, _, err = a.store.Settle(t.Context(), "one", []dispatcher.Settlement{{ID: claimed[0].ID, Verdict: dispatcher.Retry, Attempt: attempt, Wait: 5 * time.Minute}})
		require.NoError(t, err)
		p := a.read()
		require.Len(t, p.Events, 1)
		e := p.Events[0]
		require.Equal(t, archive.Retry, e.Kind)
		require.Equal(t, 5*time.Minute, e.Wait)
		require.Equal(t, attempt, e.Attempt)
		require.Equal(t, a.Now.UnixMilli(), e.At.UnixMilli())
		folded := archive.Fold([]archive.Part{p}, nil)
		require.Equal(t, redisqtest.PlaceDue, a.States(1)[0].At(claimed[0].ID).Place)
		require.WithinDuration(t, a.Now.Add(5*time.Minute), folded.Open[0].Due, 2*time.Millisecond)
	})
}

// The script that settles an attempt may be held up between reading the clock and writing to the log.
func TestARetryIsArchivedWithItsDueTime(t *testing.T) {
	redisqtest.OnBoth(t, func(t *testing.T, server redisqtest.Server) {
		a := newArchived(t, server)
		a.accept(1, 10)
		claimed, _, err := a.store.Claim(t.Context(), "one", []int{0}, 64, 512)
		require.NoError(t, err)
		attempt := dispatcher.Attempt{Number: 1, At: a.Now, Status: 503, Verdict: dispatcher.Retry}
		_, _, err = a.store.Settle(t.Context(), "one", []dispatcher.Settlement{{ID: claimed[0].ID, Verdict: dispatcher.Retry, Attempt: attempt, Wait: time.Minute}})
		require.NoError(t, err)

		client, log := a.Client, keys.Tag(a.Options.Project, 0)+keys.Attempts
		entries, err := client.XRevRangeN(t.Context(), log, "+", "-", 1).Result()
		require.NoError(t, err)
		at, err := archive.ParsePosition(entries[0].ID)
		require.NoError(t, err)
		at.MS += 300
		require.NoError(t, client.XDel(t.Context(), log, entries[0].ID).Err())
		require.NoError(t, client.XAdd(t.Context(), &redis.XAddArgs{Stream: log, ID: at.String(), Values: entries[0].Values}).Err())
		folded := archive.Fold([]archive.Part{a.read()}, nil)
		require.Equal(t, a.Now.Add(time.Minute).UnixMilli(), folded.Open[0].Due.UnixMilli())
	})
}

// swap has another store take the place of the one that is read, before a round trip.
type swap struct {
	before int // which round trip
	met    int
	last   string // the name of the last command of the last one
	do     func()
}

func (s *swap) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (s *swap) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (s *swap) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if s.met == s.before {
			s.do()
		}
		s.met, s.last = s.met+1, cmds[len(cmds)-1].Name()
		return next(ctx, cmds)
	}
}

// Whatever round trip the store is swapped before, what was read is told to be of the
// new one: then nothing of the mixture is kept.
func TestWhatIsReadWhileTheStoreIsSwappedIsNotOfTheOldOne(t *testing.T) {
	log := func(a *archived, from archive.Position) (string, error) {
		part, err := a.feed.Read(context.Background(), 0, from, 1<<20, 1<<30)
		return part.Epoch, err
	}
	unfinished := func(a *archived, _ archive.Position) (string, error) {
		page, err := a.feed.Unfinished(context.Background(), 0, "")
		return page.Open[0].Epoch, err
	}
	ways := map[string]struct {
		size, trips int
		read        func(a *archived, from archive.Position) (string, error)
	}{
		"log": {100, 2, log}, "log of a body that lies apart": {1 << 20, 3, log}, "unfinished": {1 << 20, 2, unfinished},
	}
	for name, way := range ways {
		for trip := range way.trips {
			t.Run(fmt.Sprint(name, trip), func(t *testing.T) {
				a := newArchived(t, redistest.StartMini(t))
				a.accept(1, way.size)
				before := a.state()
				epoch, err := way.read(a, before.At)
				require.NoError(t, err)
				require.Equal(t, before.Epoch, epoch)

				client, key := redisqtest.Open(t, a.Options).Client(), keys.Tag(a.Options.Project, 0)+keys.Limits
				s := &swap{before: trip, do: func() { require.NoError(t, client.HSet(context.Background(), key, keys.Epoch, "another").Err()) }}
				a.store.Client().AddHook(s)
				epoch, err = way.read(a, before.At)
				require.NoError(t, err)
				require.Equal(t, "another", epoch)
				require.Equal(t, way.trips, s.met, "all were tried")
				require.Equal(t, "hget", s.last, "the epoch is read behind what is of it")
			})
		}
	}
}

// A process of Redis hashes with a seed of its own: the cursor of another one skips a part.
func TestAWalkNeverGoesOnInAnotherProcessOfRedis(t *testing.T) {
	for name, hides := range map[string]bool{"it tells which it is": false, "a service hides that": true} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t, "appendfsync always", "user service on nopass ~* &* +@all -info")
			p := redisqtest.NewProject(t, server, 1)
			if hides {
				p.Options.URL = strings.Replace(p.Options.URL, "redis://", "redis://service:any@", 1)
			}
			a := &archived{Project: p, store: p.Open(1)}
			a.feed = admin.NewFeed(a.store.Bare())
			require.NoError(t, a.feed.Begin(t.Context()))
			const many = 3000
			a.accept(many, 10)
			page, err := a.feed.Unfinished(t.Context(), 0, "")
			require.NoError(t, err)
			require.Len(t, page.Open, page.Messages)
			require.Less(t, len(page.Open), many)
			next, err := a.feed.Unfinished(t.Context(), 0, page.Next)
			require.NoError(t, err, "the same process")
			server.Restart()
			_, err = a.feed.Unfinished(t.Context(), 0, next.Next)
			for err != nil && err != archive.ErrServerChanged { // it is still starting
				require.ErrorIs(t, err, dispatcher.ErrUnavailable)
				_, err = a.feed.Unfinished(t.Context(), 0, next.Next)
			}
			require.ErrorIs(t, err, archive.ErrServerChanged)
			met := map[string]bool{}
			for cursor := ""; ; {
				page, err := a.feed.Unfinished(t.Context(), 0, cursor)
				require.NoError(t, err)
				for _, o := range page.Open {
					met[o.ID.Message] = true
				}
				if cursor = page.Next; cursor == "" {
					break
				}
			}
			require.Len(t, met, many)
		})
	}
}

// The log lost its end with the last second, or another master numbers it by a clock
// that is behind.
func TestNothingIsWrittenBeforeWhatIsArchived(t *testing.T) {
	a := newArchived(t, redistest.Share(t))
	a.accept(1, 100)
	p := a.read()
	p.To = archive.Position{MS: max(a.Now.UnixMilli(), time.Now().UnixMilli()) + 3_600_000, Seq: 7} // Redis has its own clock
	a.archive(p)
	require.Equal(t, p.To, a.state().At)
	a.accept(1, 100)
	got := a.read()
	require.Len(t, got.Accepted, 1)
	require.True(t, got.To.After(p.To))
}

// Another master took over that has neither the last entries nor how far they are archived.
func TestAStoreThatLostItsTailSaysSo(t *testing.T) {
	a := newArchived(t, redistest.Share(t))
	a.accept(1, 100)
	before := a.read()
	a.archive(before)
	require.False(t, a.read().TailLost)
	a.Pass(time.Second)
	a.accept(1, 100)
	p := a.read()
	a.archive(p)
	client, tag := a.store.Client(), keys.Tag(a.Options.Project, 0)
	require.NoError(t, client.XDel(t.Context(), tag+keys.Attempts, p.To.String()).Err())
	require.NoError(t, client.HSet(t.Context(), tag+keys.Archive, "p", before.To.String()).Err())
	require.Equal(t, before.To, a.state().At)
	a.Pass(time.Second)
	a.accept(1, 100)

	a.archive(p)
	got := a.read()
	require.True(t, got.TailLost)
	require.Len(t, got.Accepted, 1)
	a.archive(got)
	a.accept(1, 100)
	got = a.read()
	require.False(t, got.TailLost, "once")
	a.archive(got)
	require.False(t, a.read().TailLost)
}

func TestWhatWasCutIsNoTailThatWasLost(t *testing.T) {
	a := newArchived(t, redistest.Share(t))
	a.accept(1, 1000)
	a.deliver()
	early := a.read()
	for range 20 {
		a.Pass(2 * time.Second)
		a.accept(1, 1000)
		a.deliver()
	}
	a.trim(2_000, false)
	require.True(t, a.state().Gap.After(early.To))
	a.archive(early)
	require.Equal(t, early.To, a.state().At)
	require.False(t, a.read().TailLost)
}

// A comparison waits for no entry that was cut.
func TestALogThatWasCutToItsEndHasNoNewestEntry(t *testing.T) {
	a := newArchived(t, redistest.Share(t))
	a.accept(3, 1000)
	before := a.state()
	require.True(t, before.Last.After(before.At))
	a.trim(1, false)
	cut := a.state()
	require.Zero(t, cut.Last)
	require.True(t, cut.Gap.After(before.Last))
	require.Equal(t, before.At, cut.At)
	p := a.read()
	require.Equal(t, p.From, p.To)
	require.False(t, p.More)
}

package admin_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/admin"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// restoreOnBoth runs a test on both kinds of store. Scripts cost miniredis ten times as much, so one
// test is enough.
func restoreOnBoth(t *testing.T, run func(t *testing.T, server redistest.Redis)) {
	t.Run("redis", func(t *testing.T) { run(t, redistest.Start(t)) })
	t.Run("miniredis", func(t *testing.T) { run(t, redistest.StartMini(t)) })
}

func restoreOnRedis(t *testing.T, run func(t *testing.T, server redistest.Redis)) {
	run(t, redistest.Start(t))
}

// lost is what a store had before it was lost.
type lost struct {
	open  []archive.Open // in the order of Pos
	known []archive.Known
	dead  []archive.DeadOne
}

// lose fills a project, reads what an archive would have of it, and removes all.
func lose(t *testing.T, p *redisqtest.Project) lost {
	t.Helper()
	ctx := context.Background()
	p.Fill(6)
	s := p.Open(p.Options.Partitions)
	var was lost
	f := admin.NewFeed(s.Bare())
	for n := range p.Options.Partitions {
		for cursor := ""; ; {
			page, err := f.Unfinished(ctx, n, cursor)
			require.NoError(t, err)
			was.open = append(was.open, page.Open...)
			if cursor = page.Next; cursor == "" {
				break
			}
		}
	}
	slices.SortStableFunc(was.open, func(a, b archive.Open) int { return int(a.Pos - b.Pos) })
	for n, state := range p.States(p.Options.Partitions) {
		for _, id := range state.Deliveries() {
			record, err := s.Client().HGet(ctx, keys.Tag(p.Options.Project, n)+keys.Messages, id.Message).Result()
			require.NoError(t, err)
			at := state.At(id)
			switch at.Place {
			case redisqtest.PlaceDead:
				was.dead = append(was.dead, deadOne(t, s, state, id, record))
				fallthrough
			case redisqtest.PlaceDone, redisqtest.PlaceCancelled:
				was.known = append(was.known, archive.Known{ID: id.Message, Digest: dispatcher.Digest([]byte(record[:16])), Lane: id.Lane, Ended: time.UnixMilli(at.At)})
			}
		}
	}
	require.NotEmpty(t, was.open)
	require.NotEmpty(t, was.known)
	require.NotEmpty(t, was.dead)
	for _, key := range redisqtest.Keys(t, s.Client(), p.Options.Project) { // they may lie on several servers
		require.NoError(t, s.Client().Del(ctx, key).Err())
	}
	p.Pass(time.Second)
	return was
}

func deadOne(t *testing.T, s *redisqtest.Raw, state redisqtest.State, id dispatcher.DeliveryID, record string) archive.DeadOne {
	t.Helper()
	at, progress := state.At(id).At, state.Progress[id]
	m, head, body := mustSplit(t, id.Message, record)
	if m.Apart != nil {
		text, err := s.Client().HGet(context.Background(), s.Conn().Tag(keys.Partition(string(id.Lane), s.Partitions()))+keys.Bodies, id.Message+" "+record[:16]).Result()
		require.NoError(t, err)
		body = []byte(text)
	}
	return archive.DeadOne{
		Open:  archive.Open{ID: id, Head: head, Body: body, Created: m.CreatedAt, Attempts: progress.Attempts, Base: progress.Base},
		Ended: time.UnixMilli(at), Reason: progress.Reason, Status: progress.Status,
	}
}

// described is what matters of an unfinished delivery.
func described(o *archive.Open, now time.Time) string {
	due := o.Due
	if due.Before(now) {
		due = time.Time{} // at once
	}
	return fmt.Sprintf("%d attempts, %d before, %d beside, asked %v, due %v, %d bytes", o.Attempts, o.Base, o.Beside, o.Asked, due, len(o.Body))
}

// unfinished are all that a store has not finished.
func unfinished(t *testing.T, s *redisqtest.Raw, now time.Time) map[string]string {
	t.Helper()
	f, all := admin.NewFeed(s.Bare()), map[string]string{}
	for n := range s.Partitions() {
		for cursor := ""; ; {
			page, err := f.Unfinished(context.Background(), n, cursor)
			require.NoError(t, err)
			for i := range page.Open {
				all[page.Open[i].ID.String()] = described(&page.Open[i], now)
			}
			if cursor = page.Next; cursor == "" {
				break
			}
		}
	}
	return all
}

func putBack(t *testing.T, target *admin.RestoreTarget, was lost) (puts, dead []archive.Put) {
	t.Helper()
	ctx := context.Background()
	require.NoError(t, target.Hold(ctx))
	require.NoError(t, target.PutKnown(ctx, was.known))
	puts, err := target.Put(ctx, was.open)
	require.NoError(t, err)
	dead, err = target.PutDead(ctx, was.dead)
	require.NoError(t, err)
	return puts, dead
}

func TestWhatIsPutBackIsWhereItWas(t *testing.T) {
	restoreOnBoth(t, func(t *testing.T, server redistest.Redis) {
		p := redisqtest.NewProject(t, server, 4)
		was := lose(t, p)
		s := p.Open(3)
		_, _, err := s.Limit(context.Background(), "one", "ep_ordered", dispatcher.LaneLimits{Version: 3, Ordered: true}, false)
		require.NoError(t, err)
		target := admin.NewRestoreTarget(s.Bare(), "one")
		puts, dead := putBack(t, target, was)
		for i, put := range puts {
			require.Equal(t, archive.PutNew, put, "%s", was.open[i].ID)
		}
		want := map[string]string{}
		for i := range was.open {
			want[was.open[i].ID.String()] = described(&was.open[i], p.Now)
		}
		for i, put := range dead {
			require.Equal(t, archive.PutNew, put, "%s", was.dead[i].ID)
		}
		require.Equal(t, want, unfinished(t, s, p.Now))
		order := linesOf(p.States(3))
		mustBeSound(t, p, 3)

		for range 2 { // a repeat changes nothing, and neither does one after all is over
			puts, dead = putBack(t, target, was)
			require.NotContains(t, append(puts, dead...), archive.PutNew)
			require.Equal(t, want, unfinished(t, s, p.Now))
			require.Equal(t, order, linesOf(p.States(3)))
			require.NoError(t, target.Release(context.Background()))
		}
		for _, d := range was.dead {
			require.Equal(t, redisqtest.PlaceDead, redisqtest.Merged(p.States(3)).At(d.ID).Place)
		}
	})
}

// linesOf are the lines of keys, in their order.
func linesOf(states []redisqtest.State) string {
	var all []string
	for set, line := range redisqtest.Merged(states).Behind {
		var ids []string
		for _, q := range line {
			ids = append(ids, q.ID.Message)
		}
		all = append(all, fmt.Sprintf("%v %v", set, ids))
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

func mustBeSound(t *testing.T, p *redisqtest.Project, partitions int) {
	t.Helper()
	setup := redisqtest.Setup{Partitions: partitions, LaneMaxInFlight: 128, Permits: 1024, Breaker: 3, BreakerWait: time.Minute}
	for n, s := range p.States(partitions) {
		require.Empty(t, s.Faults(setup), "partition %d", n)
	}
}

func mustSplit(t *testing.T, id, record string) (m *dispatcher.Message, head, body []byte) {
	t.Helper()
	at := 43 + int(record[42])
	end := at + 3 + int(record[at])<<8 + int(record[at+1]) - 1
	head, body = []byte(record[:end]), []byte(record[end:])
	return redisqtest.Unarchive(t, id, head, nil), head, body
}

func TestNothingIsTakenOrAttemptedWhileAnArchiveIsPutBack(t *testing.T) {
	restoreOnRedis(t, func(t *testing.T, server redistest.Redis) {
		ctx := context.Background()
		p := redisqtest.NewProject(t, server, 2)
		s := p.Open(2)
		target := admin.NewRestoreTarget(s.Bare(), "one")
		require.NoError(t, target.Hold(ctx))
		e := p.Entry("m", []dispatcher.Lane{"u_a"})
		known := archive.Known{ID: "m", Digest: e.Digest, Lane: "u_a", Ended: p.Now.Add(-time.Hour)}
		schedule := func() (dispatcher.ScheduleResult, error) {
			got, _, err := s.Schedule(ctx, "one", 8, 8, []dispatcher.Entry{e})
			require.NoError(t, err)
			return got[0], got[0].Err
		}
		_, err := schedule()
		require.ErrorIs(t, err, dispatcher.ErrUnavailable)
		require.NoError(t, target.PutKnown(ctx, []archive.Known{known}))
		require.NoError(t, target.Hold(ctx), "again")
		require.NoError(t, target.Release(ctx))
		got, err := schedule()
		require.NoError(t, err)
		require.Equal(t, dispatcher.Duplicate, got.Result)
	})
}

func TestWhatSomebodyHeldStaysHeld(t *testing.T) {
	restoreOnRedis(t, func(t *testing.T, server redistest.Redis) {
		ctx := context.Background()
		for _, before := range []bool{false, true} {
			for _, asked := range []string{"", "held", "let go"} {
				p := redisqtest.NewProject(t, server, 2)
				s := p.Open(2)
				all := func(paused bool) {
					l := dispatcher.LaneLimits{}
					if paused {
						l.Mode = dispatcher.LanePaused
					}
					_, _, err := s.Limit(ctx, "one", dispatcher.AllLanes, l, false)
					require.NoError(t, err)
				}
				all(before)
				target := admin.NewRestoreTarget(s.Bare(), "one")
				require.NoError(t, target.Hold(ctx))
				if asked != "" {
					all(asked == "held")
				}
				for _, state := range p.States(2) {
					require.True(t, state.AllPaused)
				}
				require.NoError(t, target.Release(ctx))
				for _, state := range p.States(2) {
					require.Equal(t, asked == "held" || asked == "" && before, state.AllPaused, "held before %v, asked %q", before, asked)
				}
			}
		}
	})
}

func TestADeliveryOfAKnownMessageIsPutBackBesideThoseThatEnded(t *testing.T) {
	restoreOnRedis(t, func(t *testing.T, server redistest.Redis) {
		ctx := context.Background()
		p := redisqtest.NewProject(t, server, 1)
		first := p.Open(1)
		lanes := []dispatcher.Lane{"u_a", "u_b"}
		e := p.Entry("m", lanes)
		p.Publish(first, e)
		read, err := admin.NewFeed(first.Bare()).Unfinished(ctx, 0, "")
		page := read.Open
		require.NoError(t, err)
		require.Len(t, page, 2)
		require.NoError(t, first.Client().Del(ctx, redisqtest.Keys(t, first.Client(), p.Options.Project)...).Err())
		p.Pass(time.Second)

		s := p.Open(1)
		target := admin.NewRestoreTarget(s.Bare(), "one")
		known := []archive.Known{{ID: "m", Digest: e.Digest, Lane: page[0].ID.Lane, Ended: p.Now.Add(-time.Hour)}}
		puts, _ := putBack(t, target, lost{open: page[1:], known: known})
		require.Equal(t, []archive.Put{archive.PutNew}, puts)
		require.NoError(t, target.Release(ctx))
		got, _, err := s.Schedule(ctx, "one", 0, 0, []dispatcher.Entry{e})
		require.NoError(t, err)
		require.Equal(t, dispatcher.Duplicate, got[0].Result)
		require.Len(t, unfinished(t, s, p.Now), 1, "the one that ended is not made again")

		other := p.Entry("m", lanes, func(m *dispatcher.Message) { m.Topic = "other" })
		odd := page[0]
		odd.Head = slices.Concat(other.Digest[:], odd.Head[16:])
		bad := page[0]
		bad.ID.Message, bad.Head = "bad", nil
		puts, err = target.Put(ctx, []archive.Open{odd, bad, page[1]})
		require.NoError(t, err)
		require.Equal(t, []archive.Put{archive.PutConflict, archive.PutUnreadable, archive.PutExists}, puts)
	})
}

// Where the store's own deliveries of a message ended, none of it is put back: it was
// restored before, or published again.
func TestWhatEndedInTheStoreItselfIsNotPutBack(t *testing.T) {
	restoreOnRedis(t, func(t *testing.T, server redistest.Redis) {
		ctx := context.Background()
		p := redisqtest.NewProject(t, server, 1)
		s := p.Open(1)
		p.Publish(s, p.Entry("m", []dispatcher.Lane{"u_a"}))
		read, err := admin.NewFeed(s.Bare()).Unfinished(ctx, 0, "")
		page := read.Open
		require.NoError(t, err)
		_, _, err = s.Cancel(ctx, "one", []dispatcher.DeliveryID{page[0].ID})
		require.NoError(t, err)
		claimed, _, err := s.Claim(ctx, "one", []int{0}, 8, 512)
		require.NoError(t, err)
		require.Empty(t, claimed)
		target := admin.NewRestoreTarget(s.Bare(), "one")
		puts, err := target.Put(ctx, page)
		require.NoError(t, err)
		require.Equal(t, []archive.Put{archive.PutExists}, puts)
		p.Pass(time.Minute)
		_, err = s.Trim(ctx, "one", []int{0}, dispatcher.Keep{Finished: time.Hour, SeenMax: 10, Dead: time.Hour}, false)
		require.NoError(t, err)
		require.False(t, p.States(1)[0].Messages["m"].Whole, "%+v", p.States(1)[0])
		puts, err = target.Put(ctx, page)
		require.NoError(t, err)
		require.Equal(t, []archive.Put{archive.PutExists}, puts)
	})
}

func TestAnInstanceWhoseStoreWasEmptiedTakesNothingUntilItIsPutBack(t *testing.T) {
	ctx := context.Background()
	p := redisqtest.NewProject(t, redistest.Start(t), 1)
	s := p.Open(1)
	require.NoError(t, admin.NewFeed(s.Bare()).Begin(ctx))
	publish := func(id string) error {
		got, _, err := s.Schedule(ctx, "one", 0, 0, []dispatcher.Entry{p.Entry(id, []dispatcher.Lane{"u_a"})})
		if err == nil {
			err = got[0].Err
		}
		return err
	}
	beat := func(n int64) {
		_, _, err := s.Beat(ctx, "one", n)
		require.NoError(t, err)
	}
	beat(1)
	require.NoError(t, publish("m1"))
	require.NoError(t, s.Client().Del(ctx, redisqtest.Keys(t, s.Client(), p.Options.Project)...).Err())
	p.Pass(time.Second)
	beat(2)
	require.ErrorIs(t, publish("m2"), dispatcher.ErrUnavailable)
	beat(3)
	require.ErrorIs(t, publish("m2"), dispatcher.ErrUnavailable)

	other := p.Open(1) // the command that restores
	target := admin.NewRestoreTarget(other.Bare(), "restore")
	lost, err := target.Emptied(ctx, "", nil)
	require.NoError(t, err)
	require.True(t, lost)
	require.NoError(t, target.Hold(ctx))
	beat(4)
	require.ErrorIs(t, publish("m2"), dispatcher.ErrUnavailable)
	require.NoError(t, target.Release(ctx))
	beat(5)
	require.NoError(t, publish("m2"))
	require.Equal(t, "1", s.Client().HGet(ctx, keys.Home(p.Options.Project)+keys.Meta, "archive").Val(), "what happens is archived still")
	lost, err = admin.NewRestoreTarget(other.Bare(), "restore").Emptied(ctx, "", nil)
	require.NoError(t, err)
	require.False(t, lost, "run again it has nothing to do")
}

package admin_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/admin"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

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
	redisqtest.OnBoth(t, func(t *testing.T, server redisqtest.Server) {
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
	ctx := context.Background()
	p := redisqtest.NewProject(t, redistest.Share(t), 2)
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
}

func TestWhatSomebodyHeldStaysHeld(t *testing.T) {
	ctx := context.Background()
	for _, before := range []bool{false, true} {
		for _, asked := range []string{"", "held", "let go"} {
			p := redisqtest.NewProject(t, redistest.Share(t), 2)
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
}

func TestADeliveryOfAKnownMessageIsPutBackBesideThoseThatEnded(t *testing.T) {
	ctx := context.Background()
	p := redisqtest.NewProject(t, redistest.Share(t), 1)
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
}

// Where the store's own deliveries of a message ended, none of it is put back: it was
// restored before, or published again.
func TestWhatEndedInTheStoreItselfIsNotPutBack(t *testing.T) {
	ctx := context.Background()
	p := redisqtest.NewProject(t, redistest.Share(t), 1)
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
}

func TestAnInstanceWhoseStoreWasEmptiedTakesNothingUntilItIsPutBack(t *testing.T) {
	ctx := context.Background()
	p := redisqtest.NewProject(t, redistest.Share(t), 1)
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

// The partitions lie on three servers. Whatever of them the first restore had filled when it
// was killed, the next one puts back the rest, and nothing twice.
func TestARestoreThatWasKilledIsRepeatedInACluster(t *testing.T) {
	cluster := redistest.StartCluster(t, 3, 0)
	ctx := t.Context()
	for cut, name := range []string{"it held the store", "ids were known", "half was put back", "all was put back"} {
		t.Run(name, func(t *testing.T) {
			p := redisqtest.NewProject(t, cluster, 6)
			was := lose(t, p)
			killed := p.Open(6)
			first := admin.NewRestoreTarget(killed.Bare(), "first")
			require.NoError(t, first.Hold(ctx))
			if cut > 0 {
				require.NoError(t, first.PutKnown(ctx, was.known))
			}
			some := was.open[:[]int{0, 0, len(was.open) / 2, len(was.open)}[cut]]
			_, err := first.Put(ctx, some)
			require.NoError(t, err)
			if cut == 3 {
				_, err = first.PutDead(ctx, was.dead)
				require.NoError(t, err)
			}

			s := p.Open(6)
			second := admin.NewRestoreTarget(s.Bare(), "second")
			puts, dead := putBack(t, second, was)
			want := map[string]string{}
			for i, put := range puts {
				o := &was.open[i]
				want[o.ID.String()] = described(o, p.Now)
				require.Equal(t, i < len(some), put == archive.PutExists, "%s: %v", o.ID, put)
			}
			for i, put := range dead {
				require.Equal(t, cut == 3, put == archive.PutExists, "%s: %v", was.dead[i].ID, put)
			}
			require.NoError(t, second.Release(ctx))
			require.Equal(t, want, unfinished(t, s, p.Now))
			mustBeSound(t, p, 6)
			lanes, err := s.Bare().LaneReader.LaneStates(ctx, []dispatcher.Lane{dispatcher.AllLanes})
			require.NoError(t, err)
			require.Equal(t, dispatcher.LaneNormal, lanes[0].Limits.Mode, "the hold of the first restore is over, too")
		})
	}
}

// An instance may trim between the body of a delivery and the delivery itself.
func TestABodyThatIsPutBackIsNotOldForATrim(t *testing.T) {
	ctx := t.Context()
	p := redisqtest.NewProject(t, redistest.Share(t), 1)
	was := lose(t, p)
	k := slices.IndexFunc(was.open, func(o archive.Open) bool {
		return redisqtest.Unarchive(t, o.ID.Message, o.Head, nil).Apart != nil
	})
	p.Pass(2 * time.Hour)
	s := p.Open(1)
	target := admin.NewRestoreTarget(s.Bare(), "one")
	other := archive.Known{ID: was.open[k].ID.Message, Lane: was.open[k].ID.Lane, Ended: p.Now} // so that the body stays as it came
	require.NoError(t, target.Hold(ctx))
	require.NoError(t, target.PutKnown(ctx, []archive.Known{other}))
	puts, err := target.Put(ctx, was.open[k:k+1])
	require.NoError(t, err)
	require.Equal(t, []archive.Put{archive.PutConflict}, puts)
	staged, err := s.Client().ZRangeWithScores(ctx, keys.Tag(p.Options.Project, 0)+keys.Staged, 0, -1).Result()
	require.NoError(t, err)
	require.Len(t, staged, 1)
	require.InDelta(t, float64(p.Now.UnixMilli()), staged[0].Score, float64(time.Minute.Milliseconds()))
}

// archivedEndpoint returns an endpoint as an archive has it.
func archivedEndpoint(t *testing.T, s *redisqtest.Raw, id string) archive.Endpoint {
	t.Helper()
	stored, _, err := s.Bare().Endpoints.StoredByID(t.Context(), []string{id})
	require.NoError(t, err)
	return archive.Endpoint{ID: id, Version: 1, Record: stored[0].Record}
}

func TestAnArchiveReplacesNoEndpointThatTheStoreHas(t *testing.T) {
	ctx := t.Context()
	before := redisqtest.NewProject(t, redistest.Share(t), 1).Open(1)
	s := redisqtest.NewProject(t, redistest.Share(t), 1).Open(1)
	target := admin.NewRestoreTarget(s.Bare(), "restore")
	put := func(e archive.Endpoint) error {
		n, err := target.PutEndpoints(ctx, []archive.Endpoint{e}, nil)
		require.Zero(t, n)
		return err
	}
	present := func(id string) *dispatcher.Endpoint {
		found, err := s.Bare().Endpoints.Endpoints(ctx, []string{id})
		require.NoError(t, err)
		return found[0]
	}
	kept := redisqtest.NextVersion(redisqtest.Endpoint("ep_kept"))
	redisqtest.MustCreate(t, s.Bare().Endpoints, kept)

	older := redisqtest.Endpoint("ep_kept")
	older.UID, older.URL = "", "https://before.example/"
	redisqtest.MustCreate(t, before.Bare().Endpoints, older)
	old := archivedEndpoint(t, before, "ep_kept")
	require.NoError(t, put(old), "its id is taken")
	old.Deleted = true
	require.NoError(t, put(old), "it was not deleted in this store")
	require.Equal(t, kept.URL, present("ep_kept").URL)

	other := redisqtest.Endpoint("ep_other")
	other.UID = kept.UID
	redisqtest.MustCreate(t, before.Bare().Endpoints, other)
	require.ErrorIs(t, put(archivedEndpoint(t, before, "ep_other")), dispatcher.ErrTaken)
	require.Error(t, put(archive.Endpoint{ID: "ep_rubbish", Version: 1, Record: []byte("no JSON")}))
	require.Nil(t, present("ep_other"))
	require.Nil(t, present("ep_rubbish"))

	redisqtest.MustDelete(t, s.Bare().Endpoints, "ep_kept")
	old.Deleted = false
	require.NoError(t, put(old))
	require.Nil(t, present("ep_kept"), "what this store deleted is not restored")
}

// The limits of a lane are lost with its partition, and the endpoints with the project's own keys.
func TestALostPartitionGetsTheLimitsOfThePresentEndpoints(t *testing.T) {
	ctx := t.Context()
	p := redisqtest.NewProject(t, redistest.Share(t), 2)
	s := p.Open(2)
	paused := redisqtest.Endpoint("ep_paused")
	redisqtest.MustCreate(t, s.Bare().Endpoints, paused)
	of := archivedEndpoint(t, s, "ep_paused")
	changed := redisqtest.NextVersion(paused)
	changed.Paused, changed.StoppedBy, changed.StoppedAt = true, "key:ops", time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	require.NoError(t, s.Bare().Endpoints.ChangeEndpoint(ctx, changed))

	for _, key := range redisqtest.Keys(t, s.Client(), p.Options.Project) {
		if strings.HasPrefix(key, keys.Tag(p.Options.Project, keys.Partition("ep_paused", 2))) {
			require.NoError(t, s.Client().Del(ctx, key).Err())
		}
	}
	p.Pass(time.Second)
	_, _, err := s.Beat(ctx, "one", 2)
	require.NoError(t, err)
	target := admin.NewRestoreTarget(s.Bare(), "restore")
	lost, err := target.Emptied(ctx, "", nil)
	require.NoError(t, err)
	require.True(t, lost)
	require.False(t, s.Bare().Emptied().Home)
	require.NoError(t, target.Hold(ctx))
	gone := archive.Endpoint{ID: "ep_gone", Version: 3, Record: of.Record}
	deleted := archive.Endpoint{ID: "ep_deleted", Version: 3, Deleted: true}
	put, err := target.PutEndpoints(ctx, []archive.Endpoint{of, gone, deleted}, nil)
	require.NoError(t, err)
	require.Zero(t, put)
	require.NoError(t, target.Release(ctx))

	states, err := s.Bare().LaneReader.LaneStates(ctx, []dispatcher.Lane{"ep_paused", "ep_gone"})
	require.NoError(t, err)
	require.Equal(t, []any{dispatcher.LanePaused, int64(2)}, []any{states[0].Limits.Mode, states[0].Limits.Version})
	require.Equal(t, []any{"key:ops", changed.StoppedAt}, []any{states[0].By, states[0].Since}, "a pause keeps its author and its time")
	require.Zero(t, states[1].Limits.Version)
}

func TestAStepOfARestoreThatIsNotAnsweredIsReported(t *testing.T) {
	p := redisqtest.NewProject(t, redistest.StartMini(t), 2)
	s := p.Open(2)
	redisqtest.MustCreate(t, s.Bare().Endpoints, redisqtest.Endpoint("ep_a"))
	endpoint := archivedEndpoint(t, s, "ep_a")
	was := lose(t, p)
	target := admin.NewRestoreTarget(p.Open(2).Bare(), "restore")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, step := range map[string]func() error{
		"hold":      func() error { return target.Hold(ctx) },
		"release":   func() error { return target.Release(ctx) },
		"known":     func() error { return target.PutKnown(ctx, was.known) },
		"put":       func() error { _, err := target.Put(ctx, was.open); return err },
		"put dead":  func() error { _, err := target.PutDead(ctx, was.dead); return err },
		"endpoints": func() error { _, err := target.PutEndpoints(ctx, []archive.Endpoint{endpoint}, nil); return err },
		"paused lanes": func() error {
			_, err := target.PutEndpoints(ctx, nil, []archive.PausedLane{{Lane: "u_a", Since: time.Now()}})
			return err
		},
		"lost lanes":    func() error { _, err := target.Lost(ctx); return err },
		"the log":       func() error { _, _, err := target.Epochs(ctx); return err },
		"the lost data": func() error { _, err := target.Emptied(ctx, "another", map[int]string{0: "epoch"}); return err },
	} {
		require.Error(t, step(), name)
	}
}

func TestADeliveryComesBackWithWhatItsReceiverAnswered(t *testing.T) {
	ctx := context.Background()
	p := redisqtest.NewProject(t, redistest.Share(t), 1)
	first := p.Open(1)
	p.Publish(first, p.Entry("m", []dispatcher.Lane{"u_a"}))
	read, err := admin.NewFeed(first.Bare()).Unfinished(ctx, 0, "")
	require.NoError(t, err)
	page := read.Open
	require.NoError(t, first.Client().Del(ctx, redisqtest.Keys(t, first.Client(), p.Options.Project)...).Err())
	p.Pass(time.Minute)
	failed := func(n, status int, after time.Duration, answer string) archive.Event {
		at := p.Now.Add(after - time.Minute).Truncate(time.Millisecond)
		return archive.Event{ID: page[0].ID, Kind: archive.Retry, At: at.Add(time.Second), Wait: time.Hour, Attempt: dispatcher.Attempt{
			Number: n, At: at, Duration: time.Second, Status: status, Class: dispatcher.ClassStatus, Error: fmt.Sprint("status ", status),
			URL: "https://a.example/", Address: "192.0.2.1:443", Excerpt: []byte(answer),
		}}
	}
	unmade := archive.Event{ID: page[0].ID, Kind: archive.Resent}
	o := page[0]
	o.Attempts, o.Due = 2, p.Now.Add(time.Hour)
	o.History = []archive.Event{unmade, failed(2, 503, 2*time.Second, "two\nlines"), failed(1, 500, 0, "bad answer")}

	s := p.Open(1)
	target := admin.NewRestoreTarget(s.Bare(), "one")
	puts, err := target.Put(ctx, []archive.Open{o})
	require.NoError(t, err)
	require.Equal(t, []archive.Put{archive.PutNew}, puts)
	view, err := s.Bare().Deliveries.Read(ctx, "m")
	require.NoError(t, err)
	d := view.Deliveries[0]
	require.Equal(t, []any{503, "status 503", 2}, []any{d.LastStatus, d.LastError, d.Attempts})
	want := []dispatcher.Attempt{}
	for _, e := range []archive.Event{o.History[2], o.History[1]} {
		a, made := e.Made("")
		require.True(t, made)
		want = append(want, a)
	}
	require.Equal(t, want, d.History)
	states, err := s.Bare().LaneReader.LaneStates(ctx, []dispatcher.Lane{"u_a"})
	require.NoError(t, err)
	require.Equal(t, &dispatcher.LaneFailure{Message: "m", Attempt: want[1]}, states[0].LastFailure, "its lane has it too")
}

func TestPausesComeBackAsTheyWere(t *testing.T) {
	ctx := context.Background()
	p := redisqtest.NewProject(t, redistest.Share(t), 2)
	s := p.Open(2)
	target := admin.NewRestoreTarget(s.Bare(), "one")
	require.NoError(t, target.Hold(ctx))
	since := p.Now.Add(-time.Hour).Truncate(time.Millisecond)
	p.Pass(time.Minute)
	_, err := target.PutEndpoints(ctx, nil, []archive.PausedLane{
		{Lane: "u_a", Name: "https://a.example shop", Since: since, By: "key:ops"}, {Lane: dispatcher.AllLanes, Since: since, By: "key:ops"},
	})
	require.NoError(t, err)
	require.NoError(t, target.Release(ctx))
	states, err := s.Bare().LaneReader.LaneStates(ctx, []dispatcher.Lane{"u_a", dispatcher.AllLanes})
	require.NoError(t, err)
	require.Equal(t, []any{"https://a.example", "shop", since, "key:ops"}, []any{states[0].URL, states[0].Tenant, states[0].Since, states[0].By})
	require.Equal(t, []any{since, "key:ops", dispatcher.LanePaused}, []any{states[1].Since, states[1].By, states[1].Limits.Mode})
}

func TestAnEndpointThatNeitherHasIsLost(t *testing.T) {
	p := redisqtest.NewProject(t, redistest.Share(t), 2)
	s := p.Open(2)
	redisqtest.MustCreate(t, s.Bare().Endpoints, redisqtest.Endpoint("ep_there"), redisqtest.Endpoint("ep_deleted"))
	for n, lane := range []dispatcher.Lane{"ep_there", "ep_deleted", "ep_lost", "ep_lost", "u_1"} {
		p.Publish(s, p.Entry(fmt.Sprint("m", n), []dispatcher.Lane{lane}))
	}
	redisqtest.MustDelete(t, s.Bare().Endpoints, "ep_deleted")
	lost, err := admin.NewRestoreTarget(s.Bare(), "one").Lost(t.Context())
	require.NoError(t, err)
	require.Equal(t, map[dispatcher.Lane]int64{"ep_lost": 2}, lost)
}

// A lane that was not lost may be newer than what the archive has of its endpoint. It would take
// no later change of the endpoint, so the endpoint becomes newer still, and what was held or
// deleted stays so.
func TestAnEndpointIsPutBackNewerThanALaneThatOutlivedIt(t *testing.T) {
	ctx := t.Context()
	p := redisqtest.NewProject(t, redistest.Share(t), 2)
	s := p.Open(2)
	var list []archive.Endpoint
	limit := func(e *dispatcher.Endpoint, mode dispatcher.LaneMode) {
		l := e.Limits()
		l.Mode, l.By = mode, "key:shop"
		_, err := s.Bare().Limit(ctx, "one", e.Lane(), l, false)
		require.NoError(t, err)
	}
	for id, mode := range map[string]dispatcher.LaneMode{"ep_p": dispatcher.LanePaused, "ep_x": dispatcher.LaneDeleted, "ep_n": dispatcher.LaneNormal} {
		e := redisqtest.Endpoint(id)
		e.Headers = []dispatcher.Header{{Name: "X-Token", Value: "t"}, {Name: "X-Sent", Value: "s"}}
		e.Linked, e.HeadersFor = true, map[string]string{"x-token": "https://before.example/"}
		e.TopicsAllowed, e.TopicsGiven = []string{"order.*"}, []string{"order.paid"}
		redisqtest.MustCreate(t, s.Bare().Endpoints, e)
		stored, _, err := s.Bare().Endpoints.StoredByID(ctx, []string{id})
		require.NoError(t, err)
		list = append(list, archive.Endpoint{ID: id, Version: e.Version, Record: stored[0].Record})
		e.Version = 4
		limit(e, mode)
	}
	loseHome(t, p, s)

	target := admin.NewRestoreTarget(p.Open(2).Bare(), "restore")
	lost, err := target.Emptied(ctx, "", nil)
	require.NoError(t, err)
	require.True(t, lost)
	for range 2 { // it may be run again
		require.NoError(t, target.Hold(ctx))
		_, err = target.PutEndpoints(ctx, list, nil)
		require.NoError(t, err)
	}
	require.NoError(t, target.Release(ctx))
	_, _, err = s.Beat(ctx, "one", 2)
	require.NoError(t, err)

	found, err := s.Bare().Endpoints.Endpoints(ctx, []string{"ep_p", "ep_x", "ep_n"})
	require.NoError(t, err)
	require.Nil(t, found[1], "it was deleted")
	require.Equal(t, []any{int64(5), true, "key:shop"}, []any{found[0].Version, found[0].Paused, found[0].StoppedBy})
	require.Equal(t, []any{int64(5), false}, []any{found[2].Version, found[2].Paused})
	for _, e := range []*dispatcher.Endpoint{found[0], found[2]} { // what a link set stays a link's
		require.Equal(t, []any{true, "X-Token", "order.*", "order.paid"}, []any{e.Linked, strings.Join(e.HeldHeaders(), " "), e.TopicsAllowed[0], e.TopicsGiven[0]})
	}
	resumed := redisqtest.NextVersion(found[0])
	resumed.Paused = false
	require.NoError(t, s.Bare().Endpoints.ChangeEndpoint(ctx, resumed))
	limit(resumed, dispatcher.LaneNormal)
	states, err := s.Bare().LaneReader.LaneStates(ctx, []dispatcher.Lane{"ep_p"})
	require.NoError(t, err)
	require.Equal(t, dispatcher.LaneNormal, states[0].Limits.Mode)
}

// loseHome removes the project's own keys, and has an instance notice that.
func loseHome(t *testing.T, p *redisqtest.Project, s *redisqtest.Raw) {
	t.Helper()
	for _, key := range redisqtest.Keys(t, s.Client(), p.Options.Project) {
		if strings.HasPrefix(key, keys.Home(p.Options.Project)) {
			require.NoError(t, s.Client().Del(t.Context(), key).Err())
		}
	}
	_, _, err := s.Beat(t.Context(), "one", 1)
	require.NoError(t, err)
	require.NotNil(t, s.Bare().Emptied())
}

// Until an instance notices that the loss is over, it refuses what needed the lost data.
func TestInstancesNoticeTheEndOfARestore(t *testing.T) {
	ctx, stop := context.WithTimeout(t.Context(), kit.Patience)
	defer stop()
	p := redisqtest.NewProject(t, redistest.Share(t), 2)
	s := p.Open(2)
	loseHome(t, p, s)
	subscribed, ended := make(chan bool, 1), make(chan error, 1)
	go func() {
		ended <- s.Bare().Watch(ctx, "one", dispatcher.Subscriber{OnGap: func() { subscribed <- true }})
	}()
	<-subscribed
	target := admin.NewRestoreTarget(p.Open(2).Bare(), "restore")
	_, err := target.Emptied(ctx, "", nil)
	require.NoError(t, err)
	require.NoError(t, target.Hold(ctx))
	require.NoError(t, target.Release(ctx))
	require.NoError(t, kit.Until(ctx, "it continues without a beat", func() error { return s.Bare().Intact(context.Background()) }))
	stop()
	require.NoError(t, <-ended)
}

// The line of the log that says so is of no instance, of which the others would learn. A
// restore that is repeated until all is archived would wait for its own line for ever.
func TestInstancesLookAtTheLogAfterARestore(t *testing.T) {
	ctx, stop := context.WithTimeout(t.Context(), kit.Patience)
	defer stop()
	p := redisqtest.NewProject(t, redistest.Share(t), 2)
	s := p.Open(2)
	subscribed, heard, ended := make(chan bool, 1), make(chan dispatcher.EndpointChange, 1), make(chan error, 1)
	go func() {
		ended <- s.Bare().Watch(ctx, "one", dispatcher.Subscriber{
			OnGap: func() { subscribed <- true }, OnEndpoint: func(c dispatcher.EndpointChange) { heard <- c },
		})
	}()
	<-subscribed
	target := admin.NewRestoreTarget(s.Bare(), "restore")
	require.NoError(t, target.Hold(ctx))
	require.Empty(t, heard)
	require.NoError(t, target.Release(ctx))
	select {
	case <-heard:
	case <-ctx.Done():
		require.FailNow(t, "nobody was asked")
	}
	stop()
	require.NoError(t, <-ended)
}

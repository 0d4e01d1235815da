package admin_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/admin"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/home"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

func TestARepartitionKeepsEverything(t *testing.T) {
	t.Parallel()
	p := redisqtest.NewProject(t, redistest.Share(t), 1)
	p.Fill(12)
	want, records := p.Content(1), p.Records(p.Open(1))
	for _, place := range []string{"Place:due", "Place:ready", "Place:done", "Place:dead", "Place:cancelled", "Place:behind", "Place:taken", "Takeable:true"} {
		require.Contains(t, want, place, "the test has everything")
	}
	for _, line := range []string{"mark", "progress", "history", "seen", "buried", "ends", "behind", "health"} {
		require.Contains(t, want, "\n"+line+" ", "the test has everything")
	}
	from := 1
	for i, to := range []int{8, 3, 12, 1} {
		for n := range from { // of lanes that have no bars of their own
			require.NoError(t, p.Client.HSet(t.Context(), keys.Tag(p.Options.Project, n)+keys.Health+"1", "*", "1").Err())
		}
		moved, err := admin.Repartition(t.Context(), p.Options, admin.RepartitionOptions{To: to}.Paged(7*i)) // 0: as usual
		require.NoError(t, err)
		require.Equal(t, from, moved.From)
		require.Positive(t, moved.Moved.Deliveries+moved.Moved.Lanes)
		require.Zero(t, moved.Moved.Forgotten)
		require.Equal(t, want, p.Content(to), "%d to %d", from, to)
		require.Equal(t, records, p.Records(p.Open(to)))
		for _, key := range redisqtest.Keys(t, p.Client, p.Options.Project) {
			if _, half, is := strings.Cut(key, keys.Health); is && half != "1" {
				require.Equal(t, home.BarsUntil(half).Unix(), int64(p.Client.ExpireTime(t.Context(), key).Val().Seconds()), key)
			}
		}
		for n := to; n < from; n++ {
			require.Zero(t, p.Client.Exists(t.Context(), keys.Tag(p.Options.Project, n)+keys.Health+"1").Val())
		}
		page, err := p.Open(to).ReadLog(t.Context(), dispatcher.LogFilter{}, 1, "")
		require.NoError(t, err)
		require.False(t, page.CompleteSince.IsZero(), "the log does not go with the lanes, and says so")
		from = to
	}
}

// In a cluster the old and the new partitions lie on different servers.
func TestARepartitionInAClusterKeepsEverything(t *testing.T) {
	t.Parallel()
	p := redisqtest.NewProject(t, redistest.StartCluster(t, 3, 0), 3)
	p.Fill(6)
	counts := func(s *redisqtest.Raw) (map[dispatcher.Status]int64, [2]map[dispatcher.DeadReason]int64) {
		st, err := s.Stats(t.Context())
		require.NoError(t, err)
		return st.Counts, [2]map[dispatcher.DeadReason]int64{st.Dead, st.EverDead}
	}
	s := p.Open(3)
	records := p.Records(s)
	status, dead := counts(s)
	require.NotEmpty(t, records)
	for _, to := range []int{16, 2} {
		p.To(to)
		s := p.Open(to)
		require.Equal(t, records, p.Records(s), "in %d", to)
		gotStatus, gotDead := counts(s)
		require.Equal(t, status, gotStatus, "in %d", to)
		require.Equal(t, dead, gotDead, "in %d", to)
	}
}

func TestARepeatIsKnownAfterARepartition(t *testing.T) {
	t.Parallel()
	p := redisqtest.NewProject(t, redistest.Share(t), 2)
	p.Fill(10)
	for _, to := range []int{7, 4, 1, 3} {
		p.To(to)
		s, before := p.Open(to), p.Content(to)
		for id, lanes := range p.Lanes {
			e := p.Entry(id, lanes)
			again, _, err := s.Schedule(t.Context(), "one", 0, 0, []dispatcher.Entry{e})
			require.NoError(t, err)
			require.NoError(t, again[0].Err)
			require.Equal(t, dispatcher.Duplicate, again[0].Result, "%s in %d", id, to)
		}
		require.Equal(t, before, p.Content(to), "no repeat makes anything")
	}
}

// What a torn script left half done moves with the lanes, so the mark does too.
func TestTheMarkOfATornPartitionGoesWhereItsLanesGo(t *testing.T) {
	t.Parallel()
	p := redisqtest.NewProject(t, redistest.Share(t), 4)
	p.Fill(6)
	torn := keys.Tag(p.Options.Project, 3)
	require.NoError(t, p.Client.Set(t.Context(), torn, "one 1", 0).Err())
	p.To(2)
	require.Zero(t, p.Client.Exists(t.Context(), torn).Val(), "nothing is left of a partition that is gone")
	require.Zero(t, p.Client.Exists(t.Context(), keys.Tag(p.Options.Project, 0)).Val(), "no lane went there")
	require.Equal(t, "-", p.Client.Get(t.Context(), keys.Tag(p.Options.Project, 1)).Val())
}

func TestARepartitionCanWorkOn(t *testing.T) {
	t.Parallel()
	p := redisqtest.NewProject(t, redistest.Share(t), 3)
	p.Fill(6)
	p.To(5)
	s := p.Open(5)
	p.Pass(2 * time.Hour)
	_, _, err := s.Limit(t.Context(), "one", "ep_paused", dispatcher.LaneLimits{Version: 5}, true)
	require.NoError(t, err)
	_, _, err = s.Limit(t.Context(), "one", "u_lane000003", dispatcher.LaneLimits{}, true)
	require.NoError(t, err)
	_, _, err = s.Limit(t.Context(), "one", "ep_pulled", dispatcher.LaneLimits{Version: 5, Pull: true}, true)
	require.NoError(t, err)
	for range 400 { // each claims a few; all is done long before
		ended, _, err := s.Move(t.Context(), "one", redisqtest.All(s))
		require.NoError(t, err)
		claimed, _, err := s.Claim(t.Context(), "one", redisqtest.All(s), 64, 1024)
		require.NoError(t, err)
		taken, _, err := s.Take(t.Context(), "one", dispatcher.Take{Lanes: []dispatcher.Lane{"q_a", "q_b", "ep_pulled"}, Most: 64, Bytes: 1 << 20})
		require.NoError(t, err)
		var batch []dispatcher.Settlement
		for _, c := range slices.Concat(ended, claimed, taken.Claimed) {
			batch = append(batch, dispatcher.Settlement{
				ID: c.ID, Verdict: dispatcher.Delivered, First: c.First,
				Attempt: dispatcher.Attempt{Number: c.Attempt, Status: 200, Verdict: dispatcher.Delivered, At: p.Now},
			})
		}
		_, _, err = s.Settle(t.Context(), "one", batch)
		require.NoError(t, err)
		p.Pass(time.Second)
	}
	st, err := s.Stats(t.Context())
	require.NoError(t, err)
	maps.DeleteFunc(st.Counts, func(status dispatcher.Status, _ int64) bool {
		return status == dispatcher.StatusDelivered || status == dispatcher.StatusDead || status == dispatcher.StatusCancelled
	})
	require.Empty(t, st.Counts, "everything that waited was delivered")
	p.Content(5)
}

func TestARepartitionRefuses(t *testing.T) {
	t.Parallel()
	p := redisqtest.NewProject(t, redistest.Share(t), 2)
	refused := func(to int, quiet time.Duration, why string) {
		t.Helper()
		_, err := admin.Repartition(t.Context(), p.Options, admin.RepartitionOptions{To: to, Quiet: quiet})
		require.ErrorContains(t, err, why)
	}
	refused(4, 0, "no such project")
	p.Fill(2)
	s, before := p.Open(2), p.Content(2)

	_, _, err := s.Beat(t.Context(), "one", 1)
	require.NoError(t, err)
	alive := func(ctx context.Context, done chan<- struct{}) {
		for n := int64(2); ctx.Err() == nil; n++ {
			_, _, _ = s.Beat(ctx, "one", n)
		}
		close(done)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go alive(ctx, done)
	_, err = admin.Repartition(t.Context(), p.Options, admin.RepartitionOptions{To: 4, Quiet: time.Minute})
	require.ErrorIs(t, err, admin.ErrAlive)
	require.ErrorContains(t, err, "one")
	stop()
	<-done
	require.NoError(t, s.Leave(t.Context(), "one"))
	require.Equal(t, before, p.Content(2))
	p.Open(2) // it may be served

	mark := func(text string) {
		t.Helper()
		require.NoError(t, p.Client.HSet(t.Context(), "{"+p.Options.Project+"}:meta", "repartition", text).Err())
	}
	mark("2 4 begin")
	_, err = redisq.Open(t.Context(), p.Options)
	require.ErrorContains(t, err, "give it up with --to 2")
	p.To(2)
	p.Open(2)

	mark("2 4 move")
	refused(5, 0, "finish it with --to 4")
	_, err = redisq.Open(t.Context(), p.Options)
	require.ErrorContains(t, err, "run hookladder repartition --to 4 again")
	p.To(4)
	require.Equal(t, before, p.Content(4))
	require.False(t, p.To(4).Again, "there is nothing to do")
}

func TestARepartitionRefusesAStoreThatLostData(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string][]string{
		"a mark of home":                {"HSET", "", "emptied", "x"},
		"a mark of a partition":         {"HSET", "", "emptied:1", "x"},
		"a partition without its epoch": {"HDEL", ":1", "~epoch"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := redisqtest.NewProject(t, redistest.Share(t), 2)
			p.Fill(2)
			key := "{" + p.Options.Project + lose[1] + "}:meta"
			if lose[1] != "" {
				key = "{" + p.Options.Project + lose[1] + "}:limits"
			}
			args := []any{lose[0], key}
			for _, a := range lose[2:] {
				args = append(args, a)
			}
			require.NoError(t, p.Client.Do(t.Context(), args...).Err())
			for _, dry := range []bool{false, true} {
				_, err := admin.Repartition(t.Context(), p.Options, admin.RepartitionOptions{To: 4, DryRun: dry})
				var loss *dispatcher.Emptied
				require.ErrorAs(t, err, &loss)
			}
			require.Equal(t, "2", p.Client.HGet(t.Context(), "{"+p.Options.Project+"}:meta", "partitions").Val())
		})
	}
}

func TestOfTwoRepartitionsAtOnceOneGivesUp(t *testing.T) {
	t.Parallel()
	p := redisqtest.NewProject(t, redistest.Share(t), 2)
	p.Fill(2)
	before := p.Content(2)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := admin.Repartition(ctx, p.Options, admin.RepartitionOptions{To: 4, Quiet: time.Minute})
			ended <- err
		}()
	}
	require.ErrorIs(t, <-ended, admin.ErrAlive, "whoever sees the other first")
	stop()
	require.Error(t, <-ended)
	require.Equal(t, before, p.Content(2))
	p.To(4)
	require.Equal(t, before, p.Content(4))
}

func TestARepartitionPutsBackWhatTheDeadHeld(t *testing.T) {
	p := redisqtest.NewProject(t, redistest.Share(t), 2)
	p.Fill(3)
	s := p.Open(2)
	for _, name := range []string{"dead", "forgotten"} {
		_, _, err := s.Beat(t.Context(), name, 1)
		require.NoError(t, err)
		claimed, _, err := s.Claim(t.Context(), name, redisqtest.All(s), 3, 1024)
		require.NoError(t, err)
		require.NotEmpty(t, claimed)
	}
	for _, lane := range []dispatcher.Lane{"u_failing", "u_cut"} {
		fail(t, s, p, lane)
	}
	failing, err := s.LaneStates(t.Context(), []dispatcher.Lane{"u_cut"})
	require.NoError(t, err)
	_, cut, _, err := s.Cut(t.Context(), "one", "u_cut", failing[0].Failing)
	require.NoError(t, err)
	require.True(t, cut)
	require.NoError(t, s.Leave(t.Context(), "forgotten")) // as a careless hand would
	_, _, err = s.Limit(t.Context(), "one", dispatcher.AllLanes, dispatcher.LaneLimits{Mode: dispatcher.LanePaused, By: "night"}, false)
	require.NoError(t, err)
	_, _, err = s.Limit(t.Context(), "one", "u_new", dispatcher.LaneLimits{Mode: dispatcher.LanePaused, By: "ops", Name: "https://new.example t1"}, false)
	require.NoError(t, err)
	lanes := func(s *redisqtest.Raw) (reported []string) {
		for cursor := ""; ; {
			page, next, err := s.Lanes(t.Context(), 100, cursor)
			require.NoError(t, err)
			for _, l := range page {
				reported = append(reported, fmt.Sprint(l.Lane, l.URL, l.Tenant, l.Limits.Mode, l.Limits.Version, l.Since, l.By, l.Failing))
			}
			if cursor = next; cursor == "" {
				slices.Sort(reported)
				return reported
			}
		}
	}
	before := lanes(s)
	require.Contains(t, strings.Join(before, "\n"), "https://new.example")
	require.Contains(t, strings.Join(before, "\n"), failing[0].Failing.String())
	out := p.To(8)
	require.Equal(t, before, lanes(p.Open(8)), "where each leads, since when it is held and by whom")
	require.Positive(t, out.Reaped)
	require.NotContains(t, p.Content(8), "Place:leased")
	for n, state := range p.States(8) {
		require.True(t, state.AllPaused, "all lanes stay held, in partition %d too", n)
		require.Subset(t, state.Fenced, []string{"dead", "forgotten"})
	}
	require.Zero(t, p.Client.HLen(t.Context(), "{"+p.Options.Project+"}:instances").Val())
}

func TestTwoMessagesWithOneIDAreNotPutTogether(t *testing.T) {
	p := redisqtest.NewProject(t, redistest.Share(t), 8)
	s := p.Open(8)
	lanes := redisqtest.To16(0, 16)
	other := lanes[slices.IndexFunc(lanes, func(l dispatcher.Lane) bool {
		return keys.CRC16(string(l))%8 != keys.CRC16(string(lanes[0]))%8 && keys.CRC16(string(l))%3 != keys.CRC16(string(lanes[0]))%3
	})]
	p.Publish(s, p.Entry("twice", lanes[:1]))
	p.Publish(s, p.Entry("twice", []dispatcher.Lane{other}, func(m *dispatcher.Message) { m.Body = []byte("another") }))
	before := p.Content(8)
	_, err := admin.Repartition(t.Context(), p.Options, admin.RepartitionOptions{To: 1})
	require.ErrorContains(t, err, "twice")
	require.Equal(t, before, p.Content(8))
	p.Open(8)
	p.To(3)
	require.Equal(t, before, p.Content(3), "where they stay apart nothing is in the way")
}

func TestADryRunChangesNothing(t *testing.T) {
	p := redisqtest.NewProject(t, redistest.Share(t), 2)
	p.Fill(5)
	before := p.Client.HGetAll(t.Context(), "{"+p.Options.Project+"}:meta").Val()
	want := p.Content(2)
	dry, err := admin.Repartition(t.Context(), p.Options, admin.RepartitionOptions{To: 5, DryRun: true})
	require.NoError(t, err)
	require.Equal(t, want, p.Content(2))
	require.Equal(t, before, p.Client.HGetAll(t.Context(), "{"+p.Options.Project+"}:meta").Val())
	moved := p.To(5).Moved
	moved.IDs = dry.Moved.IDs // what the first partitions copied is copied again by the others
	require.Equal(t, moved, dry.Moved, "it tells what would be moved")
}

// Where ids go to many partitions each of these gets no more of them than it
// would keep, the newest.
func TestIDsAreCopiedAsFarAsThereIsRoom(t *testing.T) {
	p := redisqtest.NewProject(t, redistest.Share(t), 1)
	s := p.Open(1)
	keep := dispatcher.Keep{Finished: time.Hour, FinishedMax: 0, SeenMax: redisqtest.ProjectKnown, Dead: time.Hour, DeadMax: 1}
	for k := range 10 {
		p.Publish(s, p.Entry(fmt.Sprintf("m%d", k), redisqtest.To16(0, 1)))
		_, _, err := s.Cancel(t.Context(), "one", []dispatcher.DeliveryID{{Lane: redisqtest.To16(0, 1)[0], Message: fmt.Sprintf("m%d", k)}})
		require.NoError(t, err)
		claimed, _, err := s.Claim(t.Context(), "one", []int{0}, 1, 1024)
		require.NoError(t, err)
		require.Empty(t, claimed, "it ends when it is met")
		_, err = s.Trim(t.Context(), "one", []int{0}, keep, false)
		require.NoError(t, err)
		p.Pass(time.Second)
	}
	require.Len(t, p.States(1)[0].Seen, 10)
	p.Options.Keep.SeenMax = 4
	out := p.To(3)
	require.Equal(t, 6, out.Moved.Forgotten)
	states := p.States(3)
	for _, id := range []string{"m6", "m7", "m8", "m9"} {
		for n := range states {
			require.Contains(t, states[n].Seen, id)
		}
	}
}

// fail has the first attempt of a new delivery fail.
func fail(t *testing.T, s *redisqtest.Raw, p *redisqtest.Project, lane dispatcher.Lane) {
	t.Helper()
	e := p.Entry("fails_"+string(lane), []dispatcher.Lane{lane})
	placed, _, err := s.Schedule(t.Context(), "one", 1024, 1, []dispatcher.Entry{e})
	require.NoError(t, err)
	require.Equal(t, dispatcher.StatusInFlight, placed[0].Placed[0].Status)
	_, _, err = s.Settle(t.Context(), "one", []dispatcher.Settlement{{
		ID: dispatcher.DeliveryID{Lane: lane, Message: e.Message.ID}, Verdict: dispatcher.Retry, Wait: time.Hour, Fails: true,
		Attempt: dispatcher.Attempt{Number: 1, Status: 500, Verdict: dispatcher.Retry},
	}})
	require.NoError(t, err)
}

// A repartition may end at any command. After it was run again, everything is as
// if it had not. Until then no instance serves what lies in two places.
func TestARepartitionThatEndsAnywhereIsFinishedByTheNext(t *testing.T) {
	t.Parallel()
	redistest.Long(t)
	p := redisqtest.NewProject(t, redistest.Share(t), 2)
	p.Fill(2)
	before := p.Content(2)
	copies := func(name string) *redisqtest.Project {
		clone := *p
		clone.Options.Project = name
		copyProject(t, p.Client, p.Options.Project, name)
		return &clone
	}
	reference := copies("reference")
	reference.To(3)
	require.Equal(t, before, reference.Content(3))
	want := placed(reference, 3)

	crashes := 0
	for after := rand.IntN(3); ; after += 3 { // three runs of the test are needed to end it after each command
		q := copies(fmt.Sprintf("crash%d", after))
		hook := &crash{left: after}
		_, err := admin.Repartition(t.Context(), q.Options, admin.RepartitionOptions{To: 3}.Hooked(hook).Paged(2))
		if err == nil {
			require.Equal(t, want, placed(q, 3)) // it may have been ended as it signed off
			break
		}
		require.ErrorIs(t, err, errCrash)
		crashes++
		o := q.Options
		o.Partitions = 0
		if s, err := redisqtest.OpenRaw(t.Context(), o); err == nil {
			// Before the mark, or behind it.
			n := s.Partitions()
			require.NoError(t, s.Close())
			require.Equal(t, before, q.Content(n), "after %d commands", after)
		} else {
			require.ErrorContains(t, err, "run hookladder repartition --to 3 again", "after %d commands", after)
		}
		q.To(3)
		require.Equal(t, want, placed(q, 3), "after %d commands", after)
		require.NoError(t, p.Client.Del(t.Context(), redisqtest.Keys(t, p.Client, q.Options.Project)...).Err())
	}
	require.Greater(t, crashes, 20, "it is ended everywhere")
}

// placed is where everything lies. A run that ended anywhere is itself among
// the instances that were declared dead.
func placed(p *redisqtest.Project, partitions int) string {
	p.T.Helper()
	states := p.States(partitions)
	for n := range states {
		states[n].Fenced = nil
	}
	return fmt.Sprint(states) + p.Figures(partitions)
}

var errCrash = errors.New("the process is gone")

// crash ends a process after so many commands that change something: they are
// carried out, and nothing after them.
type crash struct {
	mu    sync.Mutex // guards both: a run that takes a while tells beside its work that it lives
	left  int
	ended bool
}

func (c *crash) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *crash) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if !c.may(cmd) {
			cmd.SetErr(errCrash)
			return errCrash
		}
		return next(ctx, cmd)
	}
}

func (c *crash) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		last := slices.IndexFunc(cmds, func(cmd redis.Cmder) bool { return !c.may(cmd) })
		if last < 0 {
			return next(ctx, cmds)
		}
		if last > 0 {
			_ = next(ctx, cmds[:last])
		}
		for _, cmd := range cmds[last:] {
			cmd.SetErr(errCrash)
		}
		return errCrash
	}
}

// may reports whether a command is carried out. Reading costs nothing: an end
// before or behind it is the same.
func (c *crash) may(cmd redis.Cmder) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return false
	}
	if !slices.Contains([]string{"hset", "hdel", "zadd", "zrem", "rpush", "unlink", "del", "evalsha"}, cmd.Name()) {
		return true
	}
	if c.left == 0 {
		c.ended = true
		return false
	}
	c.left--
	return true
}

// copyProject copies all keys of a project to another.
func copyProject(t *testing.T, client redis.UniversalClient, from, to string) {
	t.Helper()
	ctx := context.Background()
	keys := redisqtest.Keys(t, client, from)
	dumps := make([]*redis.StringCmd, len(keys))
	_, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, key := range keys {
			dumps[i] = p.Dump(ctx, key)
		}
		return nil
	})
	require.NoError(t, err)
	_, err = client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, key := range keys {
			p.Restore(ctx, "{"+to+strings.TrimPrefix(key, "{"+from), 0, dumps[i].Val())
		}
		return nil
	})
	require.NoError(t, err)
}

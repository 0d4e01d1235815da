package archive_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// vault is an archive in memory.
type vault struct {
	open      []archive.Open
	endpoints []archive.Endpoint
	known     []archive.Known
	dead      []archive.DeadOne
	holds     []archive.PausedLane
	locked    bool
	home      string // the id of the store
	notes     []map[string]any
	since     []time.Time
	severed   bool
	dry       bool // a dry run reads it, which changes nothing
	away      bool // it takes no note
}

func (v *vault) Lock(context.Context) (func(), error) {
	if v.locked {
		return nil, errors.New("another restore is running")
	}
	v.locked = true
	return func() { v.locked = false }, nil
}

func (v *vault) Ends(context.Context, []string) (archive.Ends, error) {
	return archive.Ends{First: now.Add(-time.Second), Last: now, Now: now}, nil
}

func (v *vault) Home(context.Context) (string, map[int]string, error) { return v.home, nil, nil }

func (v *vault) Sever(context.Context, []string) error {
	v.severed = true
	return nil
}

func (v *vault) KeepHome(_ context.Context, id string) error {
	v.home = id
	return nil
}

func (v *vault) CountOpen(_ context.Context, but []string) (n int64, err error) {
	for _, o := range v.open {
		if !slices.Contains(but, o.Epoch) {
			n++
		}
	}
	return n, nil
}

func (v *vault) Open(_ context.Context, but []string) iter.Seq2[archive.Open, error] {
	if !v.severed && !v.dry {
		return func(yield func(archive.Open, error) bool) {
			yield(archive.Open{}, errors.New("an instance may still add to what is restored"))
		}
	}
	return sequence(slices.DeleteFunc(slices.Clone(v.open), func(o archive.Open) bool { return slices.Contains(but, o.Epoch) }))
}

func (v *vault) History(_ context.Context, of []*archive.Open) error {
	for _, o := range of {
		o.History = []archive.Event{{ID: o.ID, Attempt: dispatcher.Attempt{Status: 500}}}
	}
	return nil
}

func (v *vault) Endpoints(context.Context) ([]archive.Endpoint, []archive.PausedLane, error) {
	return v.endpoints, v.holds, nil
}

func (v *vault) Known(_ context.Context, since time.Time, most int) iter.Seq2[archive.Known, error] {
	v.since = append(v.since, since)
	return sequence(v.known[:min(len(v.known), most)])
}

func (v *vault) Dead(_ context.Context, since time.Time, most int) iter.Seq2[archive.DeadOne, error] {
	v.since = append(v.since, since)
	return sequence(v.dead[:min(len(v.dead), most)])
}

func (v *vault) Note(_ context.Context, _, _ string, detail map[string]any) error {
	if v.away {
		return errCrash
	}
	v.notes = append(v.notes, detail)
	return nil
}

func sequence[T any](list []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, one := range list {
			if !yield(one, nil) {
				return
			}
		}
	}
}

// target is a store in memory that notes what it is asked for, and fails at a step.
type target struct {
	steps  []string
	has    map[dispatcher.DeliveryID]bool
	odd    string
	locked string // no key opens it
	failAt int

	drained bool
	drains  int // which question finds all of the log archived; 0: none
	asked   int
	sound   bool // it lost nothing
}

var errCrash = errors.New("crash")

func (s *target) step(format string, args ...any) error {
	s.steps = append(s.steps, fmt.Sprintf(format, args...))
	if s.failAt > 0 && len(s.steps) == s.failAt {
		return errCrash
	}
	return nil
}

func (s *target) Emptied(context.Context, string, map[int]string) (bool, error) { return !s.sound, nil }
func (s *target) ID() string                                                    { return "present" }
func (s *target) Epochs(context.Context) ([]string, bool, error) {
	s.asked++
	return []string{"present"}, s.drained || s.asked == s.drains, nil
}
func (s *target) Hold(context.Context) error    { return s.step("hold") }
func (s *target) Release(context.Context) error { return s.step("release") }

func (s *target) PutEndpoints(_ context.Context, list []archive.Endpoint, holds []archive.PausedLane) (int, error) {
	return len(list), s.step("endpoints %d %d", len(list), len(holds))
}

func (s *target) OpensEndpoint(e *archive.Endpoint) bool { return e.ID != s.locked }
func (s *target) Opens(o *archive.Open) bool             { return o.ID.Message != s.locked }

func (s *target) PutKnown(_ context.Context, list []archive.Known) error {
	return s.step("known %d", len(list))
}

func (s *target) Put(_ context.Context, list []archive.Open) (puts []archive.Put, err error) {
	for _, o := range list {
		switch {
		case o.ID.Message == s.odd:
			puts = append(puts, archive.PutConflict)
		case len(o.History) != 1:
			panic("its attempts were not read")
		case s.has[o.ID]:
			puts = append(puts, archive.PutExists)
		default:
			s.has[o.ID] = true
			puts = append(puts, archive.PutNew)
		}
	}
	return puts, s.step("open %d", len(list))
}

func (s *target) Lost(context.Context) (map[dispatcher.Lane]int64, error) {
	return map[dispatcher.Lane]int64{"ep_lost": 2, "ep_also": 1}, nil
}

func (s *target) PutDead(_ context.Context, list []archive.DeadOne) (puts []archive.Put, err error) {
	for range list {
		puts = append(puts, archive.PutNew)
	}
	return puts, s.step("dead %d", len(list))
}

func newRestoreWorld(unfinished int) (*vault, *target) {
	v, s := &vault{}, &target{has: map[dispatcher.DeliveryID]bool{}}
	for n := range unfinished {
		v.open = append(v.open, archive.Open{ID: dispatcher.DeliveryID{Lane: "u_1", Message: fmt.Sprint("m", n)}, Epoch: "lost", Body: []byte("b")})
	}
	v.endpoints = []archive.Endpoint{{ID: "ep_1"}, {ID: "ep_2", Deleted: true}}
	v.holds = []archive.PausedLane{{Lane: "u_1"}}
	v.known = make([]archive.Known, 7)
	v.dead = make([]archive.DeadOne, 3)
	return v, s
}

func options(v *vault, s *target) archive.RestoreOptions {
	return archive.RestoreOptions{From: v, To: s, Limits: dispatcher.Keep{Finished: time.Hour, SeenMax: 5, Dead: 48 * time.Hour, DeadMax: 2}}
}

func TestAStoreIsRestoredBeforeAnythingGoesOut(t *testing.T) {
	v, s := newRestoreWorld(1200)
	s.odd = "m7"
	var last archive.RestoreStep
	o := options(v, s)
	o.Dead, o.Progress = true, func(step archive.RestoreStep) {
		if step.Phase == "open" {
			last = step
		}
	}
	r, err := archive.Restore(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, []string{"hold", "endpoints 2 1", "known 5", "open 500", "open 500", "open 200", "dead 2", "release"}, s.steps)
	require.Equal(t, []time.Time{now.Add(-time.Hour), now.Add(-48 * time.Hour)}, v.since)
	require.EqualValues(t, 1199, r.Open[archive.PutNew])
	require.Equal(t, []string{"u_1:m7"}, r.Refused)
	require.Equal(t, archive.RestoreStep{Phase: "open", Done: 1200, Of: 1200}, last)
	require.Len(t, v.notes, 1)
	require.False(t, v.locked)
	require.Equal(t, "present", v.home, "the archive is of this store from now on")
}

func TestARestoreThatEndsAnywhereIsFinishedByTheNext(t *testing.T) {
	for step := 1; step <= 7; step++ {
		v, s := newRestoreWorld(1200)
		s.failAt = step
		_, err := archive.Restore(t.Context(), options(v, s))
		require.ErrorIs(t, err, errCrash)
		require.NotContains(t, s.steps[:len(s.steps)-1], "release")
		s.failAt, s.steps = 0, nil
		r, err := archive.Restore(t.Context(), options(v, s))
		require.NoError(t, err)
		require.Len(t, s.has, 1200)
		require.EqualValues(t, 1200, r.Open[archive.PutNew]+r.Open[archive.PutExists])
		require.Equal(t, "release", s.steps[len(s.steps)-1])
	}
}

// What it did is reported by the call that ends the loss, and nothing can fail behind that.
func TestARestoreThatCanNotBeNotedIsNotOver(t *testing.T) {
	v, s := newRestoreWorld(3)
	v.away = true
	_, err := archive.Restore(t.Context(), options(v, s))
	require.ErrorIs(t, err, errCrash)
	require.NotContains(t, s.steps, "release")
	v.away = false
	r, err := archive.Restore(t.Context(), options(v, s))
	require.NoError(t, err)
	require.EqualValues(t, 3, r.Open[archive.PutNew]+r.Open[archive.PutExists])
}

func TestWhereNothingWasLostNothingIsDone(t *testing.T) {
	v, s := newRestoreWorld(3)
	s.sound = true
	r, err := archive.Restore(t.Context(), options(v, s))
	require.NoError(t, err)
	require.True(t, r.Nothing)
	require.Empty(t, s.steps)
	require.Empty(t, v.notes)

	v.open[0].Epoch = "present" // the store has it
	o := options(v, s)
	o.IntoRunning = true
	r, err = archive.Restore(t.Context(), o)
	require.NoError(t, err)
	require.EqualValues(t, 2, r.Open[archive.PutNew])
	require.True(t, r.Behind)

	s.drained = true
	r, err = archive.Restore(t.Context(), o)
	require.NoError(t, err)
	require.EqualValues(t, 1, r.Open[archive.PutNew], "what the store has not, though all of its log is archived, it lost")
	require.False(t, r.Behind)
}

func TestARestoreWaitsUntilTheLogIsArchived(t *testing.T) {
	v, s := newRestoreWorld(3)
	s.sound, s.drains = true, 3
	o := options(v, s)
	o.IntoRunning, o.Wait = true, time.Minute
	r, err := archive.Restore(t.Context(), o)
	require.NoError(t, err)
	require.False(t, r.Behind)
	require.EqualValues(t, 3, r.Open[archive.PutNew])
}

func TestDeliveriesWithoutTheirEndpointAreReported(t *testing.T) {
	v, s := newRestoreWorld(2)
	r, err := archive.Restore(t.Context(), options(v, s))
	require.NoError(t, err)
	require.Equal(t, []archive.LostEndpoint{{Lane: "ep_also", Deliveries: 1}, {Lane: "ep_lost", Deliveries: 2}}, r.Lost)
}

func TestOnlyWhatIsPausedInLostDataIsPausedAgain(t *testing.T) {
	v, s := newRestoreWorld(0)
	v.holds = []archive.PausedLane{{Lane: "u_1", Epoch: "present"}, {Lane: "u_2", Epoch: "lost"}}
	o := options(v, s)
	o.IntoRunning = true
	_, err := archive.Restore(t.Context(), o)
	require.NoError(t, err)
	require.Contains(t, s.steps, "endpoints 2 1")
}

func TestADryRunOnlyCounts(t *testing.T) {
	v, s := newRestoreWorld(3)
	o := options(v, s)
	v.dead = []archive.DeadOne{{}, {}}
	o.DryRun, v.dry = true, true
	r, err := archive.Restore(t.Context(), o)
	require.NoError(t, err)
	require.Zero(t, r.Dead)
	o.Dead = true
	r, err = archive.Restore(t.Context(), o)
	require.NoError(t, err)
	require.EqualValues(t, 2, r.Dead[archive.PutNew])
	require.Empty(t, s.steps)
	require.Empty(t, v.notes)
	require.EqualValues(t, 3, r.Open[archive.PutNew])
	require.Equal(t, 1, r.Endpoints)
}

// A restore that says nothing of it looks like one that brought everything back.
func TestARestoreCountsWhatNoKeyOpens(t *testing.T) {
	for _, dry := range []bool{true, false} {
		t.Run(fmt.Sprint("dry run: ", dry), func(t *testing.T) {
			v, s := newRestoreWorld(3)
			v.endpoints = append(v.endpoints, archive.Endpoint{ID: "m1"})
			s.locked = "m1"
			s.has[dispatcher.DeliveryID{Lane: "u_1", Message: "m2"}] = true
			o := options(v, s)
			o.DryRun, v.dry = dry, dry
			r, err := archive.Restore(t.Context(), o)
			require.NoError(t, err)
			require.Equal(t, archive.RestoreSealed{Endpoints: 1, Deliveries: 1}, r.Sealed)
		})
	}
}

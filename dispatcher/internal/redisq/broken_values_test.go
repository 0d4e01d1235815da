package redisq_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/admin"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// All data of lanes that begin with sick may be broken by hand. The data of
// well must not be affected.
const sick, well = dispatcher.Lane("sick"), dispatcher.Lane("well")

// damage takes from its input what to break next, and how.
type damage struct{ input []byte }

func (d *damage) next(n int) int {
	if len(d.input) == 0 || n == 0 {
		return 0
	}
	b := int(d.input[0])
	d.input = d.input[1:]
	if n > 256 && len(d.input) > 0 {
		b = b<<8 | int(d.input[0])
		d.input = d.input[1:]
	}
	return b % n
}

// texts replace a value, or are appended to a part of it.
var texts = []string{
	"", " ", "garbage", "-1", "0", "1e300", "inf", "-inf", "nan", "99999999999999999999", "9007199254740993", "1 2 3",
	"0 0 0 0 0 0 0 0 0", "1 0 0 0 0 0 0 0 0", "5 9 0 0 0 - 0 0", "1 0 99999999999 0 0 x 0 0", "2 0 9223372036854775807 999999999999999999 1 9 255 0 0",
	"-5 -5", "99999999999999 99999999999999", "0 0 0 0 z", "1 0 0 2 -", "\x00", "\xff\xfe", ":", "a:b:c", "*", "-", "{}",
	strings.Repeat("9", 400), strings.Repeat("x", 70_000), strings.Repeat("\xff", 43), strings.Repeat("\x00", 17), strings.Repeat("\xff", 60),
}

// scores replace a score.
var scores = []string{"1e300", "-1e300", "inf", "-inf", "1.5", "-5", "0", "9007199254740993", "1767323045000.5"}

// sorted is all that a partition has, in a fixed order.
func (r *trap) sorted() []string {
	r.Helper()
	keys, err := r.store.Client().Keys(r.Context(), "*").Result()
	require.NoError(r, err)
	keys = slices.DeleteFunc(keys, func(key string) bool { return strings.HasSuffix(key, ":clock") || strings.HasSuffix(key, ":meta") })
	slices.Sort(keys)
	return keys
}

// harm breaks one value of the sick lanes, and says which.
func (r *trap) harm(d *damage) string {
	r.Helper()
	ctx, client := r.Context(), r.store.Client()
	keys := r.sorted()
	key := keys[d.next(len(keys))]
	kind, err := client.Type(ctx, key).Result()
	require.NoError(r, err)
	text := texts[d.next(len(texts))]
	mine := func(names []string) string {
		names = slices.DeleteFunc(names, func(name string) bool { return strings.Contains(name, string(well)) || name == "~epoch" }) // without its epoch a partition counts as lost
		slices.Sort(names)
		if len(names) == 0 || d.next(8) == 0 {
			return text
		}
		return names[d.next(len(names))]
	}
	how := d.next(4)
	switch kind {
	case "hash":
		fields, err := client.HKeys(ctx, key).Result()
		require.NoError(r, err)
		field := mine(fields)
		if old, _ := client.HGet(ctx, key, field).Result(); how == 1 {
			text = old[:min(d.next(60), len(old))]
		} else if how == 2 {
			text = old + text
		}
		require.NoError(r, client.HSet(ctx, key, field, text).Err())
		return fmt.Sprintf("%s %q = %.80q", key, field, text)
	case "zset":
		if strings.Contains(key, string(well)) {
			break
		}
		members, err := client.ZRange(ctx, key, 0, -1).Result()
		require.NoError(r, err)
		member, score := mine(members), scores[d.next(len(scores))]
		require.NoError(r, client.Do(ctx, "zadd", key, score, member).Err())
		return fmt.Sprintf("%s %.80q = %s", key, member, score)
	case "list":
		if !strings.Contains(key, string(well)) {
			require.NoError(r, client.LSet(ctx, key, 0, text).Err())
			return fmt.Sprintf("%s[0] = %.80q", key, text)
		}
	}
	return key + " as it was"
}

// replace puts a key of another type in the place of one, and says which.
func (r *trap) replace(d *damage) string {
	r.Helper()
	ctx, client := r.Context(), r.store.Client()
	keys := slices.DeleteFunc(r.sorted(), func(key string) bool {
		return !strings.Contains(key, ":0}:") || strings.HasSuffix(key, ":limits") // without its epoch a partition counts as lost
	})
	key := keys[d.next(len(keys))]
	kind, err := client.Type(ctx, key).Result()
	require.NoError(r, err)
	require.NoError(r, client.Del(ctx, key).Err())
	if kind == "hash" {
		require.NoError(r, client.RPush(ctx, key, "x").Err())
	} else {
		require.NoError(r, client.HSet(ctx, key, "x", "y").Err())
	}
	return key + " is of another type"
}

// furnish puts deliveries into every place, of sick and of well lanes. It names
// the unfinished ones of well lanes.
func (r *trap) furnish() (open []dispatcher.DeliveryID) {
	r.Helper()
	for i, lane := range []dispatcher.Lane{sick, well, "sick2", "ep_sick"} {
		if lane == "ep_sick" {
			_, _, err := r.store.Limit(r.Context(), "one", lane, dispatcher.LaneLimits{Version: 1, MaxInFlight: 9}, false)
			require.NoError(r, err)
		}
		id := func(name string) string { return string(lane) + "_" + name }
		r.schedule(r.entry(lane, id("first"), 0), r.entry(lane, id("second"), 0))
		for k, c := range r.claim("one", 2) {
			r.settle("one", ended(c, []dispatcher.Verdict{dispatcher.Retry, dispatcher.Delivered}[(k+i)%2]))
		}
		keyed := r.entry(lane, id("keyed"), time.Hour)
		keyed.Message.OrderingKey = "k"
		behind := r.entry(lane, id("behind"), time.Hour)
		behind.Message.OrderingKey = "k"
		r.schedule(keyed, behind, r.entry(lane, id("due"), time.Minute), r.entry(lane, id("held"), 0), r.entry(lane, id("ready"), 0))
		open = append(open, dispatcher.DeliveryID{Lane: lane, Message: id("due")}, dispatcher.DeliveryID{Lane: lane, Message: id("ready")},
			dispatcher.DeliveryID{Lane: lane, Message: id("keyed")}, dispatcher.DeliveryID{Lane: lane, Message: id("behind")})
	}
	r.claim("one", 3)
	fan := r.entry(sick, "sick_fan", time.Hour)
	fan.Lanes = []dispatcher.Lane{sick, "sick2"}
	r.schedule(fan)
	_, _, err := r.store.Cancel(r.Context(), "one", []dispatcher.DeliveryID{{Lane: sick, Message: "sick_ready"}})
	require.NoError(r, err)
	return slices.DeleteFunc(open, func(id dispatcher.DeliveryID) bool { return id.Lane != well })
}

// readAll makes every kind of read. None of them may fail.
func (r *trap) readAll() {
	r.Helper()
	ctx := r.Context()
	for _, statuses := range [][]dispatcher.Status{nil, {dispatcher.StatusReady}, {dispatcher.StatusCancelled}, {dispatcher.StatusScheduled}} {
		f := dispatcher.Filter{Limit: 7, Statuses: statuses}
		for pages := 0; ; pages++ {
			page, err := r.store.List(ctx, f)
			require.NoError(r, err)
			require.Less(r, pages, 100, "the list ends")
			for _, d := range page.Deliveries {
				require.Less(r, d.Due.Year(), 10_000)
			}
			if f.Cursor = page.Next; f.Cursor == "" {
				break
			}
		}
	}
	for _, id := range []string{"sick_first", "sick_ready", "sick_fan", "well_due"} {
		if _, err := r.store.Read(ctx, id); err != nil {
			require.ErrorIs(r, err, dispatcher.ErrNotFound)
		}
	}
	_, err := r.store.Stats(ctx)
	require.NoError(r, err)
	_, err = r.store.LaneStates(ctx, []dispatcher.Lane{sick, well, "ep_sick", dispatcher.AllLanes})
	require.NoError(r, err)
	_, _, err = r.store.Lanes(ctx, 2, "")
	require.NoError(r, err)
	_, err = r.store.ReadHints(ctx, []int{0})
	require.NoError(r, err)
}

// work runs until nothing is left to do. It answers the deliveries of well
// lanes that were delivered.
func (r *trap) work() map[string]bool {
	r.Helper()
	ctx := r.Context()
	delivered := map[string]bool{}
	for round := range 12 {
		r.setClock(r.now.Add(20 * time.Minute))
		for range 4 {
			r.move()
			claimed := r.claim("two", 64)
			batch := make([]dispatcher.Settlement, len(claimed))
			for i, c := range claimed {
				batch[i] = ended(c, dispatcher.Delivered)
				if c.Message == nil {
					batch[i].Verdict, batch[i].Reason = dispatcher.Dead, dispatcher.ReasonPoison
				}
				if c.ID.Lane == well {
					require.NotNil(r, c.Message, "%s", c.ID)
					delivered[c.ID.Message] = true
				}
			}
			r.settle("two", batch...)
		}
		if round == 2 {
			_, _, err := r.store.Reap(ctx, "two", "one")
			require.NoError(r, err)
		}
	}
	return delivered
}

// meddle asks for changes of sick deliveries.
func (r *trap) meddle() {
	r.Helper()
	ctx := r.Context()
	var ids []dispatcher.DeliveryID
	for _, lane := range []dispatcher.Lane{sick, "sick2", "ep_sick"} {
		for _, name := range []string{"first", "second", "due", "held", "keyed", "behind"} {
			ids = append(ids, dispatcher.DeliveryID{Lane: lane, Message: string(lane) + "_" + name})
		}
	}
	_, _, err := r.store.Retry(ctx, "one", ids[:len(ids)/2], true)
	require.NoError(r, err)
	_, _, err = r.store.Cancel(ctx, "one", ids[len(ids)/3:])
	require.NoError(r, err)
	late := make([]dispatcher.Settlement, len(ids))
	for i, id := range ids {
		late[i] = ended(dispatcher.Claimed{ID: id, Attempt: 1}, dispatcher.Delivered)
	}
	r.settle("two", late...)
	_, _, err = r.store.Beat(ctx, "two", 7)
	require.NoError(r, err)
	_, err = r.store.Trim(ctx, "one", []int{0}, dispatcher.Keep{Finished: time.Hour, FinishedMax: 100, Dead: time.Hour, DeadMax: 100}, false)
	require.NoError(r, err)
}

// breakValues breaks the values that the input chooses, and runs all work.
func (r *trap) breakValues(input []byte) {
	r.Helper()
	open := r.furnish()
	d := &damage{input: input}
	whole := d.next(3) == 0 // a whole key, with its data of well lanes
	broken := []string{}
	if whole {
		broken = append(broken, r.replace(d))
	} else {
		for range 1 + d.next(6) {
			broken = append(broken, r.harm(d))
		}
	}
	defer func() {
		if r.Failed() {
			r.Logf("broken:\n%s", strings.Join(broken, "\n"))
		}
	}()
	r.readAll()
	r.schedule(r.entry(well, "well_new", 0), r.entry(well, "well_later", time.Minute))
	delivered := r.work()
	r.meddle()
	r.readAll()
	for _, id := range []string{"well_new", "well_later"} {
		require.True(r, delivered[id], "%s is delivered", id)
	}
	for _, id := range open {
		require.True(r, whole || delivered[id.Message], "%s is delivered", id)
	}
	r.cure()
	r.readAll()
}

// cure repairs until nothing is left to repair.
func (r *trap) cure() {
	r.Helper()
	quiet := func(fix bool) (left []admin.Finding) {
		_, err := admin.Examine(r.Context(), r.store.Queue(), admin.Examination{Fix: fix, Still: time.Millisecond, Report: func(f admin.Finding) {
			if f.Cure != "" {
				left = append(left, f)
			}
		}})
		require.NoError(r, err)
		return left
	}
	for range 4 {
		quiet(true)
	}
	require.Empty(r, quiet(false))
}

// newPatient is a trap on a server that several tests use, one after another.
func newPatient(t testing.TB, server *redistest.Server) *trap {
	t.Helper()
	f := newTestStores(server)(t, redisqtest.Setup{Partitions: 1, LaneMaxInFlight: 128, Permits: 1024, Broken: true})
	r := &trap{TB: t, fixture: f, store: f.Queue}
	t.Cleanup(func() { require.NoError(t, r.store.Client().FlushAll(context.Background()).Err()) }) // before the store is closed
	r.setClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	for _, name := range []string{"one", "two"} {
		_, _, err := r.store.Beat(t.Context(), name, 1)
		require.NoError(t, err)
	}
	return r
}

// One value that was broken by hand, by a bug or by a rollback stops no other
// work. Well lanes are delivered, lists answer, and doctor finishes.
func TestABrokenValueStopsNothingElse(t *testing.T) {
	t.Parallel()
	seeds := uint64(20) // FuzzBrokenValues tries many more
	if testing.Short() {
		seeds = 10
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, 1))
			input := make([]byte, 64)
			for i := range input {
				input[i] = byte(rng.UintN(256))
			}
			newPatient(t, redistest.Start(t)).breakValues(input)
		})
	}
}

// A delivery of which only its message's digest is left says nothing of when it was accepted, so it does not end with a cut of its
// lane.
func TestADigestDoesNotEndWithACut(t *testing.T) {
	t.Parallel()
	r := newPatient(t, redistest.Start(t))
	failing := func(c dispatcher.Claimed) dispatcher.Settlement {
		s := ended(c, dispatcher.Retry)
		s.Fails, s.DisableAfter = true, 24*time.Hour
		return s
	}
	r.schedule(r.entry(sick, "first", 0))
	r.settle("one", failing(r.claim("one", 1)[0]))
	e := r.entry(sick, "digest", 0)
	r.schedule(e)
	claimed := r.claim("one", 1)
	r.setClock(r.now.Add(time.Second))
	states, err := r.store.LaneStates(t.Context(), []dispatcher.Lane{sick})
	require.NoError(t, err)
	_, cut, _, err := r.store.Cut(t.Context(), "one", sick, states[0].Failing)
	require.NoError(t, err)
	require.True(t, cut)
	require.NoError(t, r.store.Client().HSet(t.Context(), r.store.Conn().Tag(0)+keys.Messages, "digest", e.Digest[:]).Err())
	require.Equal(t, []dispatcher.SettleResult{dispatcher.SettledOK}, r.settle("one", failing(claimed[0])))
}

func FuzzBrokenValues(f *testing.F) {
	f.Add([]byte{1, 0, 3, 9, 1})
	f.Add([]byte{0, 4, 2, 7})
	f.Add([]byte("0$")) // a history of another type
	f.Add([]byte("0&")) // all counts of lanes are lost
	server := redistest.Start(f)
	f.Fuzz(func(t *testing.T, input []byte) {
		newPatient(t, server).breakValues(input)
	})
}

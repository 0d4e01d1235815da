package queuetest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

// The instances of every case. Both are alive when it begins.
const (
	one = "one-01JC0000000000000000000001"
	two = "two-01JC0000000000000000000002"
)

// others is one more instance, for cases with more permits than their own
// instances have. It has the rest of them.
const others = "others-01JC0000000000000000000003"

// start is when every case begins, a whole second.
var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// rig is a store under test with its clock, and short ways to use it. A call
// that must not fail ends the case if it does.
type rig struct {
	testing.TB
	Fixture
	setup    Setup
	ctx      context.Context
	now      time.Time
	serial   int                       // of the last id that newID made
	latest   time.Time                 // the latest time that the clock ever showed
	good     Queue                     // the store, while Queue is a connection that breaks
	hints    map[int]Hint              // the last of each partition
	died     []dispatcher.Death        // the deaths that answers told so far
	versions map[dispatcher.Lane]int64 // the last version of each endpoint's limits
}

func newRig(t testing.TB, open OpenFunc, s Setup) *rig {
	t.Helper()
	if s.Partitions == 0 {
		s.Partitions = 1
	}
	if s.LaneMaxInFlight == 0 {
		s.LaneMaxInFlight = 128
	}
	if s.Permits == 0 {
		s.Permits = 128 // a class counts once then, as the numbers in the cases assume
		if s.Partitions > 1 {
			s.Permits = 1024 // each gets its share of a claim
		}
	}
	if s.BreakerWait == 0 {
		s.BreakerWait = 30 * time.Second
	}
	r := &rig{TB: t, Fixture: open(t, s), setup: s, ctx: t.Context(), versions: map[dispatcher.Lane]int64{}, hints: map[int]Hint{}}
	r.setClock(start)
	r.beat(one, two)
	if s.Total > 0 {
		r.join(others, s.Total)
	}
	return r
}

func (r *rig) setClock(now time.Time) {
	r.now = now
	if now.After(r.latest) {
		r.latest = now
	}
	r.SetClock(now)
}

// pass lets time pass.
func (r *rig) pass(d time.Duration) { r.setClock(r.now.Add(d)) }

// later is a time from now, by the store's clock.
func (r *rig) later(d time.Duration) time.Time { return r.now.Add(d) }

// all lists the partitions.
func (r *rig) all() []int {
	all := make([]int, r.setup.Partitions)
	for i := range all {
		all[i] = i
	}
	return all
}

// mustBeSound fails the case if the store contradicts itself. It answers its
// state.
func (r *rig) mustBeSound() []State {
	r.Helper()
	states := r.States()
	for n, state := range states {
		state.Latest = r.latest.UnixMicro()
		if f := state.Faults(r.setup); len(f) > 0 {
			r.Fatalf("partition %d contradicts itself:\n%s", n, strings.Join(f, "\n"))
		}
	}
	return states
}

// State is everything that is stored in all partitions together.
func (r *rig) State() State {
	r.Helper()
	return merged(r.States())
}

// mustChangeNothing fails the case if act changes anything in the store.
func (r *rig) mustChangeNothing(act func()) {
	r.Helper()
	before := r.State().String()
	act()
	require.Equal(r, before, r.State().String())
}

// join tells the store that an instance with so many permits is alive.
func (r *rig) join(name string, permits int) {
	r.Helper()
	require.NoError(r, r.Queue.Join(r.ctx, name, dispatcher.Instance{Permits: permits, Version: "1.0", StartedAt: r.now}))
	r.beat(name)
}

func (r *rig) beat(instances ...string) {
	r.Helper()
	for _, name := range instances {
		_, _, err := r.Queue.Beat(r.ctx, name, 1)
		require.NoError(r, err)
	}
}

// newMessage is a message of the cases. The same id has the same content.
func newMessage(id string) *dispatcher.Message {
	return &dispatcher.Message{
		ID: id, Topic: "payment.paid", Tenant: "t1", URL: "https://example.com/" + id,
		Body: []byte(`{"id":"` + id + `"}`), ContentType: "application/json",
	}
}

// entry is a message to some lanes, accepted now. change may set more of it.
func (r *rig) entry(id string, lanes []dispatcher.Lane, change ...func(m *dispatcher.Message)) dispatcher.Entry {
	m := newMessage(id)
	m.CreatedAt = r.now
	for _, c := range change {
		c(m)
	}
	return dispatcher.Entry{Message: m, Digest: m.Digest(), Lanes: lanes}
}

func to(lanes ...dispatcher.Lane) []dispatcher.Lane { return lanes }

func delay(d time.Duration) func(*dispatcher.Message) {
	return func(m *dispatcher.Message) { m.Delay = d }
}

func expires(t time.Time) func(*dispatcher.Message) {
	return func(m *dispatcher.Message) { m.ExpiresAt = t }
}

func body(text string) func(*dispatcher.Message) {
	return func(m *dispatcher.Message) { m.Body = []byte(text) }
}

// named is the delivery of a message to a lane.
func named(lane dispatcher.Lane, message string) dispatcher.DeliveryID {
	return dispatcher.DeliveryID{Lane: lane, Message: message}
}

// schedule publishes entries without a direct lease.
func (r *rig) schedule(batch ...dispatcher.Entry) []dispatcher.ScheduleResult {
	r.Helper()
	return r.scheduleFor(one, 0, 0, batch...)
}

// scheduleFor publishes entries for an instance that may lease some directly.
func (r *rig) scheduleFor(by string, free, lease int, batch ...dispatcher.Entry) []dispatcher.ScheduleResult {
	r.Helper()
	got, hints, err := r.Queue.Schedule(r.ctx, by, free, lease, batch)
	require.NoError(r, err)
	require.Len(r, got, len(batch))
	r.mustBeCurrent(hints)
	return got
}

// publish puts messages into one lane, each due at once.
func (r *rig) publish(lane dispatcher.Lane, ids ...string) {
	r.Helper()
	batch := make([]dispatcher.Entry, len(ids))
	for i, id := range ids {
		batch[i] = r.entry(id, to(lane))
	}
	for i, s := range r.schedule(batch...) {
		require.Equal(r, dispatcher.Accepted, s.Result, ids[i])
	}
}

// move makes due deliveries ready and answers the only partition's hint.
func (r *rig) move() Hint {
	r.Helper()
	hints, err := r.Queue.Move(r.ctx, one, r.all())
	require.NoError(r, err)
	r.mustBeCurrent(hints)
	require.NotEmpty(r, hints)
	return hints[0]
}

// claim takes up to wanted deliveries for an instance with half of its permits
// free. That is enough that no lane is too heavy, unless a case is about that.
func (r *rig) claim(by string, wanted int) []dispatcher.Claimed {
	r.Helper()
	return r.claimWith(by, wanted, r.setup.Permits/2)
}

func (r *rig) claimWith(by string, wanted, free int) []dispatcher.Claimed {
	r.Helper()
	got, hints, err := r.Queue.Claim(r.ctx, by, r.all(), wanted, free)
	require.NoError(r, err)
	require.LessOrEqual(r, len(got), wanted)
	r.mustBeCurrent(hints)
	return got
}

// mustClaim claims exactly these deliveries, in this order.
func (r *rig) mustClaim(by string, want ...dispatcher.DeliveryID) []dispatcher.Claimed {
	r.Helper()
	got := r.claim(by, max(1, len(want)))
	require.Equal(r, want, claimedIDs(got))
	return got
}

// mustClaimNothing fails the case if anything can be claimed.
func (r *rig) mustClaimNothing(by string) {
	r.Helper()
	require.Empty(r, claimedIDs(r.claim(by, 64)))
}

func claimedIDs(claimed []dispatcher.Claimed) []dispatcher.DeliveryID {
	ids := make([]dispatcher.DeliveryID, len(claimed))
	for i, c := range claimed {
		ids[i] = c.ID
	}
	return ids
}

func (r *rig) leases(by string) []dispatcher.DeliveryID {
	r.Helper()
	leases, err := r.Queue.Leases(r.ctx, by)
	require.NoError(r, err)
	return leasedIDs(leases)
}

func leasedIDs(leases []dispatcher.Lease) []dispatcher.DeliveryID {
	ids := make([]dispatcher.DeliveryID, len(leases))
	for i, l := range leases {
		ids[i] = l.ID
	}
	return ids
}

// settle records outcomes and answers what each changed.
func (r *rig) settle(by string, batch ...dispatcher.Settlement) []dispatcher.Settled {
	r.Helper()
	got, hints, err := r.Queue.Settle(r.ctx, by, batch)
	require.NoError(r, err)
	require.Len(r, got, len(batch))
	r.mustBeCurrent(hints)
	return got
}

// mustSettle records one outcome, which must be accepted.
func (r *rig) mustSettle(by string, s dispatcher.Settlement) {
	r.Helper()
	require.Equal(r, []dispatcher.Settled{dispatcher.SettledOK}, r.settle(by, s))
}

// mustBeCurrent checks the hints of any call.
func (r *rig) mustBeCurrent(hints []Hint) {
	r.Helper()
	for _, h := range hints {
		require.Less(r, h.Partition, r.setup.Partitions)
		require.WithinDuration(r, r.now, h.Now, time.Millisecond, "the hint's time is the store's")
		require.GreaterOrEqual(r, h.Weight, -1)
		r.hints[h.Partition] = h
		r.died = append(r.died, h.Dead...)
	}
}

// look reads one delivery.
func (r *rig) look(id dispatcher.DeliveryID) dispatcher.Delivery {
	r.Helper()
	rec, err := r.Queue.Read(r.ctx, id.Message)
	require.NoError(r, err)
	r.mustStandAlike(rec)
	for _, d := range rec.Deliveries {
		if d.ID == id {
			return d
		}
	}
	r.Fatalf("%s is not among the deliveries of its message", id)
	return dispatcher.Delivery{}
}

// mustStand fails the case unless a delivery has a status.
func (r *rig) mustStand(id dispatcher.DeliveryID, want dispatcher.Status) dispatcher.Delivery {
	r.Helper()
	d := r.look(id)
	require.Equal(r, want, d.Status, "%s", id)
	return d
}

// changeFunc is Cancel or Retry.
type changeFunc func(ctx context.Context, by string, ids []dispatcher.DeliveryID) ([]dispatcher.Change, []Hint, error)

func (r *rig) change(f changeFunc, ids ...dispatcher.DeliveryID) []dispatcher.Change {
	r.Helper()
	got, hints, err := f(r.ctx, one, ids)
	require.NoError(r, err)
	require.Len(r, got, len(ids))
	r.mustBeCurrent(hints)
	for i, c := range got {
		require.Equal(r, ids[i], c.ID)
	}
	return got
}

// cancel reports whether each was changed. None may fail.
func (r *rig) cancel(ids ...dispatcher.DeliveryID) []bool {
	r.Helper()
	return r.changed(r.change(r.Queue.Cancel, ids...))
}

// resend is Retry that also sends delivered ones again.
func (r *rig) resend(ctx context.Context, by string, ids []dispatcher.DeliveryID) ([]dispatcher.Change, []Hint, error) {
	return r.Queue.Retry(ctx, by, ids, true)
}

// spare is Retry that leaves delivered ones.
func (r *rig) spare(ctx context.Context, by string, ids []dispatcher.DeliveryID) ([]dispatcher.Change, []Hint, error) {
	return r.Queue.Retry(ctx, by, ids, false)
}

// retry reports whether each was changed. None may fail.
func (r *rig) retry(ids ...dispatcher.DeliveryID) []bool {
	r.Helper()
	return r.changed(r.change(r.resend, ids...))
}

func (r *rig) changed(changes []dispatcher.Change) []bool {
	r.Helper()
	changed := make([]bool, len(changes))
	for i, c := range changes {
		require.NoError(r, c.Err, "%s", c.ID)
		changed[i] = c.Changed
	}
	return changed
}

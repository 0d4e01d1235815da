package redisqtest

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
	One = "one-01JC0000000000000000000001"
	Two = "two-01JC0000000000000000000002"
)

// Others is one more instance, for cases with more permits than their own
// instances have. It has the rest of them.
const Others = "others-01JC0000000000000000000003"

// Start is the start time of every case, a whole second.
var Start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// Rig is a store under test with its clock, and short ways to use it. If a call
// that must not fail returns an error, the case ends.
type Rig struct {
	testing.TB
	Fixture
	Setup    Setup
	Ctx      context.Context
	Now      time.Time
	Serial   int                       // of the last id from NewID
	Latest   time.Time                 // the latest time of the clock
	Good     *Raw                      // the store, while Queue is a connection that breaks
	Hints    map[int]Hint              // the last hint of each partition
	Died     []dispatcher.Death        // the deaths that calls returned until now
	Versions map[dispatcher.Lane]int64 // the last version of each endpoint's limits
}

// NewRig opens the store of one case, with both instances alive.
func NewRig(t testing.TB, open FixtureFunc, s Setup) *Rig {
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
	r := &Rig{TB: t, Fixture: open(t, s), Setup: s, Ctx: t.Context(), Versions: map[dispatcher.Lane]int64{}, Hints: map[int]Hint{}}
	r.SetNow(Start)
	r.Beat(One, Two)
	if s.Total > 0 {
		r.Join(Others, s.Total)
	}
	return r
}

// SetNow sets the clock of the store and of the rig.
func (r *Rig) SetNow(now time.Time) {
	r.Now = now
	if now.After(r.Latest) {
		r.Latest = now
	}
	r.SetClock(now)
}

// Pass advances the clock.
func (r *Rig) Pass(d time.Duration) { r.SetNow(r.Now.Add(d)) }

// Later returns a time from now, by the store's clock.
func (r *Rig) Later(d time.Duration) time.Time { return r.Now.Add(d) }

// All returns the partitions.
func (r *Rig) All() []int {
	all := make([]int, r.Setup.Partitions)
	for i := range all {
		all[i] = i
	}
	return all
}

// MustBeSound returns the state of the store. It fails the case if the store
// contradicts itself.
func (r *Rig) MustBeSound() []State {
	r.Helper()
	states := r.States()
	for n, state := range states {
		state.Latest = r.Latest.UnixMicro()
		if f := state.Faults(r.Setup); len(f) > 0 {
			r.Fatalf("partition %d contradicts itself:\n%s", n, strings.Join(f, "\n"))
		}
	}
	return states
}

// State returns the state of all partitions together.
func (r *Rig) State() State {
	r.Helper()
	return Merged(r.States())
}

// MustChangeNothing fails the case if act changes anything in the store.
func (r *Rig) MustChangeNothing(act func()) {
	r.Helper()
	before := r.State().String()
	act()
	require.Equal(r, before, r.State().String())
}

// Join reports an instance with these permits as alive.
func (r *Rig) Join(name string, permits int) {
	r.Helper()
	require.NoError(r, r.Queue.Join(r.Ctx, name, dispatcher.Instance{Permits: permits, Version: "1.0", StartedAt: r.Now}))
	r.Beat(name)
}

// Beat sends a heartbeat for each instance.
func (r *Rig) Beat(instances ...string) {
	r.Helper()
	for _, name := range instances {
		_, _, err := r.Queue.Beat(r.Ctx, name, 1)
		require.NoError(r, err)
	}
}

// NewMessage returns a message of the cases. The same id has the same content.
func NewMessage(id string) *dispatcher.Message {
	return &dispatcher.Message{
		ID: id, Topic: "payment.paid", Tenant: "t1", URL: "https://example.com/" + id,
		Body: []byte(`{"id":"` + id + `"}`), ContentType: "application/json",
	}
}

// Entry returns a message to some lanes, accepted now. change may set more of
// it.
func (r *Rig) Entry(id string, lanes []dispatcher.Lane, change ...func(m *dispatcher.Message)) dispatcher.Entry {
	m := NewMessage(id)
	m.CreatedAt = r.Now
	for _, c := range change {
		c(m)
	}
	return dispatcher.Entry{Message: m, Digest: m.Digest(), Lanes: lanes}
}

// To returns a list of lanes.
func To(lanes ...dispatcher.Lane) []dispatcher.Lane { return lanes }

// Delay sets a delay of a message.
func Delay(d time.Duration) func(*dispatcher.Message) {
	return func(m *dispatcher.Message) { m.Delay = d }
}

// Expires sets a message's expiry.
func Expires(t time.Time) func(*dispatcher.Message) {
	return func(m *dispatcher.Message) { m.ExpiresAt = t }
}

// Body sets a message's body.
func Body(text string) func(*dispatcher.Message) {
	return func(m *dispatcher.Message) { m.Body = []byte(text) }
}

// Named returns the delivery of a message to a lane.
func Named(lane dispatcher.Lane, message string) dispatcher.DeliveryID {
	return dispatcher.DeliveryID{Lane: lane, Message: message}
}

// Schedule publishes entries without a direct lease.
func (r *Rig) Schedule(batch ...dispatcher.Entry) []dispatcher.ScheduleResult {
	r.Helper()
	return r.ScheduleFor(One, 0, 0, batch...)
}

// ScheduleFor publishes entries for an instance that may lease some directly.
func (r *Rig) ScheduleFor(by string, free, lease int, batch ...dispatcher.Entry) []dispatcher.ScheduleResult {
	r.Helper()
	got, hints, err := r.Queue.Schedule(r.Ctx, by, free, lease, batch)
	require.NoError(r, err)
	require.Len(r, got, len(batch))
	r.MustBeCurrent(hints)
	return got
}

// Publish publishes messages to one lane, each due at once.
func (r *Rig) Publish(lane dispatcher.Lane, ids ...string) {
	r.Helper()
	batch := make([]dispatcher.Entry, len(ids))
	for i, id := range ids {
		batch[i] = r.Entry(id, To(lane))
	}
	for i, s := range r.Schedule(batch...) {
		require.Equal(r, dispatcher.Accepted, s.Result, ids[i])
	}
}

// Move makes due deliveries ready and returns the hint of the only partition.
func (r *Rig) Move() Hint {
	r.Helper()
	ended, hints, err := r.Queue.Move(r.Ctx, One, r.All())
	require.NoError(r, err)
	require.Empty(r, ended, "no lease ends by itself")
	r.MustBeCurrent(hints)
	require.NotEmpty(r, hints)
	return hints[0]
}

// Claim claims up to wanted deliveries for an instance with half of its permits
// free. With these no lane is too heavy, unless a case tests that.
func (r *Rig) Claim(by string, wanted int) []dispatcher.Claimed {
	r.Helper()
	return r.ClaimWith(by, wanted, r.Setup.Permits/2)
}

// ClaimWith claims for an instance with this number of free permits.
func (r *Rig) ClaimWith(by string, wanted, free int) []dispatcher.Claimed {
	r.Helper()
	got, hints, err := r.Queue.Claim(r.Ctx, by, r.All(), wanted, free)
	require.NoError(r, err)
	require.LessOrEqual(r, len(got), wanted)
	r.MustBeCurrent(hints)
	return got
}

// MustClaim claims exactly these deliveries, in this order.
func (r *Rig) MustClaim(by string, want ...dispatcher.DeliveryID) []dispatcher.Claimed {
	r.Helper()
	got := r.Claim(by, max(1, len(want)))
	require.Equal(r, want, ClaimedIDs(got))
	return got
}

// MustClaimNothing fails the case if anything can be claimed.
func (r *Rig) MustClaimNothing(by string) {
	r.Helper()
	require.Empty(r, ClaimedIDs(r.Claim(by, 64)))
}

// ClaimedIDs returns the deliveries of claims.
func ClaimedIDs(claimed []dispatcher.Claimed) []dispatcher.DeliveryID {
	ids := make([]dispatcher.DeliveryID, len(claimed))
	for i, c := range claimed {
		ids[i] = c.ID
	}
	return ids
}

// Leases returns the deliveries that are leased by an instance.
func (r *Rig) Leases(by string) []dispatcher.DeliveryID {
	r.Helper()
	leases, err := r.Queue.Leases(r.Ctx, by)
	require.NoError(r, err)
	return LeasedIDs(leases)
}

// LeasedIDs returns the deliveries of leases.
func LeasedIDs(leases []dispatcher.Lease) []dispatcher.DeliveryID {
	ids := make([]dispatcher.DeliveryID, len(leases))
	for i, l := range leases {
		ids[i] = l.ID
	}
	return ids
}

// Settle settles outcomes and returns the result of each.
func (r *Rig) Settle(by string, batch ...dispatcher.Settlement) []dispatcher.SettleResult {
	r.Helper()
	got, hints, err := r.Queue.Settle(r.Ctx, by, batch)
	require.NoError(r, err)
	require.Len(r, got, len(batch))
	r.MustBeCurrent(hints)
	return got
}

// MustSettle settles one outcome, which must be accepted.
func (r *Rig) MustSettle(by string, s dispatcher.Settlement) {
	r.Helper()
	require.Equal(r, []dispatcher.SettleResult{dispatcher.SettledOK}, r.Settle(by, s))
}

// MustBeCurrent checks the hints of any call.
func (r *Rig) MustBeCurrent(hints []Hint) {
	r.Helper()
	for _, h := range hints {
		require.Less(r, h.Partition, r.Setup.Partitions)
		require.WithinDuration(r, r.Now, h.Now, time.Millisecond, "the hint's time is the store's")
		require.GreaterOrEqual(r, h.Weight, -1)
		r.Hints[h.Partition] = h
		r.Died = append(r.Died, h.Dead...)
	}
}

// Inspect reads one delivery.
func (r *Rig) Inspect(id dispatcher.DeliveryID) dispatcher.Delivery {
	r.Helper()
	rec, err := r.Queue.Read(r.Ctx, id.Message)
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

// MustStand fails the case unless a delivery has a status.
func (r *Rig) MustStand(id dispatcher.DeliveryID, want dispatcher.Status) dispatcher.Delivery {
	r.Helper()
	d := r.Inspect(id)
	require.Equal(r, want, d.Status, "%s", id)
	return d
}

// ChangeFunc is Cancel or Retry.
type ChangeFunc func(ctx context.Context, by string, ids []dispatcher.DeliveryID) ([]dispatcher.Change, []Hint, error)

// Change calls f and checks its hints.
func (r *Rig) Change(f ChangeFunc, ids ...dispatcher.DeliveryID) []dispatcher.Change {
	r.Helper()
	got, hints, err := f(r.Ctx, One, ids)
	require.NoError(r, err)
	require.Len(r, got, len(ids))
	r.MustBeCurrent(hints)
	for i, c := range got {
		require.Equal(r, ids[i], c.ID)
	}
	return got
}

// Cancel reports whether each was changed. None may fail.
func (r *Rig) Cancel(ids ...dispatcher.DeliveryID) []bool {
	r.Helper()
	return r.changed(r.Change(r.Queue.Cancel, ids...))
}

// Resend is Retry that also sends delivered ones again.
func (r *Rig) Resend(ctx context.Context, by string, ids []dispatcher.DeliveryID) ([]dispatcher.Change, []Hint, error) {
	return r.Queue.Retry(ctx, by, ids, true)
}

// Spare is Retry that leaves delivered ones.
func (r *Rig) Spare(ctx context.Context, by string, ids []dispatcher.DeliveryID) ([]dispatcher.Change, []Hint, error) {
	return r.Queue.Retry(ctx, by, ids, false)
}

// Retry reports whether each was changed. None may fail.
func (r *Rig) Retry(ids ...dispatcher.DeliveryID) []bool {
	r.Helper()
	return r.changed(r.Change(r.Resend, ids...))
}

func (r *Rig) changed(changes []dispatcher.Change) []bool {
	r.Helper()
	changed := make([]bool, len(changes))
	for i, c := range changes {
		require.NoError(r, c.Err, "%s", c.ID)
		changed[i] = c.Changed
	}
	return changed
}

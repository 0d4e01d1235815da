package model

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// The steps of takers: take, give up, make longer. A lease ends by itself in a
// move.

// longestTaken is the longest time until the end of a lease. A lease with a
// later end was taken by another clock.
const longestTaken = time.Hour + time.Minute

// lastLeaseKept is the time for which an owner's last lease proves that a
// delivery was the owner's.
const lastLeaseKept = 24 * time.Hour

// doTake takes for an instance or for a caller. It also tries lanes that are
// claimed from.
func (m *model) doTake() {
	m.Helper()
	lanes := []dispatcher.Lane{"q_q", redisqtest.EpTwo, "a", redisqtest.EpOne}[:pick(m.rng, 1, 2, 2, 4)]
	m.rng.Shuffle(len(lanes), func(i, j int) { lanes[i], lanes[j] = lanes[j], lanes[i] })
	t := dispatcher.Take{Lanes: lanes, Most: m.rng.IntN(7), Bytes: pick(m.rng, 1<<20, 1<<20, 1), Suspects: m.rng.IntN(2)}
	if m.rng.IntN(3) > 0 {
		t.For = pick(m.rng, dispatcher.ShortLease, 30*time.Second, dispatcher.LongLease)
		t.Token, t.Owner = fmt.Sprintf("t%d", len(m.trail)), pick(m.rng, "o1", "o2")
	}
	m.takeAs(m.someInstance(), t)
}

// takeAs takes, and checks that the store leased only deliveries that may be
// taken.
func (m *model) takeAs(by string, t dispatcher.Take) []dispatcher.Claimed {
	m.Helper()
	before := m.State()
	for _, lane := range modelLanes {
		m.adoptOrder(lane, before.Ready[lane])
	}
	m.released = map[dispatcher.DeliveryID]bool{}
	until := m.from() + t.For.Milliseconds()
	got, err := m.callTake(by, t)
	m.mayTake(by, t.Lanes, err)
	m.logf("take by %s %+v: %v", by, t, redisqtest.ClaimedIDs(got.Claimed))
	after, sum, most := m.State(), 0, 0
	for _, lane := range modelLanes {
		list, n, free := m.ready[lane], 0, m.takeable(lane)
		for n < len(list) && !slices.Contains(after.Ready[lane], list[n]) {
			n++
		}
		asked := slices.Contains(t.Lanes, lane) && m.came(lane) && !m.isFenced(by, m.Partition(lane))
		require.True(m, n == 0 || asked && n <= free, "%d were taken from lane %s, which allows %d", n, lane, free)
		if asked {
			most += free
		}
		sum += n
		to := redisqtest.Found{Place: redisqtest.PlaceLeased, At: m.ms(), Holder: by}
		if t.For > 0 {
			to = redisqtest.Found{Place: redisqtest.PlaceTaken, At: m.ms(), Holder: t.Owner}
		}
		m.ready[lane] = slices.Clone(list[n:])
		m.spend(lane, n)
		if from := redisqtest.CountedFrom(m.view(lane).Tat, m.Now.UnixMicro()); asked && t.Bytes == 1 && free > n && after.Lanes[lane].Tat == from {
			m.lane(lane).tat = from // the store took tokens for some, and gave them back because the result was full
		}
		late := m.postponed(list[:n], after)
		require.True(m, late.many == 0 || t.For == 0, "%d had to wait, though the leases end by themselves", late.many)
		m.refund(lane, late.many+m.take(to, lane, late.rest, m.takenOf(got.Claimed, lane)))
		for _, id := range list[:n] {
			d := m.deliveries[id]
			if d.last = (redisqtest.Taken{}); t.For > 0 && d.Place == redisqtest.PlaceTaken {
				d.last = redisqtest.Taken{Since: m.ms(), Token: t.Token, Owner: t.Owner, Attempt: d.progress.Attempts + 1}
				d.taken = d.last
				d.taken.Until = until
			}
		}
	}
	require.LessOrEqual(m, sum, t.Most)
	require.True(m, t.For > 0 || m.suspectsOf(got.Claimed) <= t.Suspects, "more suspects than one at a time")
	if m.Setup.Partitions == 1 && t.Bytes > 1 {
		require.Equal(m, min(t.Most, most), sum, "the store left deliveries that it could have given")
	}
	m.checkMore(t, got, after, err)
	if t.For > 0 {
		for _, c := range got.Claimed {
			require.Equal(m, until, got.Until.UnixMilli(), "%s", c.ID)
			m.leases = append(m.leases, dispatcher.TakenLease{ID: c.ID, Token: t.Token, Owner: t.Owner})
		}
		m.leases = m.leases[max(0, len(m.leases)-40):]
	}
	return got.Claimed
}

func (m *model) callTake(by string, t dispatcher.Take) (dispatcher.Taken, error) {
	m.Helper()
	m.calls("take")
	got, hints, err := m.Queue.Take(m.Ctx, by, t)
	m.MustBeCurrent(hints)
	return got, err
}

// mayTake checks the error of a take.
func (m *model) mayTake(by string, lanes []dispatcher.Lane, err error) {
	m.Helper()
	fenced := slices.ContainsFunc(lanes, func(lane dispatcher.Lane) bool { return m.isFenced(by, m.Partition(lane)) })
	if !fenced || !errors.Is(err, dispatcher.ErrFenced) {
		m.went(err)
	}
}

// takenOf returns the deliveries of one lane.
func (m *model) takenOf(got []dispatcher.Claimed, lane dispatcher.Lane) (of []dispatcher.Claimed) {
	for _, c := range got {
		if c.ID.Lane == lane {
			of = append(of, c)
		}
	}
	return of
}

// takeable returns the number of deliveries of a lane that may be taken now.
func (m *model) takeable(lane dispatcher.Lane) int {
	l := m.view(lane)
	if !l.Limits.Pull || m.allPaused[m.Partition(lane)] || l.Limits.Mode != dispatcher.LaneNormal || l.Until > m.ms() {
		return 0
	}
	return max(0, min(l.Slots(m.Setup)-l.InFlight, l.Tokens(m.Now.UnixMicro()), len(m.ready[lane])))
}

// checkMore checks that a take returns each lane from which the taker may
// continue to take.
func (m *model) checkMore(t dispatcher.Take, got dispatcher.Taken, after redisqtest.State, err error) {
	m.Helper()
	for _, lane := range got.More {
		require.Contains(m, t.Lanes, lane)
	}
	if err != nil || m.Setup.Partitions > 1 {
		return
	}
	for _, lane := range t.Lanes {
		more := after.Lanes[lane].Takeable && !m.allPaused[m.Partition(lane)]
		require.Equal(m, more, slices.Contains(got.More, lane), "lane %s", lane)
	}
}

// someLeases returns leases of takers, right or not.
func (m *model) someLeases() (some []dispatcher.TakenLease) {
	if len(m.leases) == 0 {
		return nil
	}
	for range 1 + m.rng.IntN(4) {
		l := pick(m.rng, m.leases...)
		switch m.rng.IntN(12) {
		case 9:
			l.Token = "t0" // no lease has it
		case 10:
			l.Owner = pick(m.rng, "o1", "o2")
		case 11:
			l.Token = ""
		case 8:
			l.NotReceived = true
		}
		some = append(some, l)
	}
	return some
}

func (m *model) doAdopt() {
	m.Helper()
	if leases := m.someLeases(); len(leases) > 0 {
		m.adoptAs(m.someInstance(), leases)
	}
}

func (m *model) adoptAs(by string, leases []dispatcher.TakenLease) {
	m.Helper()
	m.logf("adopt by %s %+v", by, leases)
	m.calls("adopt")
	got, hints := m.Queue.Adopt(m.Ctx, by, leases)
	m.MustBeCurrent(hints)
	require.Len(m, got, len(leases))
	for i, l := range leases {
		switch fenced := m.isFenced(by, m.Partition(l.ID.Lane)); {
		case !m.came(l.ID.Lane):
			require.Error(m, got[i].Err, "%s", l.ID)
		case fenced && m.trouble.cut == nil:
			require.ErrorIs(m, got[i].Err, dispatcher.ErrFenced, "%s", l.ID)
		case !fenced:
			want := m.leaseFault(l)
			m.checkLease(l, got[i], want)
			if want == nil {
				require.True(m, m.trouble.cut != nil || got[i].Claimed != nil && got[i].Taken.UnixMilli() == m.deliveries[l.ID].At, "%s", l.ID)
				if l.NotReceived {
					m.deliveries[l.ID].last = redisqtest.Taken{}
				}
				m.adopted(by, l.ID, got[i].Claimed)
			}
		}
	}
}

func (m *model) doExtend() {
	m.Helper()
	leases, lasts := m.someLeases(), pick(m.rng, dispatcher.ShortLease, 1500*time.Microsecond, dispatcher.LongLease)
	if len(leases) == 0 {
		return
	}
	m.logf("extend by %s %+v", lasts, leases)
	until := m.from() + ceilMillis(time.UnixMilli(0).Add(lasts))
	got, hints := m.Queue.Extend(m.Ctx, m.someInstance(), leases, lasts)
	m.MustBeCurrent(hints)
	require.Len(m, got, len(leases))
	for i, l := range leases {
		if !m.came(l.ID.Lane) {
			require.Error(m, got[i].Err, "%s", l.ID)
			continue
		}
		want := m.leaseFault(l)
		m.checkLease(l, got[i], want)
		if want == nil {
			require.True(m, got[i].Err != nil || got[i].Until.UnixMilli() == until, "%s", l.ID)
			m.deliveries[l.ID].taken.Until = until
		}
	}
}

// leaseFault returns the reason why a lease can't be given up or made longer,
// or nil.
func (m *model) leaseFault(l dispatcher.TakenLease) error {
	d := m.deliveries[l.ID]
	switch {
	case d == nil || d.last.Token == "" || l.Token != "" && d.last.Token != l.Token:
		return dispatcher.ErrNotTaken
	case d.last.Owner != l.Owner:
		return dispatcher.ErrNotYours
	case d.Place != redisqtest.PlaceTaken:
		return dispatcher.ErrNotTaken
	}
	return nil
}

// lastAttempt returns the number of the attempt by the owner's last lease, if
// no token was given.
func (m *model) lastAttempt(l dispatcher.TakenLease) int {
	d := m.deliveries[l.ID]
	if d == nil || l.Token != "" || d.last.Owner != l.Owner || d.last.Since < m.ms()-lastLeaseKept.Milliseconds() {
		return 0
	}
	return d.last.Attempt
}

func (m *model) checkLease(l dispatcher.TakenLease, got dispatcher.Adopted, want error) {
	m.Helper()
	if m.trouble.cut != nil && errors.Is(got.Err, dispatcher.ErrUnavailable) {
		return
	}
	if want == nil {
		require.NoError(m, got.Err, "%s", l.ID)
		return
	}
	require.ErrorIs(m, got.Err, want, "%s", l.ID)
	if errors.Is(want, dispatcher.ErrNotTaken) {
		require.Equal(m, m.lastAttempt(l), got.Attempt, "%s", l.ID)
	}
}

// adopted moves a taken delivery to an instance. The instance knows it unless
// the reply was lost.
func (m *model) adopted(by string, id dispatcher.DeliveryID, c *dispatcher.Claimed) {
	m.Helper()
	d := m.deliveries[id]
	since := d.At
	m.moveTo(id, redisqtest.Found{Place: redisqtest.PlaceLeased, At: m.ms(), Holder: by})
	if c == nil {
		require.NotNil(m, m.trouble.cut, "%s was not answered", id)
		return
	}
	require.Equal(m, id, c.ID)
	require.Equal(m, since, c.Due.UnixMilli(), "%s", id)
	require.Equal(m, m.ms(), c.Leased.UnixMilli(), "%s", id)
	if d.mark != redisqtest.MarkDelivered { // otherwise it is over, and a first success keeps no number
		require.Equal(m, d.progress.Attempts+1, c.Attempt, "%s", id)
		require.Equal(m, d.progress.Climbed()+1, c.Rung, "%s", id)
	}
	require.Equal(m, d.progress.Asked != 0, c.Asked, "%s", id)
	m.claims = append(m.claims, holding{by: by, claimed: *c})
}

func find(list []dispatcher.Claimed, id dispatcher.DeliveryID) *dispatcher.Claimed {
	if at := slices.IndexFunc(list, func(c dispatcher.Claimed) bool { return c.ID == id }); at >= 0 {
		return &list[at]
	}
	return nil
}

// leasesOver returns the deliveries whose leases the next move ends. A move
// reads only a partition whose timer is due. It also ends the leases in it that
// have an end by another clock.
func (m *model) leasesOver() (over []dispatcher.DeliveryID) {
	far := m.ms() + longestTaken.Milliseconds()
	states := m.States()
	for _, id := range redisqtest.SortedIDs(m.deliveries) {
		due := timerIsDue(states[m.Partition(id.Lane)].Timer, m.ms())
		d := m.deliveries[id]
		if due && d.Place == redisqtest.PlaceTaken && (d.taken.Until <= m.ms() || d.taken.Until > far) {
			over = append(over, id)
		}
	}
	return over
}

// timerIsDue reports whether a mover ends leases of a partition. A time that no lease reaches was set
// by another clock.
func timerIsDue(timer, now int64) bool {
	return timer != 0 && (timer <= now || timer > now+longestTaken.Milliseconds())
}

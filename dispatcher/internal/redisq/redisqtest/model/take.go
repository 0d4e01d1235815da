package model

import (
	"cmp"
	"errors"
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// The steps that take work out: move and claim.

// free returns the number of permits that an instance has left, by the leases
// in the store.
func (m *model) free(by string) int {
	free := m.Setup.Permits
	for _, d := range m.deliveries {
		if d.Place == redisqtest.PlaceLeased && d.Holder == by {
			free--
		}
	}
	return max(0, free)
}

func (m *model) doMove() {
	m.Helper()
	by := m.someInstance()
	m.logf("move by %s", by)
	m.moveAll(by)
}

func (m *model) moveAll(by string) {
	m.Helper()
	endings, over, expiring, barred := m.endings(), m.leasesOver(), m.expiring(), map[int]bool{}
	for n, s := range m.States() { // a partition whose timer is due does nothing for a caller that it fences
		if timerIsDue(s.Timer, m.ms()) && m.isFenced(by, n) {
			barred[n] = true
		}
	}
	m.calls("move")
	got, hints, err := m.Queue.Move(m.Ctx, by, m.All())
	switch {
	case len(barred) == 0:
		m.went(err)
	case m.trouble.cut == nil:
		require.ErrorIs(m, err, dispatcher.ErrFenced)
	case !errors.Is(err, dispatcher.ErrFenced):
		m.went(err)
	}
	m.MustBeCurrent(hints)
	came := func(lane dispatcher.Lane) bool { return m.came(lane) && !barred[m.Partition(lane)] }
	for _, id := range over {
		if came(id.Lane) {
			m.adopted(by, id, find(got, id))
		}
	}
	require.True(m, m.trouble.cut != nil || len(barred) > 0 || len(got) == len(over), "%v ended, should have %v", redisqtest.ClaimedIDs(got), over)
	var due []dispatcher.DeliveryID
	for _, id := range redisqtest.SortedIDs(m.deliveries) {
		if d := m.deliveries[id]; d.Place == redisqtest.PlaceDue && d.At <= m.ms() && came(id.Lane) {
			due = append(due, id)
		}
	}
	slices.SortStableFunc(due, func(a, b dispatcher.DeliveryID) int {
		return cmp.Compare(m.deliveries[a].At, m.deliveries[b].At)
	})
	for _, id := range due {
		if m.ended(id.Lane) {
			m.giveUp(id)
		} else {
			m.toReady(id, m.deliveries[id].At, false)
		}
	}
	for _, lane := range endings {
		if !came(lane) {
			continue
		}
		list := m.ready[lane]
		m.ready[lane] = nil
		for _, id := range list {
			if m.deliveries[id].mark != redisqtest.MarkNone {
				m.carryOut(id)
			} else {
				m.giveUp(id)
			}
		}
	}
	for _, id := range expiring {
		if came(id.Lane) {
			m.expire(id)
		}
	}
	m.checkParked(came)
}

// checkParked checks the lanes that a move reached. None may be parked beyond
// its time, because no other call would place it.
func (m *model) checkParked(came func(dispatcher.Lane) bool) {
	m.Helper()
	state := m.State()
	for _, lane := range modelLanes {
		if at := state.Lanes[lane].Parked; came(lane) {
			require.True(m, at == 0 || at > m.ms(), "lane %s is parked since %d", lane, at)
		}
	}
}

// endings returns the lanes whose ready list the next move ends. Their time has
// come, unless the clock was set back after they were disabled or deleted.
func (m *model) endings() []dispatcher.Lane {
	m.Helper()
	var lanes []dispatcher.Lane
	for _, lane := range modelLanes {
		if m.ended(lane) && len(m.ready[lane]) > 0 {
			lanes = append(lanes, lane)
		}
	}
	if len(lanes) == 0 {
		return nil
	}
	state := m.State()
	return slices.DeleteFunc(lanes, func(lane dispatcher.Lane) bool { return state.Lanes[lane].Parked > m.ms() })
}

func (m *model) doClaim() {
	m.Helper()
	by := m.someInstance()
	free := m.free(by)
	if m.Setup.Permits > 12 && m.rng.IntN(2) == 0 {
		free = m.rng.IntN(12)
	}
	if free == 0 {
		return
	}
	m.claimAs(by, m.All(), 1+m.rng.IntN(min(free, 8)), free)
}

// claimAs claims, and checks that the store leased the right deliveries.
func (m *model) claimAs(by string, partitions []int, wanted, free int) []dispatcher.Claimed {
	m.Helper()
	before := m.State()
	for _, lane := range modelLanes {
		m.adoptOrder(lane, before.Ready[lane])
	}
	m.released = map[dispatcher.DeliveryID]bool{}
	suspects := m.suspectLanes(by)
	m.calls("claim")
	got, hints, err := m.Queue.ClaimBeside(m.Ctx, by, partitions, dispatcher.Claim{
		Wanted: wanted, Free: free, Suspects: suspects, Later: m.rng.IntN(2) == 0,
	})
	m.mayClaim(by, got, err)
	m.MustBeCurrent(hints)
	m.logf("claim by %s, %d wanted, %d free, beside suspects of %v, from %v: %v", by, wanted, free, suspects, partitions, redisqtest.ClaimedIDs(got))
	after := m.State()
	taken := map[dispatcher.Lane]int{}
	byLane := map[dispatcher.Lane][]dispatcher.Claimed{}
	for _, c := range got {
		byLane[c.ID.Lane] = append(byLane[c.ID.Lane], c)
	}
	ended, sum := 0, 0
	turns := m.turnsOf(before)
	for _, lane := range modelLanes {
		list := m.ready[lane]
		n := 0
		for n < len(list) && !slices.Contains(after.Ready[lane], list[n]) {
			n++
		}
		require.False(m, n > 0 && !before.Lanes[lane].Listed, "lane %s was taken from out of turn", lane)
		require.False(m, n > 0 && m.isFenced(by, m.Partition(lane)), "%s is fenced", by)
		taken[lane] = n
		sum += n
		m.ready[lane] = slices.Clone(list[n:])
		m.spend(lane, n)
		m.mustSpare(list[:n], after, suspects)
		late := m.postponed(list[:n], after)
		unused := m.take(redisqtest.Found{Place: redisqtest.PlaceLeased, At: m.ms(), Holder: by}, lane, late.rest, byLane[lane])
		m.refund(lane, unused+late.many)
		ended += unused
	}
	require.LessOrEqual(m, sum, wanted)
	m.checkTurns(turns, taken, free)
	if m.trouble.cut == nil {
		reported := 0
		for _, h := range hints {
			reported += h.Ended
			require.Zero(m, h.Lost)
		}
		require.Equal(m, ended, reported, "the hints report the number of ended deliveries instead")
		if len(partitions) == 1 && sum < wanted && m.fencedIn(by) == 0 {
			m.checkRest(turns, taken, partitions[0], free-sum)
		}
	}
	return got
}

// mayClaim checks the result of an instance that is fenced in some partitions.
// The instance that declared it dead may not have reached all of them.
func (m *model) mayClaim(by string, got []dispatcher.Claimed, err error) {
	m.Helper()
	switch fenced := m.fencedIn(by); {
	case m.trouble.cut != nil && errors.Is(err, dispatcher.ErrUnavailable):
	case fenced == m.Setup.Partitions:
		require.ErrorIs(m, err, dispatcher.ErrFenced)
		require.Empty(m, got)
	case fenced > 0 && errors.Is(err, dispatcher.ErrFenced):
	default:
		require.NoError(m, err)
	}
}

// take applies a claim to one lane. A leased delivery is in the place of to
// after that. Marked and expired deliveries have ended. The others must be the
// returned deliveries, in this order.
func (m *model) take(to redisqtest.Found, lane dispatcher.Lane, taken []dispatcher.DeliveryID, got []dispatcher.Claimed) (ended int) {
	m.Helper()
	for _, id := range taken {
		d, msg := m.deliveries[id], m.messages[recordKey{m.Partition(lane), id.Message}]
		switch {
		case d.mark != redisqtest.MarkNone:
			m.carryOut(id)
			ended++
			continue
		case m.expired(msg):
			m.die(id, dispatcher.ReasonExpired)
			ended++
			continue
		}
		at := d.At
		m.moveTo(id, to)
		alone := d.progress.Deaths >= aloneDeaths
		if d.progress.Deaths = min(d.progress.Deaths, suspectDeaths); alone {
			d.progress.Deaths = aloneDeaths
		}
		if m.trouble.cut != nil && len(got) == 0 {
			continue // the instance does not know of its lease
		}
		require.NotEmpty(m, got, "%s was taken, but not answered", id)
		c := got[0]
		got = got[1:]
		require.Equal(m, id, c.ID)
		require.Equal(m, at, c.Due.UnixMilli(), "%s", id)
		require.LessOrEqual(m, at, m.Latest.UnixMilli(), "%s is early", id)
		require.Equal(m, d.progress.Attempts+1, c.Attempt, "%s", id)
		require.Equal(m, d.progress.Climbed()+1, c.Rung, "%s", id)
		require.Equal(m, d.progress.Asked != 0, c.Asked, "%s", id)
		require.Equal(m, []bool{d.progress.Deaths >= suspectDeaths, alone}, []bool{c.Suspect, c.Alone}, "%s", id)
		require.Equal(m, d.progress.WaitsOn(), max(c.WaitsOn.UnixMilli(), 0), "%s", id)
		require.Equal(m, string(msg.message.Body), string(m.BodyOf(c)), "%s", id)
		require.Equal(m, m.limits[lane].Version, c.Version, "%s", id)
		require.Equal(m, !m.pulled(lane) && m.lane(lane).slow == redisqtest.NewLane, c.NewLane, "%s", id)
		require.Equal(m, d.Found.At, c.Leased.UnixMilli(), "%s", id)
		if to.Place == redisqtest.PlaceLeased {
			m.claims = append(m.claims, holding{by: to.Holder, claimed: c})
		}
	}
	require.Empty(m, got, "more was answered than taken from lane %s", lane)
	return ended
}

// turn is the state of a lane before a claim.
type turn struct {
	lane     dispatcher.Lane
	weight   int
	at       int64
	inFlight int
	window   int
	ready    int
	tokens   int
	until    int64
}

// turnsOf returns the lanes that may be claimed from, in the order of their
// turns.
func (m *model) turnsOf(s redisqtest.State) []turn {
	var turns []turn
	for _, lane := range modelLanes {
		if l := s.Lanes[lane].ByClock(m.Now.UnixMicro()); l.Listed {
			turns = append(turns, turn{
				lane: lane, weight: l.Weight, at: l.Turn, inFlight: l.InFlight,
				window: l.Slots(m.Setup), ready: len(s.Ready[lane]), tokens: l.Tokens(m.Now.UnixMicro()), until: l.Until,
			})
		}
	}
	slices.SortFunc(turns, func(a, b turn) int {
		return cmp.Or(cmp.Compare(a.weight, b.weight), cmp.Compare(a.at, b.at), cmp.Compare(a.lane, b.lane))
	})
	return turns
}

// shut reports whether a lane was listed before its time, because the clock was
// set back. The next call that changes the lane corrects it.
func (m *model) shut(t turn) bool { return t.tokens == 0 || t.until > m.ms() }

// checkTurns checks that lanes were taken from in their order, and only while
// they were light enough. With several partitions the store may divide wanted
// and free in any way. So the order is checked within each partition.
func (m *model) checkTurns(turns []turn, taken map[dispatcher.Lane]int, free int) {
	m.Helper()
	passed := map[int]dispatcher.Lane{}
	for _, t := range turns {
		n := m.Partition(t.lane)
		if taken[t.lane] == 0 {
			if !m.shut(t) {
				passed[n] = t.lane
			}
			continue
		}
		require.False(m, m.shut(t), "lane %s was taken from before its time", t.lane)
		require.Empty(m, passed[n], "lane %s was taken from, and not %s before it", t.lane, passed[n])
		require.LessOrEqual(m, t.inFlight+taken[t.lane], max(t.window, t.inFlight), "lane %s is past its window", t.lane)
		require.LessOrEqual(m, taken[t.lane], t.tokens, "lane %s is past its rate", t.lane)
		require.True(m, m.Setup.Light(m.Setup.Weight(m.lanes[t.lane].slow, t.inFlight), free), "lane %s was too heavy", t.lane)
		require.False(m, m.allPaused[n], "all lanes are paused")
	}
}

// checkRest checks that the claim left nothing that it could have taken. If a
// lane is shut, it checks nothing, because that lane may have come first.
func (m *model) checkRest(turns []turn, taken map[dispatcher.Lane]int, partition, free int) {
	m.Helper()
	if m.allPaused[partition] || slices.ContainsFunc(turns, m.shut) {
		return
	}
	for _, t := range turns {
		n, inFlight := taken[t.lane], t.inFlight+taken[t.lane]
		if m.Partition(t.lane) != partition || n >= t.ready || n >= t.tokens || inFlight >= t.window {
			continue
		}
		require.False(m, m.Setup.Light(m.Setup.Weight(m.lanes[t.lane].slow, inFlight), free), "lane %s could have been taken from", t.lane)
	}
}

package model

import (
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// Suspects: deliveries that were leased to two instances that died.

// Values of Progress.Deaths, in this order: a suspect; its attempt has begun;
// it began beside others; it has to be attempted alone; and it began alone.
const (
	suspectDeaths    = 2
	begunDeaths      = 3
	besideDeaths     = 4
	aloneDeaths      = 5
	begunAloneDeaths = 6
)

// doSuspect makes two instances die after a claim.
func (m *model) doSuspect() {
	m.Helper()
	for range 2 {
		by := pick(m.rng, m.instances...)
		if free := m.free(by); free > 0 {
			m.claimAs(by, m.All(), min(free, 4), free)
		}
		m.declareDead(by)
		m.compare()
	}
}

// doBegin begins an attempt, mostly at a suspect.
func (m *model) doBegin() {
	m.Helper()
	claims := slices.Clone(m.claims)
	if some := slices.DeleteFunc(slices.Clone(claims), func(h holding) bool { return !h.claimed.Suspect }); len(some) > 0 {
		claims = some
	}
	if len(claims) == 0 {
		return
	}
	h := pick(m.rng, claims...)
	d := m.deliveries[h.claimed.ID]
	mine := d != nil && d.Place == redisqtest.PlaceLeased && d.Holder == h.by && d.At == h.claimed.Leased.UnixMilli()
	_, known := m.State().Progress[h.claimed.ID]
	m.logf("begin %s by %s, whose it is: %v", h.claimed.ID, h.by, mine)
	beside := m.rng.IntN(2) == 1
	ok, err := m.Queue.Begin(m.Ctx, h.by, dispatcher.Lease{ID: h.claimed.ID, At: h.claimed.Leased}, beside)
	if m.went(err) {
		require.Equal(m, mine, ok)
	}
	switch {
	case !mine || !known || !m.came(h.claimed.ID.Lane):
	case beside:
		d.progress.Deaths = besideDeaths
	case d.progress.Deaths == aloneDeaths:
		d.progress.Deaths = begunAloneDeaths
	default:
		d.progress.Deaths = begunDeaths
	}
}

// suspectLanes returns the lanes that an instance reports as having a suspect.
// Now and then there are more.
func (m *model) suspectLanes(by string) (lanes []dispatcher.Lane) {
	for _, lane := range modelLanes {
		has := slices.ContainsFunc(m.claims, func(h holding) bool { return h.by == by && h.claimed.Suspect && h.claimed.ID.Lane == lane })
		if has || m.rng.IntN(8) == 7 {
			lanes = append(lanes, lane)
		}
	}
	return lanes
}

func (m *model) suspectsOf(claimed []dispatcher.Claimed) (n int) {
	for _, c := range claimed {
		if c.Suspect {
			n++
		}
	}
	return n
}

// postponement is the effect of a call on some deliveries.
type postponement struct {
	many int                     // these had to wait
	rest []dispatcher.DeliveryID // the others, in their order
}

// postponed makes the same suspects wait as the store did. It checks the length
// of the wait.
func (m *model) postponed(taken []dispatcher.DeliveryID, after redisqtest.State) (p postponement) {
	m.Helper()
	for _, id := range taken {
		d, at := m.deliveries[id], after.At(id)
		if at.Place != redisqtest.PlaceDue {
			p.rest = append(p.rest, id)
			continue
		}
		require.GreaterOrEqual(m, d.progress.Deaths, suspectDeaths, "%s is no suspect and had to wait", id)
		require.Equal(m, redisqtest.MarkNone, d.mark, "%s", id)
		require.True(m, at.At >= m.ms()+500 && at.At < m.ms()+3500, "%s has to wait until %d", id, at.At)
		m.moveTo(id, at)
		p.many++
	}
	return p
}

// mustSpare checks that a claim leased no more than one suspect of a lane, and
// none beside another one.
func (m *model) mustSpare(taken []dispatcher.DeliveryID, after redisqtest.State, has []dispatcher.Lane) {
	m.Helper()
	leased, waits := 0, 0
	for _, id := range taken {
		switch place := after.At(id).Place; {
		case m.deliveries[id].progress.Deaths < suspectDeaths:
		case place == redisqtest.PlaceLeased:
			leased++
		case place == redisqtest.PlaceDue:
			waits++
		}
	}
	if len(taken) == 0 {
		return
	}
	most := 1
	if slices.Contains(has, taken[0].Lane) {
		most = 0
	}
	require.LessOrEqual(m, leased, most, "suspects of lane %s", taken[0].Lane)
	require.True(m, waits == 0 || leased == most, "a suspect of lane %s has to wait without need", taken[0].Lane)
}

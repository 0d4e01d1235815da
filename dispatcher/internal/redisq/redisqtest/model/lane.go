package model

import (
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// The model's view of lanes: limits, rates, breakers.

// view returns the state of a lane as a store keeps it.
func (m *model) view(name dispatcher.Lane) redisqtest.LaneState {
	v := redisqtest.LaneState{Slow: redisqtest.NewLane, InFlight: m.inFlight(name), Waiting: m.waitingIn(name)}
	v.Limits, v.Limited = m.limits[name]
	v.Limits.Pull = m.pulled(name)
	if l := m.lanes[name]; l != nil {
		v.Known, v.Window, v.Slow = true, l.window, l.slow
		v.Fails, v.Opened, v.Until, v.Tat = l.fails, l.opened, l.until, l.tat
		v.Failing, v.Egress, v.EgressWait = l.failing, l.egress, l.egressWait
	}
	v.Leads = m.leads[name]
	return v.ByClock(m.Now.UnixMicro())
}

// pulled reports whether the deliveries of a lane are taken, and not called.
func (m *model) pulled(name dispatcher.Lane) bool { return name.IsQueue() || m.limits[name].Pull }

// ended reports whether the deliveries of a lane are to end.
func (m *model) ended(name dispatcher.Lane) bool {
	return redisqtest.LaneState{Limits: m.limits[name]}.Ended()
}

func (m *model) waitingIn(lane dispatcher.Lane) int {
	n := 0
	for id, d := range m.deliveries {
		if id.Lane == lane && d.Place.Waits() && !d.Place.Flies() {
			n++
		}
	}
	return n
}

// spend takes tokens of a lane's rate.
func (m *model) spend(name dispatcher.Lane, n int) {
	m.Helper()
	if n == 0 {
		return
	}
	require.LessOrEqual(m, n, m.view(name).Tokens(m.Now.UnixMicro()), "lane %s is past its rate", name)
	if interval := m.limits[name].Interval.Microseconds(); interval > 0 {
		l := m.lane(name)
		l.tat = redisqtest.CountedFrom(m.view(name).Tat, m.Now.UnixMicro()) + int64(n)*interval
	}
}

// refund returns the tokens of attempts that were not made.
func (m *model) refund(name dispatcher.Lane, n int) {
	if l := m.lanes[name]; l != nil {
		l.tat = max(0, m.view(name).Tat-int64(n)*m.limits[name].Interval.Microseconds())
	}
}

// longestOpen is the longest time that a breaker stays open.
const longestOpen = 10 * time.Minute

// judge applies an attempt to its lane's breaker. It also applies the pause
// that the receiver asked for.
func (m *model) judge(s dispatcher.Settlement, l *modelLane) {
	now, lane := m.ms(), s.ID.Lane
	l.until = m.view(lane).Until
	if l.egress > 0 && s.Verdict != dispatcher.Back && s.Attempt.Number > 0 && s.Stalled != dispatcher.WhyEgress {
		l.egress, l.egressWait = 0, 0
		if l.opened == 0 {
			l.until = 0
		}
	}
	m.judgeFailing(s, l)
	switch {
	case s.Blame:
		l.fails++
		if m.Setup.Breaker > 0 && l.fails >= m.Setup.Breaker && (l.opened == 0 || l.until <= now) {
			wait := m.Setup.BreakerWait
			for range l.opened {
				wait = min(2*wait, longestOpen)
			}
			l.opened++
			l.until = max(l.until, now+wait.Milliseconds())
			m.opened[lane] = l.until
		}
	case s.Verdict == dispatcher.Delivered:
		l.fails = 0
		if l.opened > 0 {
			l.opened, l.until = 0, 0
			m.closed[lane] = true
		}
	}
	if wait := ceilMillis(time.UnixMilli(0).Add(s.Pause)); s.Pause > 0 && now+wait > l.until {
		l.until = now + wait
		if s.Stalled != dispatcher.WhyEgress {
			l.egress, l.egressWait = 0, 0
			return
		}
		if l.egress == 0 {
			l.egress = now
		}
		l.egressWait = wait
	}
}

// doEndWaits ends the wait of some lanes for our own network, or all waits of some.
func (m *model) doEndWaits() {
	m.Helper()
	lanes := slices.DeleteFunc(slices.Clone(modelLanes), func(dispatcher.Lane) bool { return m.rng.IntN(2) == 0 })
	all := m.rng.IntN(4) == 0
	m.logf("end the waits of %v, all %v", lanes, all)
	end := m.Queue.EndWaits
	if all {
		end = m.Queue.TryNow
	}
	hints, err := end(m.Ctx, m.instances[0], lanes)
	m.MustBeCurrent(hints)
	m.went(err)
	for _, name := range lanes {
		l := m.lanes[name]
		if l == nil || !m.came(name) {
			continue
		}
		if v := m.view(name); (all || l.egress > 0 && l.opened == 0) && v.Until > m.ms() {
			l.until = m.ms()
		}
	}
}

// judgeFailing records the time since which a lane fails, and the time of its
// last attempt.
func (m *model) judgeFailing(s dispatcher.Settlement, l *modelLane) {
	now := m.ms()
	since := min(l.failing, now) // the clock may have stepped back; only an attempt corrects that
	switch failed := s.Blame || s.Fails; {
	case s.Verdict == dispatcher.Delivered:
		l.failing, l.attempted = 0, 0
	case failed && (l.failing == 0 || s.DisableAfter > 0 && now-max(l.attempted, l.until) >= s.DisableAfter.Milliseconds()):
		l.failing, l.attempted = now, now
	case failed, l.failing > 0 && s.Attempt.Number > 0 && s.Verdict != dispatcher.Back:
		l.failing, l.attempted = since, now
	}
}

// doLimit changes the limits of a lane, or pauses or resumes all lanes.
func (m *model) doLimit() {
	m.Helper()
	clear := m.rng.IntN(3) == 0
	if len(m.allPaused) > 0 && m.rng.IntN(2) == 0 || m.rng.IntN(12) == 11 { // paused sometimes, and only briefly
		hold := dispatcher.LanePaused
		if len(m.allPaused) > 0 {
			hold = dispatcher.LaneNormal
		}
		m.limitLane(dispatcher.AllLanes, dispatcher.LaneLimits{Mode: hold}, clear)
		return
	}
	lane := pick(m.rng, modelLanes...)
	if lane.IsEndpoint() && m.Versions[lane] > 0 && m.rng.IntN(6) == 0 {
		stale := dispatcher.LaneLimits{
			Version: 1 + int64(m.rng.IntN(int(m.Versions[lane]))), Pull: lane == redisqtest.EpTwo && m.pull,
			Mode: pick(m.rng, dispatcher.LanePaused, dispatcher.LanePaused, dispatcher.LaneDeleted),
		}
		m.limitLane(lane, stale, clear)
		return
	}
	m.limitLane(lane, m.newLimits(lane, func(l *dispatcher.LaneLimits) {
		if m.rng.IntN(2) == 0 {
			return // half of the lanes have no limits, so that there is always work
		}
		l.MaxInFlight = pick(m.rng, 0, 0, 1, 3, 200)
		l.Interval = pick(m.rng, 0, 0, 1500*time.Microsecond, time.Second, time.Minute)
		l.Ordered = m.rng.IntN(4) == 0
		l.Mode = pick(m.rng, dispatcher.LaneNormal, dispatcher.LaneNormal, dispatcher.LaneNormal, dispatcher.LanePaused)
		if lane.IsEndpoint() && m.rng.IntN(3) == 0 {
			l.Mode = pick(m.rng, dispatcher.LaneDisabled, dispatcher.LaneDeleted)
		}
	}), clear)
}

// newLimits returns the next limits of a lane. They never change whether its
// deliveries are taken.
func (m *model) newLimits(lane dispatcher.Lane, changes ...redisqtest.LimitsChange) dispatcher.LaneLimits {
	l := m.NewLimits(lane, changes...)
	l.Pull = lane == redisqtest.EpTwo && m.pull
	return l
}

// limitLane changes the limits of a lane in the store and in the model.
func (m *model) limitLane(lane dispatcher.Lane, l dispatcher.LaneLimits, clear bool) {
	m.Helper()
	m.logf("limit %s: %+v, clear %v", lane, l, clear)
	before := dispatcher.LaneCount{InFlight: m.inFlight(lane), Waiting: m.waitingIn(lane)}
	if failing := m.lanes[lane]; clear && failing != nil && failing.failing > 0 {
		before.Failed = time.UnixMilli(failing.failing).UTC()
	}
	got, hints, err := m.Queue.Limit(m.Ctx, m.instances[0], lane, l, clear)
	m.MustBeCurrent(hints)
	answered := m.went(err)
	if lane == dispatcher.AllLanes {
		for _, n := range m.cameTo() {
			m.allPaused[n] = true
			if l.Mode == dispatcher.LaneNormal {
				delete(m.allPaused, n)
			}
		}
		return
	}
	if !m.came(lane) {
		return
	}
	require.True(m, !answered || got == before, "%+v was in it, should be %+v", got, before)
	if l := m.lanes[lane]; l != nil { // earlier tokens count by the old rate
		v := m.view(lane)
		l.until, l.tat = v.Until, v.Tat
	}
	old, has := m.limits[lane]
	switch {
	case has && l.Version > 0 && old.Version >= l.Version && (l.Mode != dispatcher.LaneDeleted || old.Mode == dispatcher.LaneDeleted):
	case l == dispatcher.LaneLimits{} && !lane.IsEndpoint():
		delete(m.limits, lane)
	default:
		if l.Version > 0 {
			l.Version = max(l.Version, old.Version)
		}
		m.limits[lane] = l
	}
	m.opened, m.closed = map[dispatcher.Lane]int64{}, map[dispatcher.Lane]bool{}
	if state := m.lanes[lane]; state != nil && clear {
		if state.opened > 0 {
			m.closed[lane] = true
		}
		state.fails, state.opened, state.until, state.tat, state.failing, state.attempted = 0, 0, 0, 0, 0, 0
	}
	if answered {
		m.compareBreakers(hints)
	}
	if m.noted[lane] == 0 && m.State().Lanes[lane].Noted != 0 {
		m.noted[lane] = m.ms() // the store may or may not note empty limits
	}
}

// doSweep ends the waiting deliveries of a disabled or deleted lane, and no
// others.
func (m *model) doSweep() {
	m.Helper()
	m.sweepLane(pick(m.rng, modelLanes...))
}

func (m *model) sweepLane(lane dispatcher.Lane) {
	m.Helper()
	m.logf("sweep %s", lane)
	if !m.ended(lane) {
		sweep := func() {
			ended, _, hints, err := m.Queue.Sweep(m.Ctx, m.instances[0], lane, "")
			m.MustBeCurrent(hints)
			m.went(err)
			require.Zero(m, ended)
		}
		kept := m.State().Lanes[lane]
		if now := kept.ByClock(m.Now.UnixMicro()); now.Until != kept.Until || now.Tat != kept.Tat {
			sweep() // the clock went back in the meantime: any script corrects the lane's times
			return
		}
		m.MustChangeNothing(sweep)
		return
	}
	m.calls("sweep")
	_, _, hints, err := m.Queue.Sweep(m.Ctx, m.instances[0], lane, "") // one page has them all
	m.MustBeCurrent(hints)
	m.went(err)
	if !m.came(lane) {
		return
	}
	state := m.State()
	for _, id := range redisqtest.SortedIDs(m.deliveries) {
		d := m.deliveries[id]
		behind := d.Place == redisqtest.PlaceBehind && !state.At(id).Place.Waits() // a sweep may leave deliveries in line
		if id.Lane == lane && (d.Place == redisqtest.PlaceDue || behind) {
			m.giveUp(id)
		}
	}
}

func (m *model) compareLanes(s redisqtest.State, f *redisqtest.Faults) {
	for _, name := range modelLanes {
		got, want := s.Lanes[name], m.view(name)
		if limits, has := m.limits[name]; got.Limited != has || got.Limits != limits {
			f.Add("lane %s has the limits %+v, should have %+v", name, got.Limits, limits)
		}
		if got.Noted != m.noted[name] {
			f.Add("lane %s is noted at %d, should be at %d", name, got.Noted, m.noted[name])
		}
		if got.Known != want.Known {
			f.Add("lane %s has a state %v, should be %v", name, got.Known, want.Known)
			continue
		}
		limit := m.Setup.Limit(want.Limits)
		if min(got.Window, limit) == min(want.Window, limit) && want.Known {
			m.lanes[name].window = got.Window // a window above the limit is cut at the next write
			want.Window = got.Window
		}
		got = got.ByClock(m.Now.UnixMicro())
		if l := m.lanes[name]; l != nil && got.Until == want.Until && got.Tat == want.Tat {
			l.until, l.tat = s.Lanes[name].Until, s.Lanes[name].Tat // a call that changes the lane corrects a time of another clock
		}
		got.Limits.Pull = got.Limits.Pull || name.IsQueue()
		want.Keys, want.Noted = got.Keys, got.Noted
		if name.IsQueue() && want.Leads != "" && strings.HasPrefix(got.Leads, "https://example.com") {
			want.Leads = got.Leads // the first message sets it, of any tenant
		}
		want.Listed, want.Weight, want.Turn, want.Takeable, want.Parked = got.Listed, got.Weight, got.Turn, got.Takeable, got.Parked
		if !want.Known {
			want.Slow = got.Slow
		}
		if got != want {
			f.Add("lane %s is %+v, should be %+v", name, got, want)
		}
	}
}

// waitsFor returns the reason why a delivery waits: the first one that applies.
func (m *model) waitsFor(id dispatcher.DeliveryID) string {
	d, l := m.deliveries[id], m.view(id.Lane)
	switch status := m.status(id); {
	case status.Ended() || d.Place.Flies():
		return ""
	case d.Place == redisqtest.PlaceBehind:
		return "order"
	case m.allPaused[m.Partition(id.Lane)] || l.Limits.Mode == dispatcher.LanePaused:
		return "paused"
	case d.Place == redisqtest.PlaceDue && d.unopened > 0:
		return "sealed"
	case status == dispatcher.StatusScheduled:
		return "due"
	case status == dispatcher.StatusRetrying:
		return "rung"
	case id.Lane.IsEndpoint() && !l.Limited:
		return "missing"
	case l.Opened > 0:
		return "breaker"
	case l.Egress > 0:
		return "egress"
	case l.Until > m.ms():
		return "retry_after"
	case l.Tokens(m.Now.UnixMicro()) == 0:
		return "rate"
	case l.InFlight >= l.Slots(m.Setup):
		return "limit"
	case l.Limits.Pull:
		return "consumer"
	}
	return "permits"
}

// waitsBehind returns the number of deliveries before one that waits for its
// turn.
func (m *model) waitsBehind(id dispatcher.DeliveryID) (before int) {
	if m.waitsFor(id) != "order" {
		return 0
	}
	for set, line := range m.sets {
		if set.Lane == id.Lane {
			before = max(before, slices.IndexFunc(line, func(q redisqtest.Queued) bool { return q.ID == id }))
		}
	}
	return before
}

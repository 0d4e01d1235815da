package admin_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// clockDamages are those that a clock of Redis leaves that was ahead for a while.
var clockDamages = []damage{
	{"a failed one waits by a clock that was a day ahead", func(p *ward) {
		p.ahead(25*time.Hour, func() { p.fail("late") })
	}, "ahead", map[string]redisqtest.Place{"c:late": redisqtest.PlaceDue}},
	{"a failed one waits by a clock that was two minutes ahead", func(p *ward) {
		p.ahead(2*time.Minute, func() { p.fail("late") })
	}, "ahead", map[string]redisqtest.Place{"c:late": redisqtest.PlaceDue}},
}

// ahead has the clock of Redis jump for a while.
func (p *ward) ahead(by time.Duration, meanwhile func()) {
	p.Helper()
	right := p.now
	p.now = right.Add(by)
	p.SetClock(p.now)
	meanwhile()
	p.now = right
	p.SetClock(p.now)
}

// fail has a new delivery wait a minute for its next attempt.
func (p *ward) fail(id string) {
	p.Helper()
	p.schedule(id, to("c"), 1)
	p.settle("c", id, dispatcher.Retry)
}

func TestDoctorLetsAFailedOneWaitAsLongAsItsAttemptAsked(t *testing.T) {
	t.Parallel()
	p := newTestWard(t, redistest.Start(t))
	p.alive("one")
	p.ahead(25*time.Hour, func() { p.fail("late") })
	id := dispatcher.DeliveryID{Lane: "c", Message: "late"}
	_, found := p.examine(false)
	require.Len(t, found, 1)
	require.Equal(t, "c:late", found[0].Subject)
	require.Contains(t, found[0].What, "for 90060 s more, in place of 60")
	require.Equal(t, p.now.Add(25*time.Hour+time.Minute).UnixMilli(), p.States()[0].At(id).At)
	p.examine(true)
	require.Equal(t, p.now.Add(time.Minute).UnixMilli(), p.States()[0].At(id).At)
}

func TestDoctorCountsWhatWasAcceptedByAClockThatWasAheadAndLeavesIt(t *testing.T) {
	t.Parallel()
	p := newTestWard(t, redistest.Start(t))
	p.alive("one")
	p.ahead(25*time.Hour, func() {
		p.put("delayed", to("a"), later)
		p.put("other", to("a"), later)
		p.put("at_once", to("a"))
	})
	before := p.snapshot()
	out, found := p.examine(true)
	require.Equal(t, []string{"ahead_accepted"}, kinds(found))
	require.Contains(t, found[0].What, "2 deliveries, a:")
	require.Zero(t, out.Fixed, "a deliver_at and a delay are stored alike, so nobody knows")
	require.Equal(t, before, p.snapshot())
}

func TestDoctorTakesALongWaitForNoFault(t *testing.T) {
	t.Parallel()
	p := newTestWard(t, redistest.Start(t))
	p.alive("one")
	p.put("next_year", to("a"), func(m *dispatcher.Message) { m.DeliverAt = p.now.Add(360 * 24 * time.Hour) })
	p.ahead(59*time.Second, func() { p.fail("other_node") })
	p.schedule("long_rung", to("b"), 1)
	p.settleAfter("b", "long_rung", dispatcher.Retry, 30*24*time.Hour)
	_, found := p.examine(false)
	require.Empty(t, found)
}

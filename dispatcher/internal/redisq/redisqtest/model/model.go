// Package model does random things to a store. After every step it compares the
// whole store with a model of the rules in memory.
package model

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// model is the expected content of the store and the view of its callers.
type model struct {
	*redisqtest.Rig
	*kept
	rng   *dice
	trail []string // the steps until now, one line each

	released  map[dispatcher.DeliveryID]bool // by the current call
	instances []string                       // alive
	gone      []string                       // declared dead, dead or not
	goneAt    map[string]time.Time           // the time of that
	beats     map[string]int64               // the last number of each
	claims    []holding                      // claims in the view of an instance, right or wrong
	past      []holding                      // claims that were settled
	leases    []dispatcher.TakenLease        // the last leases of takers
	refused   []dispatcher.Entry             // entries that were not returned as accepted

	walks []*listWalk

	pull bool // takers take from EpTwo

	moves  *Moves // the allowed ones; nil: any
	script string // of the current call

	trouble trouble                                         // of the current call
	unheard bool                                            // a reply was lost after the last comparison
	mourned map[dispatcher.DeliveryID]dispatcher.DeadReason // the deaths after the last comparison
	copy    *snapshot

	// The breakers that the current settlement opened, with their time, and
	// closed.
	opened map[dispatcher.Lane]int64
	closed map[dispatcher.Lane]bool
}

// kept is the expected content of the store.
type kept struct {
	messages   map[recordKey]*modelMessage
	deliveries map[dispatcher.DeliveryID]*modelDelivery // deliveries in a place
	ready      map[dispatcher.Lane][]dispatcher.DeliveryID
	sets       map[redisqtest.Set][]redisqtest.Queued
	lanes      map[dispatcher.Lane]*modelLane
	limits     map[dispatcher.Lane]dispatcher.LaneLimits // of lanes with limits
	leads      map[dispatcher.Lane]string                // origin and tenant, as long as the lane is noted
	noted      map[dispatcher.Lane]int64                 // ms: the time when a lane was noted for trimming
	allPaused  map[int]bool                              // partitions whose lanes are all paused
	fences     map[fence]int64                           // ms: the time of each
	known      map[string]int64                          // instances that beat and are not forgotten: their last number
	ends       map[string]int64                          // as State has them
}

// fence is an instance that is declared dead in a partition.
type fence struct {
	partition int
	name      string
}

// recordKey is one partition's share of a message.
type recordKey struct {
	partition int
	id        string
}

type modelMessage struct {
	message *dispatcher.Message
	digest  dispatcher.Digest
	due     int64 // ms: of the first attempt of a lane that a repeat adds
	whole   bool
	lanes   map[dispatcher.Lane]bool // the lanes it names; true: its delivery there is not gone
}

type modelDelivery struct {
	redisqtest.Found
	mark     redisqtest.Mark
	progress redisqtest.Progress
	history  int
	unopened int64            // ms: since when it waits for a key; 0: it does not
	taken    redisqtest.Taken // while it is taken
	last     redisqtest.Taken // while it is not taken, until it ends
}

type modelLane struct {
	window, slow  int
	fails, opened int
	until         int64 // ms
	tat           int64 // µs

	failing, attempted int64 // ms: start of the failure, and the last attempt while the lane failed
	egress, egressWait int64 // ms: start of the wait for our own network, and the last wait
}

// holding is a claim that its instance has not settled, in the instance's own
// view.
type holding struct {
	by      string
	claimed dispatcher.Claimed
}

// modelLanes are few, so that much happens to each.
var modelLanes = []dispatcher.Lane{"a", "b", redisqtest.EpOne, redisqtest.EpTwo, "q_q"}

func newModel(t testing.TB, open redisqtest.FixtureFunc, rng *dice) *model {
	t.Helper()
	s := redisqtest.Setup{
		Partitions: 1, LaneMaxInFlight: pick(rng, 128, 3, 1), Permits: pick(rng, 1024, 1024, 6, 1),
		Breaker: pick(rng, 0, 1, 2, 3), BreakerWait: 30 * time.Second, MaxWaiting: pick(rng, 0, 0, 0, 0, 3, 8),
	}
	if rng.IntN(4) == 3 {
		s.Partitions = 4
	}
	s.Total = pick(rng, 0, 0, 3000, 100)
	m := &model{
		Rig: redisqtest.NewRig(t, open, s), rng: rng,
		kept: &kept{
			messages:   map[recordKey]*modelMessage{},
			deliveries: map[dispatcher.DeliveryID]*modelDelivery{},
			ready:      map[dispatcher.Lane][]dispatcher.DeliveryID{},
			sets:       map[redisqtest.Set][]redisqtest.Queued{},
			lanes:      map[dispatcher.Lane]*modelLane{},
			limits:     map[dispatcher.Lane]dispatcher.LaneLimits{},
			noted:      map[dispatcher.Lane]int64{},
			leads:      map[dispatcher.Lane]string{},
			allPaused:  map[int]bool{},
			fences:     map[fence]int64{},
			known:      map[string]int64{redisqtest.One: 1, redisqtest.Two: 1},
			ends:       map[string]int64{},
		},
		instances: []string{redisqtest.One, redisqtest.Two}, goneAt: map[string]time.Time{},
		beats: map[string]int64{redisqtest.One: 1, redisqtest.Two: 1}, mourned: map[dispatcher.DeliveryID]dispatcher.DeadReason{},
	}
	if s.Total > 0 {
		m.known[redisqtest.Others], m.beats[redisqtest.Others] = 1, 1
	}
	m.Good, m.pull = m.Queue, rng.IntN(2) == 1
	m.logf("%+v, %s is taken from: %v", s, redisqtest.EpTwo, m.pull)
	if rng.IntN(3) < 2 { // otherwise they have no limits, and nothing is claimed from them
		m.limitLane(redisqtest.EpOne, m.newLimits(redisqtest.EpOne), false)
		m.limitLane(redisqtest.EpTwo, m.newLimits(redisqtest.EpTwo), false)
	}
	return m
}

// step does one random thing, sometimes with a fault, and then compares.
func (m *model) step() {
	m.Helper()
	acts := []struct {
		weight  int
		act     func()
		exposed bool // faults may happen during it
	}{
		{12, m.doPass, false}, {3, m.doSetBack, false}, {20, m.doSchedule, true}, {12, m.doMove, true}, {26, m.doClaim, true},
		{26, m.doSettle, true}, {4, m.doSettleAgain, true}, {7, m.doCancel, true}, {7, m.doRetry, true}, {4, m.doReschedule, true}, {5, m.doReap, true}, {2, m.doSuspect, false}, {6, m.doBegin, true},
		{4, m.doTrim, true}, {8, m.doLimit, true}, {1, m.doSweep, true}, {2, m.doBeat, true},
		{6, m.doReconcile, true}, {14, m.doTake, true}, {8, m.doAdopt, true}, {3, m.doExtend, true}, {4, m.compareList, false}, {8, m.doWalk, false}, {3, m.doEndWaits, true}, {3, m.doCopy, false}, {3, m.doRestore, false},
	}
	sum := 0
	for _, a := range acts {
		sum += a.weight
	}
	n := m.rng.IntN(sum)
	m.released = map[dispatcher.DeliveryID]bool{}
	for _, a := range acts {
		if n -= a.weight; n >= 0 {
			continue
		}
		if a.exposed {
			m.suffer(a.act)
		} else {
			a.act()
		}
		break
	}
	m.compare()
}

// drain lets every delivery end and be forgotten. Then nothing may be left.
func (m *model) drain() {
	m.Helper()
	m.limitLane(dispatcher.AllLanes, dispatcher.LaneLimits{}, false)
	for _, lane := range modelLanes {
		m.limitLane(lane, m.newLimits(lane), true)
	}
	m.buryInstances()
	for _, id := range redisqtest.SortedIDs(m.deliveries) {
		if d := m.deliveries[id]; d.Place == redisqtest.PlaceTaken {
			m.adoptAs(m.instances[0], []dispatcher.TakenLease{{ID: id, Owner: d.Holder}})
		}
	}
	for _, id := range redisqtest.SortedIDs(m.deliveries) {
		if d := m.deliveries[id]; d.Place == redisqtest.PlaceLeased {
			m.settleAs(d.Holder, []dispatcher.Settlement{redisqtest.Success(dispatcher.Claimed{ID: id, Attempt: d.progress.Attempts + 1})})
		}
	}
	for round := 0; m.waiting() > 0; round++ {
		m.claims = nil // all are settled: no suspect blocks its lane
		if round > 1000 {
			m.Fatalf("%d deliveries never end", m.waiting())
		}
		m.passBy(30 * 24 * time.Hour)
		by := m.instances[0]
		m.moveAll(by)
		for _, c := range m.takeAs(by, dispatcher.Take{Lanes: []dispatcher.Lane{redisqtest.EpTwo, "q_q"}, Most: 8, Bytes: 1 << 20, Suspects: 8}) {
			m.settleAs(by, []dispatcher.Settlement{redisqtest.Success(c)})
		}
		for _, n := range m.All() {
			for _, c := range m.claimAs(by, []int{n}, min(8, m.Setup.Permits), m.Setup.Permits) {
				m.settleAs(by, []dispatcher.Settlement{redisqtest.Success(c)})
			}
		}
	}
	m.compare()
	for _, lane := range modelLanes {
		if lane.IsEndpoint() {
			m.limitLane(lane, m.newLimits(lane, redisqtest.Mode(dispatcher.LaneDeleted)), false)
		}
	}
	m.passBy(m.Latest.Sub(m.Now) + 2*time.Hour)
	m.trimAs(redisqtest.KeepNothing, false)
	m.compare()
	m.leaveAll()
	state := m.State()
	// Fences are kept for a week, the stream stays for its readers, and the
	// counts of ends stay for ever.
	state.Fenced, state.Now, state.Reported = nil, 0, nil
	clear(state.Ends)
	if left, none := state.String(), redisqtest.NewState().String(); left != none {
		m.Fatalf("left over:\n%s", left)
	}
}

func (m *model) waiting() int {
	n := 0
	for _, d := range m.deliveries {
		if d.Place.Waits() {
			n++
		}
	}
	return n
}

// doPass sets the clock ahead, often by fractions of a ms.
func (m *model) doPass() {
	m.passBy(pick(m.rng,
		time.Duration(m.rng.IntN(1500))*time.Microsecond,
		time.Duration(m.rng.IntN(5000))*time.Millisecond,
		time.Minute, time.Hour, 25*time.Hour))
}

// doSetBack sets the clock back, as a takeover does by a node whose clock is
// behind. It prefers a time just before the end of a lane's wait.
func (m *model) doSetBack() {
	back := []time.Duration{time.Millisecond, 900 * time.Microsecond, 10 * time.Second, 2 * time.Hour}
	for _, lane := range modelLanes {
		if l := m.lanes[lane]; l != nil {
			for _, at := range []time.Time{time.UnixMilli(l.until), time.UnixMicro(l.tat)} {
				if ago := m.Now.Sub(at); ago >= 0 && ago < 2*time.Hour {
					back = append(back, ago+time.Millisecond)
				}
			}
		}
	}
	m.passBy(-pick(m.rng, back...))
	m.setBackWalks()
}

func (m *model) passBy(d time.Duration) {
	m.logf("pass %s", d)
	m.Pass(d)
}

// ms returns the time to which due times are compared: cut to whole ms.
func (m *model) ms() int64 { return m.Now.UnixMilli() }

// from returns the time from which waits are counted: rounded up to whole ms.
func (m *model) from() int64 { return ceilMillis(m.Now) }

func ceilMillis(t time.Time) int64 { return t.Add(time.Millisecond - 1).UnixMilli() }

// lane returns the state of a lane. It makes the state if there is none.
func (m *model) lane(name dispatcher.Lane) *modelLane {
	l := m.lanes[name]
	if l == nil {
		l = &modelLane{window: min(2, m.Setup.Limit(m.limits[name])), slow: redisqtest.NewLane}
		m.leads[name] = "https://example.com t1" // as redisqtest.NewMessage sets them
		m.lanes[name] = l
		m.noted[name] = m.ms()
	}
	return l
}

func (m *model) inFlight(lane dispatcher.Lane) int {
	n := 0
	for id, d := range m.deliveries {
		if id.Lane == lane && d.Place.Flies() {
			n++
		}
	}
	return n
}

// toReady puts a delivery at the head or the tail of its lane's ready list.
func (m *model) toReady(id dispatcher.DeliveryID, at int64, head bool) {
	m.moveTo(id, redisqtest.Found{Place: redisqtest.PlaceReady, At: at})
	if head {
		m.ready[id.Lane] = append([]dispatcher.DeliveryID{id}, m.ready[id.Lane]...)
	} else {
		m.ready[id.Lane] = append(m.ready[id.Lane], id)
	}
}

// someDeliveries returns distinct deliveries. Some of them never existed.
func (m *model) someDeliveries() []dispatcher.DeliveryID {
	all := redisqtest.SortedIDs(m.deliveries)
	var some []dispatcher.DeliveryID
	for range 1 + m.rng.IntN(4) {
		id := redisqtest.Named(pick(m.rng, modelLanes...), fmt.Sprintf("m%d", m.rng.IntN(m.Serial+2)))
		if len(all) > 0 && m.rng.IntN(8) > 0 {
			id = pick(m.rng, all...)
		}
		if !slices.Contains(some, id) {
			some = append(some, id)
		}
	}
	return some
}

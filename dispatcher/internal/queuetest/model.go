package queuetest

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// How much of the random test is run. The defaults are what a make test can
// wait for; a change of the scripts deserves thousands of seeds.
var (
	seeds = flag.Int("queuetest.seeds", 40, "random tests to run on each store")
	steps = flag.Int("queuetest.steps", 120, "operations in each of them")
	seed  = flag.Uint64("queuetest.seed", 0, "run only the random test with this seed")
)

// RunModel does random things to stores that open makes. After every step it
// reads all that the store keeps and compares it with a model of what the rules
// say, held in memory. Of the seeds each so-manyth is taken, so that a store
// which is slow to test has fewer of them.
func RunModel(t *testing.T, open OpenFunc, each uint64) {
	t.Helper()
	first, last := uint64(1), uint64(*seeds)
	if *seed != 0 {
		first, last = *seed, *seed
	}
	for n := first; n <= last; n += each {
		t.Run(fmt.Sprintf("seed %d", n), func(t *testing.T) {
			m := newModel(t, open, n)
			defer m.tellTrail(n)
			for n := range *steps {
				m.step()
				if n%20 == 19 {
					m.compareList()
				}
			}
			m.drain()
		})
	}
}

// model is what the store should hold.
type model struct {
	*rig
	rng   *rand.Rand
	trail []string // what was done, one line each

	messages   map[recordKey]*modelMessage
	deliveries map[dispatcher.DeliveryID]*modelDelivery // that are in a place
	ready      map[dispatcher.Lane][]dispatcher.DeliveryID
	sets       map[Set][]Queued
	released   map[dispatcher.DeliveryID]bool // by the call that is looked at
	lanes      map[dispatcher.Lane]*modelLane
	limits     map[dispatcher.Lane]dispatcher.LaneLimits // of lanes that have any
	noted      map[dispatcher.Lane]int64                 // ms: since when a lane is noted for trimming
	instances  []string                                  // alive
	fenced     []string                                  // declared dead within some days; a store may forget fences after a week
	fencedAt   map[string]time.Time
	held       []holding // what somebody believes to hold, rightly or not

	// Breakers that the settlement under way opened, until when, and closed.
	opened map[dispatcher.Lane]int64
	closed map[dispatcher.Lane]bool
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
	lanes   map[dispatcher.Lane]bool // named; true: not gone
}

type modelDelivery struct {
	Found
	mark     Mark
	progress Progress
	history  int
}

type modelLane struct {
	window, slow  int
	fails, opened int
	until         int64 // ms
	tat           int64 // µs
}

// holding is a claim that its instance has not settled yet, as it believes.
type holding struct {
	by      string
	claimed dispatcher.Claimed
}

// modelLanes are few, so that much happens to each.
var modelLanes = []dispatcher.Lane{"a", "b", epOne, epTwo}

func newModel(t *testing.T, open OpenFunc, seed uint64) *model {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 0))
	s := Setup{
		Partitions: 1, MaxWindow: pick(rng, 1, 3, 128), Permits: pick(rng, 1, 6, 1024, 1024),
		Breaker: pick(rng, 0, 1, 2, 3), BreakerWait: 30 * time.Second, MaxWaiting: pick(rng, 0, 0, 0, 0, 3, 8),
	}
	if rng.IntN(4) == 0 {
		s.Partitions = 4
	}
	m := &model{
		rig: newRig(t, open, s), rng: rng,
		messages:   map[recordKey]*modelMessage{},
		deliveries: map[dispatcher.DeliveryID]*modelDelivery{},
		ready:      map[dispatcher.Lane][]dispatcher.DeliveryID{},
		sets:       map[Set][]Queued{},
		lanes:      map[dispatcher.Lane]*modelLane{},
		limits:     map[dispatcher.Lane]dispatcher.LaneLimits{},
		noted:      map[dispatcher.Lane]int64{},
		instances:  []string{one, two}, fencedAt: map[string]time.Time{},
	}
	m.logf("%+v", s)
	if rng.IntN(3) > 0 { // else they are left alone until they get any
		m.limitLane(epOne, m.newLimits(epOne), false)
		m.limitLane(epTwo, m.newLimits(epTwo), false)
	}
	return m
}

// step does one thing and compares.
func (m *model) step() {
	m.Helper()
	acts := []struct {
		weight int
		act    func()
	}{
		{20, m.doSchedule}, {12, m.doMove}, {26, m.doClaim}, {26, m.doSettle},
		{7, m.doCancel}, {7, m.doRetry}, {3, m.doReap}, {2, m.doTrim}, {12, m.doPass},
		{8, m.doLimit}, {1, m.doSweep},
	}
	sum := 0
	for _, a := range acts {
		sum += a.weight
	}
	n := m.rng.IntN(sum)
	m.released = map[dispatcher.DeliveryID]bool{}
	for _, a := range acts {
		if n -= a.weight; n < 0 {
			a.act()
			break
		}
	}
	m.compare()
}

// drain lets everything end and be forgotten: then nothing may be left.
func (m *model) drain() {
	m.Helper()
	m.limitLane(dispatcher.AllLanes, dispatcher.LaneLimits{}, false)
	for _, lane := range modelLanes {
		m.limitLane(lane, m.newLimits(lane), true)
	}
	for _, id := range sortedIDs(m.deliveries) {
		if d := m.deliveries[id]; d.Place == PlaceLeased {
			m.settleAs(d.Holder, []dispatcher.Settlement{success(dispatcher.Claimed{ID: id, Attempt: d.progress.Attempts + 1})})
		}
	}
	for round := 0; m.waiting() > 0; round++ {
		if round > 1000 {
			m.Fatalf("%d deliveries never end", m.waiting())
		}
		m.passBy(30 * 24 * time.Hour)
		m.moveAll()
		by := m.instances[0]
		for _, n := range m.all() {
			for _, c := range m.claimAs(by, []int{n}, min(8, m.setup.Permits), m.setup.Permits) {
				m.settleAs(by, []dispatcher.Settlement{success(c)})
			}
		}
	}
	m.compare()
	for _, lane := range modelLanes {
		if lane.IsEndpoint() {
			m.limitLane(lane, m.newLimits(lane, held(dispatcher.HeldDeleted)), false)
		}
	}
	m.passBy(2 * time.Hour)
	m.trimAs(keepNothing)
	m.compare()
	state := m.State()
	state.Fenced, state.Now, state.Told = nil, 0, nil // a fence is kept for a week, and the stream for who reads it
	if left, none := state.String(), NewState().String(); left != none {
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

// doPass jumps the clock, often by fractions of a ms.
func (m *model) doPass() {
	m.passBy(pick(m.rng,
		time.Duration(m.rng.IntN(1500))*time.Microsecond,
		time.Duration(m.rng.IntN(5000))*time.Millisecond,
		time.Minute, time.Hour, 25*time.Hour))
}

func (m *model) passBy(d time.Duration) {
	m.logf("pass %s", d)
	m.pass(d)
	m.fenced = slices.DeleteFunc(m.fenced, func(name string) bool { return m.now.Sub(m.fencedAt[name]) > 6*24*time.Hour })
}

// ms is now as due times are compared with: cut to whole ms.
func (m *model) ms() int64 { return m.now.UnixMilli() }

// from is now as waits are counted from: rounded up to whole ms.
func (m *model) from() int64 { return ceilMillis(m.now) }

func ceilMillis(t time.Time) int64 { return t.Add(time.Millisecond - 1).UnixMilli() }

// lane is the state of a lane that something happens to, made if it has none.
func (m *model) lane(name dispatcher.Lane) *modelLane {
	l := m.lanes[name]
	if l == nil {
		l = &modelLane{window: min(2, m.setup.limit(m.limits[name])), slow: 4}
		m.lanes[name] = l
		m.noted[name] = m.ms()
	}
	return l
}

func (m *model) inFlight(lane dispatcher.Lane) int {
	n := 0
	for id, d := range m.deliveries {
		if id.Lane == lane && d.Place == PlaceLeased {
			n++
		}
	}
	return n
}

// light reports whether a lane may be given a permit of an instance with
// so many free.
func (m *model) light(weight, free int) bool {
	return free > 0 && (free == m.setup.Permits || weight < free)
}

// toReady puts a delivery at one end of its lane's list.
func (m *model) toReady(id dispatcher.DeliveryID, at int64, head bool) {
	m.deliveries[id].Found = Found{Place: PlaceReady, At: at}
	if head {
		m.ready[id.Lane] = append([]dispatcher.DeliveryID{id}, m.ready[id.Lane]...)
	} else {
		m.ready[id.Lane] = append(m.ready[id.Lane], id)
	}
}

// someInstance is mostly alive.
func (m *model) someInstance() string {
	if len(m.fenced) > 0 && m.rng.IntN(6) == 0 {
		return pick(m.rng, m.fenced...)
	}
	return pick(m.rng, m.instances...)
}

func (m *model) isFenced(by string) bool { return slices.Contains(m.fenced, by) }

// someDeliveries are distinct: of those that are, or that never were.
func (m *model) someDeliveries() []dispatcher.DeliveryID {
	all := sortedIDs(m.deliveries)
	var some []dispatcher.DeliveryID
	for range 1 + m.rng.IntN(4) {
		id := named(pick(m.rng, modelLanes...), fmt.Sprintf("m%d", m.rng.IntN(m.serial+2)))
		if len(all) > 0 && m.rng.IntN(8) > 0 {
			id = pick(m.rng, all...)
		}
		if !slices.Contains(some, id) {
			some = append(some, id)
		}
	}
	return some
}

func pick[T any](rng *rand.Rand, from ...T) T { return from[rng.IntN(len(from))] }

func (m *model) logf(format string, args ...any) {
	m.trail = append(m.trail, fmt.Sprintf(format, args...))
}

// tellTrail says how to get there again, and the last of what was done.
func (m *model) tellTrail(seed uint64) {
	if !m.Failed() {
		return
	}
	const shown = 40
	m.Logf("again with -queuetest.seed=%d -queuetest.steps=%d; %d things were done, at last:\n%s",
		seed, *steps, len(m.trail), strings.Join(m.trail[max(0, len(m.trail)-shown):], "\n"))
}

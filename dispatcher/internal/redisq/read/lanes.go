package read

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/input"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// Limits. One call reads lanesBatch lanes. The first call reads lanesLeast lanes of each
// partition, because with many partitions most lanes of a full page would be read for nothing.
const (
	lanesBatch = 256
	lanesLeast = 8
)

// laneList is the name of the list. The list has no filter.
var laneList = dispatcher.ListName("lanes", nil)

// lanePlace is the end of a page of lanes: a lane with its score. Paused lanes come before all
// others, and their score is the ms of their pause.
type lanePlace struct {
	Others bool // after the paused lanes
	Score  float64
	Lane   string // empty: at the start
}

// knownLane is a lane from the script.
type knownLane struct {
	state dispatcher.LaneState
	score float64 // ms: when its state was created or last read; 0: unknown
}

// LaneStates returns the states of lanes, in the requested order.
func (s *LaneReader) LaneStates(ctx context.Context, lanes []dispatcher.Lane) ([]dispatcher.LaneState, error) {
	states := make([]dispatcher.LaneState, len(lanes))
	all := -1        // index of AllLanes in the request
	var single []int // indices of the others
	for i, lane := range lanes {
		if states[i].Lane = lane; lane == dispatcher.AllLanes {
			all = i
		} else {
			single = append(single, i)
		}
	}
	var calls []conn.Call
	var shares [][]int
	if all >= 0 {
		calls, shares = s.conn.Everywhere(lanesArgs(0, lanePlace{})), make([][]int, s.conn.Partitions())
	}
	for _, share := range conn.Grouped(len(single), lanesBatch, func(k int) int { return s.conn.PartitionOf(lanes[single[k]]) }) {
		args := lanesArgs(0, lanePlace{})
		for j, k := range share.At {
			share.At[j] = single[k]
			args = append(args, string(lanes[single[k]]))
		}
		calls, shares = append(calls, conn.Call{Partition: share.Partition, Args: args}), append(shares, share.At)
	}
	for i, r := range s.conn.Send(ctx, conn.Batch{Script: lanesScript, Calls: calls}) {
		pause, _, found, err := readLanes(r, s.failingAfter)
		if err == nil && len(found) != len(shares[i]) {
			err = conn.ErrReply
		}
		if err != nil {
			return nil, fmt.Errorf("lanes: %w", err)
		}
		for k, at := range shares[i] {
			states[at] = found[k].state
		}
		if all >= 0 && pause != nil && (states[all].Since.IsZero() || pause.Since.Before(states[all].Since)) { // the partitions were changed one after another
			states[all] = allLanesPaused(pause)
		}
	}
	return states, nil
}

// Lanes returns a page of the known lanes.
func (s *LaneReader) Lanes(ctx context.Context, limit int, after string) (states []dispatcher.LaneState, next string, err error) {
	if err := s.conn.LostOf(nil); err != nil {
		return nil, "", fmt.Errorf("lanes: %w", err)
	}
	if states, next, err = s.LanesHere(ctx, limit, after); err == nil && len(states) == 0 {
		err = s.conn.IntactAll(ctx)
	}
	return states, next, err
}

// LanesHere is Lanes, but it ignores that the store lost other lanes.
func (s *LaneReader) LanesHere(ctx context.Context, limit int, after string) (states []dispatcher.LaneState, next string, err error) {
	limit = input.PageSize(limit, input.MaxPage)
	var at lanePlace
	if err := s.conn.Cursors().Open(ctx, laneList, after, &at); err != nil {
		return nil, "", err
	}
	if !at.Others {
		if states, next, err = s.pausedPage(ctx, limit, at); err != nil || next != "" {
			return states, next, err
		}
		at = lanePlace{Others: true}
	}
	m, found := s.mergeLanes(limit, at), []knownLane(nil)
	if len(states) > 0 && states[0].Lane == dispatcher.AllLanes {
		limit++ // it is returned in addition to the page
	}
	if len(states) == limit { // no partition reported whether there are more
		next, err = s.conn.Cursors().Seal(ctx, laneList, at)
		return states, next, err
	}
	for len(states)+len(found) < limit {
		if err := m.fill(ctx); err != nil {
			return nil, "", err
		}
		l, ok := m.next()
		if !ok {
			break
		}
		if l.state.Limits.Mode != dispatcher.LanePaused || l.state.Since.IsZero() { // a lane that is paused now was returned before
			found = append(found, l)
		}
	}
	for _, l := range found {
		states = append(states, l.state)
	}
	if len(found) > 0 && m.left() {
		next, err = s.conn.Cursors().Seal(ctx, laneList, lanesBehind(found[len(found)-1]))
	}
	return states, next, err
}

// laneMerge merges the lanes of all partitions, the newest first.
type laneMerge struct {
	s       *LaneReader
	sources []laneSource
}

// laneSource has the lanes of one partition.
type laneSource struct {
	at    lanePlace   // after the last lane that was read
	chunk int         // number of lanes in the next call
	page  []knownLane // lanes that were read but not taken yet
	more  bool        // the partition has more lanes
}

func (s *LaneReader) mergeLanes(limit int, at lanePlace) *laneMerge {
	m := &laneMerge{s: s, sources: make([]laneSource, s.conn.Partitions())}
	for n := range m.sources {
		m.sources[n] = laneSource{at: at, chunk: min(limit, max(limit/s.conn.Partitions(), lanesLeast), lanesBatch), more: true}
	}
	return m
}

// fill reads more lanes of each partition whose lanes are all taken. It reads twice as many as
// before, because most of the page may be in that partition.
func (m *laneMerge) fill(ctx context.Context) error {
	var calls []conn.Call
	for n := range m.sources {
		if l := &m.sources[n]; len(l.page) == 0 && l.more {
			calls = append(calls, conn.Call{Partition: n, Args: lanesArgs(l.chunk, l.at)})
			l.chunk = min(2*l.chunk, lanesBatch)
		}
	}
	for _, r := range m.s.conn.Send(ctx, conn.Batch{Script: lanesScript, Calls: calls}) {
		_, more, page, err := readLanes(r, m.s.failingAfter)
		if err != nil {
			return fmt.Errorf("lanes: %w", err)
		}
		l := &m.sources[r.Partition]
		l.page, l.more = page, more
		if len(page) > 0 {
			l.at = lanesBehind(page[len(page)-1])
		}
	}
	return nil
}

// next takes the newest lane of all partitions.
func (m *laneMerge) next() (first knownLane, ok bool) {
	var from *laneSource
	for n := range m.sources {
		if l := &m.sources[n]; len(l.page) > 0 && (from == nil || compareLanes(l.page[0], from.page[0]) < 0) {
			from = l
		}
	}
	if from == nil {
		return first, false
	}
	first, from.page = from.page[0], from.page[1:]
	return first, true
}

// left reports whether there are more lanes.
func (m *laneMerge) left() bool {
	return slices.ContainsFunc(m.sources, func(l laneSource) bool { return l.more || len(l.page) > 0 })
}

func compareLanes(a, b knownLane) int {
	return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(b.state.Lane, a.state.Lane))
}

// lanesBehind returns the place after a lane.
func lanesBehind(l knownLane) lanePlace {
	return lanePlace{Others: true, Score: l.score, Lane: string(l.state.Lane)}
}

// lanesArgs returns the first arguments of the script. They name no instance, because the
// query includes no delivery.
func lanesArgs(most int, at lanePlace) []any {
	after := ""
	if at.Lane != "" {
		after = conn.ScoreText(at.Score)
	}
	return []any{0, most, after, at.Lane}
}

// allLanesPaused returns the state of AllLanes while all lanes are paused.
func allLanesPaused(h *dispatcher.StoppedLane) dispatcher.LaneState {
	return dispatcher.LaneState{
		Lane: dispatcher.AllLanes, Known: true, Since: h.Since, By: h.By,
		Limits: dispatcher.LaneLimits{Mode: dispatcher.LanePaused},
	}
}

// readLanes parses the reply of one partition. pause is the pause of all its lanes; nil: they
// are not paused.
func readLanes(r conn.Call, failingAfter time.Duration) (pause *dispatcher.StoppedLane, more bool, lanes []knownLane, err error) {
	now := time.Time{}
	if h, ok := r.Hint(); ok {
		now = h.Now
		if all, ok := conn.ParseStopped(r.Text()); ok {
			pause = &all
		}
		more = r.Number() == 1
	}
	for r.More() {
		l := readLane(&r.Reply, now, failingAfter)
		if r.Err != nil {
			return nil, false, nil, r.Err
		}
		l.state.All = pause
		lanes = append(lanes, l)
	}
	return pause, more, lanes, r.Err
}

func readLane(a *conn.Reply, now time.Time, failingAfter time.Duration) (l knownLane) {
	st := &l.state
	st.Lane = dispatcher.Lane(a.Text())
	l.score, _ = strconv.ParseFloat(a.Text(), 64)
	st.Known = l.score > 0
	st.InFlight, st.Waiting = int(a.Number()), int(a.Number())
	st.Window, st.Fails, st.Opened = int(a.Number()), int(a.Number()), int(a.Number())
	st.Until = a.Time()
	if token := a.Number(); token > 0 {
		st.Token = time.UnixMicro(token).UTC()
	}
	st.Limits, _ = conn.ParseLimits(a.Text()) // the script itself reports an invalid text
	name := a.Text()
	if st.Lane.IsQueue() {
		st.Queue = dispatcher.QueueOf(st.Lane, name)
	} else {
		st.URL, st.Tenant, _ = strings.Cut(name, " ")
	}
	if stopped, ok := conn.ParseStopped(a.Text()); ok {
		st.Since, st.By = stopped.Since, stopped.By
	}
	why := dispatcher.LaneWhy(a.Text())
	st.Failing = a.Time()
	st.FailsLong = failingAfter > 0 && !st.Failing.IsZero() && now.Sub(st.Failing) >= failingAfter
	if message, attempt := a.Text(), a.Text(); message != "" {
		if last, err := conn.ParseAttempt(attempt); err == nil { // a malformed history is of that message alone; its page reports it
			st.LastFailure = &dispatcher.LaneFailure{Message: message, Attempt: last}
		}
	}
	st.Ready = int(a.Number())
	switch {
	case why != "":
		st.Limit = why
	case st.Waiting > 0 && st.Token.After(now):
		st.Limit = dispatcher.WhyRate
	}
	return l
}

// LaneReader queries lanes.
type LaneReader struct {
	conn *conn.Client
	busy *busyQuery

	Pace LanePace // tests change it

	failingAfter time.Duration
}

// NewLaneReader returns a LaneReader. A lane that fails for longer than failingAfter is reported as
// failing; 0: no lane is.
func NewLaneReader(c *conn.Client, failingAfter time.Duration) *LaneReader {
	return &LaneReader{conn: c, busy: newBusyQuery(), Pace: usualPace, failingAfter: failingAfter}
}

// namesPage is the number of names in one call. Each has at most 2.4 KB, with the longest URL
// and tenant, so a page has less than a MiB.
const namesPage = 256

// LaneNames returns a page of the names of lanes, one partition after the other.
func (s *LaneReader) LaneNames(ctx context.Context, cursor string) (list []dispatcher.LaneName, next string, err error) {
	n, at, err := s.pageOf(cursor)
	if err != nil {
		return nil, "", err
	}
	list, next, err = s.laneNamesIn(ctx, n, at)
	return list, s.pageAfter(n, next), s.conn.InPartition(n, err)
}

// laneNamesIn reads a page of one partition.
func (s *LaneReader) laneNamesIn(ctx context.Context, partition int, cursor string) (list []dispatcher.LaneName, next string, err error) {
	found, next, err := s.conn.Scan(ctx, "read lane names", partition, cursor, func(p redis.Pipeliner, at uint64) *redis.ScanCmd {
		return p.HScan(ctx, s.conn.Tag(partition)+keys.LaneNames, at, "", namesPage)
	})
	if err != nil {
		return nil, "", err
	}
	for i := 0; i+1 < len(found); i += 2 {
		list = append(list, dispatcher.LaneName{Lane: dispatcher.Lane(found[i]), Name: found[i+1]})
	}
	return list, next, nil
}

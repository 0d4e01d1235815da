package lanes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/codec"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
)

// Bounds. One call reads lanesBatch lanes, and a page tells lanesPage. Of each
// partition lanesLeast are read first. With many partitions most lanes of a
// full page would be read for nothing.
const (
	lanesBatch = 256
	lanesPage  = 500
	lanesLeast = 8
)

// laneList is the name of the list, which has no filter.
var laneList = dispatcher.ListName("lanes", nil)

// lanePlace is where a page of lanes ended: at a lane with its score. Paused lanes come
// before all others, and their score is the ms of their pause.
type lanePlace struct {
	Others bool // behind the paused ones
	Score  float64
	Lane   string // empty: at the begin
}

// knownLane is a lane as the script answers it.
type knownLane struct {
	state dispatcher.LaneState
	score float64 // ms: when its state was made or last looked at; 0: it is not known
}

// LaneStates reads lanes, in the order asked for.
func (s *Reader) LaneStates(ctx context.Context, lanes []dispatcher.Lane) ([]dispatcher.LaneState, error) {
	states := make([]dispatcher.LaneState, len(lanes))
	lists := make(map[int][]int, 1)
	all := -1 // index of AllLanes among those asked for
	for i, lane := range lanes {
		states[i].Lane = lane
		if lane == dispatcher.AllLanes {
			all = i
			continue
		}
		n := s.conn.PartitionOf(lane)
		lists[n] = append(lists[n], i)
	}
	var calls []conn.Call
	var shares [][]int
	if all >= 0 {
		calls, shares = s.conn.Everywhere(lanesArgs(0, lanePlace{})), make([][]int, s.conn.Partitions())
	}
	for n, list := range lists {
		conn.Each(len(list), lanesBatch, func(from, to int) {
			args := lanesArgs(0, lanePlace{})
			for _, i := range list[from:to] {
				args = append(args, string(lanes[i]))
			}
			calls = append(calls, conn.Call{Partition: n, Args: args})
			shares = append(shares, list[from:to])
		})
	}
	for i, r := range s.conn.Send(ctx, conn.Batch{Script: s.scripts.Lanes, Calls: calls}) {
		held, _, found, err := readLanes(r, s.failingAfter)
		if err == nil && len(found) != len(shares[i]) {
			err = conn.ErrReply
		}
		if err != nil {
			return nil, fmt.Errorf("lanes: %w", err)
		}
		for k, at := range shares[i] {
			states[at] = found[k].state
		}
		if all >= 0 && held != nil && (states[all].Since.IsZero() || held.Since.Before(states[all].Since)) { // the partitions were changed one after another
			states[all] = heldLanes(held)
		}
	}
	return states, nil
}

// Lanes reads a page of the lanes that are known.
func (s *Reader) Lanes(ctx context.Context, limit int, after string) (states []dispatcher.LaneState, next string, err error) {
	if err := s.conn.LostOf(nil); err != nil {
		return nil, "", fmt.Errorf("lanes: %w", err)
	}
	if states, next, err = s.LanesHere(ctx, limit, after); err == nil && len(states) == 0 {
		err = s.conn.IntactAll(ctx)
	}
	return states, next, err
}

// LanesHere is Lanes also where the store lost others.
func (s *Reader) LanesHere(ctx context.Context, limit int, after string) (states []dispatcher.LaneState, next string, err error) {
	limit = min(cmp.Or(max(limit, 0), 50), lanesPage)
	var at lanePlace
	if after != "" {
		if err := s.sealer.Open(ctx, laneList, after, &at); err != nil {
			return nil, "", err
		}
	}
	if !at.Others {
		if states, next, err = s.pausedPage(ctx, limit, at); err != nil || next != "" {
			return states, next, err
		}
		at = lanePlace{Others: true}
	}
	m, found := s.mergeLanes(limit, at), []knownLane(nil)
	if len(states) > 0 && states[0].Lane == dispatcher.AllLanes {
		limit++ // it comes in addition to the page
	}
	if len(states) == limit { // no partition was asked whether there are others
		next, err = s.sealer.Seal(ctx, laneList, at)
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
		if l.state.Limits.Held != dispatcher.HeldPaused || l.state.Since.IsZero() { // a lane that is paused now was told before
			found = append(found, l)
		}
	}
	for _, l := range found {
		states = append(states, l.state)
	}
	if len(found) > 0 && m.left() {
		next, err = s.sealer.Seal(ctx, laneList, lanesBehind(found[len(found)-1]))
	}
	return states, next, err
}

// laneMerge are the lanes of all partitions, the last made first.
type laneMerge struct {
	s       *Reader
	sources []laneSource
}

// laneSource is the part of one partition.
type laneSource struct {
	at    lanePlace   // after the last one read
	chunk int         // how many to read next
	page  []knownLane // lanes that were read and not yet taken
	more  bool        // the partition has lanes that were not read
}

func (s *Reader) mergeLanes(limit int, at lanePlace) *laneMerge {
	m := &laneMerge{s: s, sources: make([]laneSource, s.conn.Partitions())}
	for n := range m.sources {
		m.sources[n] = laneSource{at: at, chunk: min(limit, max(limit/s.conn.Partitions(), lanesLeast), lanesBatch), more: true}
	}
	return m
}

// fill reads more of each partition whose lanes are all taken. It reads twice
// as many as before, since most of a page may lie there.
func (m *laneMerge) fill(ctx context.Context) error {
	var calls []conn.Call
	for n := range m.sources {
		if l := &m.sources[n]; len(l.page) == 0 && l.more {
			calls = append(calls, conn.Call{Partition: n, Args: lanesArgs(l.chunk, l.at)})
			l.chunk = min(2*l.chunk, lanesBatch)
		}
	}
	for _, r := range m.s.conn.Send(ctx, conn.Batch{Script: m.s.scripts.Lanes, Calls: calls}) {
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

// left reports whether there are more lanes than were taken.
func (m *laneMerge) left() bool {
	return slices.ContainsFunc(m.sources, func(l laneSource) bool { return l.more || len(l.page) > 0 })
}

func compareLanes(a, b knownLane) int {
	return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(b.state.Lane, a.state.Lane))
}

// lanesBehind is where a page ends with a lane.
func lanesBehind(l knownLane) lanePlace {
	return lanePlace{Others: true, Score: l.score, Lane: string(l.state.Lane)}
}

// lanesArgs begins the arguments of the script. It names no instance, since it
// asks for no delivery.
func lanesArgs(most int, at lanePlace) []any {
	after := ""
	if at.Lane != "" {
		after = conn.ScoreText(at.Score)
	}
	return []any{0, most, after, at.Lane}
}

// heldLanes is the state of AllLanes while it is held.
func heldLanes(h *dispatcher.HeldLane) dispatcher.LaneState {
	return dispatcher.LaneState{
		Lane: dispatcher.AllLanes, Known: true, Since: h.Since, By: h.By,
		Limits: dispatcher.LaneLimits{Held: dispatcher.HeldPaused},
	}
}

// readLanes reads the answer of one partition. held is the state of all its
// lanes, nil if they are not held.
func readLanes(r conn.Call, failingAfter time.Duration) (held *dispatcher.HeldLane, more bool, lanes []knownLane, err error) {
	now := time.Time{}
	if h, ok := r.Hint(); ok {
		now = h.Now
		if all, ok := codec.ParseHeld(r.Text()); ok {
			held = &all
		}
		more = r.Number() == 1
	}
	for r.More() {
		l, err := readLane(&r.Reply, now, failingAfter)
		if err = errors.Join(r.Err, err); err != nil {
			return nil, false, nil, err
		}
		l.state.All = held
		lanes = append(lanes, l)
	}
	return held, more, lanes, r.Err
}

func readLane(a *conn.Reply, now time.Time, failingAfter time.Duration) (l knownLane, err error) {
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
	st.Limits, _ = codec.ParseLimits(a.Text()) // the script tells what it can read
	name := a.Text()
	if st.Lane.IsQueue() {
		st.Queue = dispatcher.QueueOf(st.Lane, name)
	} else {
		st.URL, st.Tenant, _ = strings.Cut(name, " ")
	}
	if held, ok := codec.ParseHeld(a.Text()); ok {
		st.Since, st.By = held.Since, held.By
	}
	why := dispatcher.LaneWhy(a.Text())
	st.Failing = a.Time()
	st.FailsLong = failingAfter > 0 && !st.Failing.IsZero() && now.Sub(st.Failing) >= failingAfter
	switch {
	case why != "":
		st.Limit = why
	case st.Waiting > 0 && st.Token.After(now):
		st.Limit = dispatcher.WhyRate
	}
	return l, nil
}

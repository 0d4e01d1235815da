package redisq

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
)

// Bounds: lanesBatch lanes are read in one call, and lanesPage are told in a
// page. Of each partition lanesLeast are read first: where there are many of
// them, most lanes of a page would be read for nothing.
const (
	lanesBatch = 256
	lanesPage  = 500
	lanesLeast = 8
)

// sectionLanes is what a cursor of Lanes says of itself, so that one of a list
// of deliveries is not taken for it.
const sectionLanes = "lanes"

// knownLane is a lane as the script tells it.
type knownLane struct {
	state dispatcher.LaneState
	score float64 // ms: when its state was made or last looked at; 0: it is not known
}

// LaneStates reads lanes, in the order asked for.
func (s *Store) LaneStates(ctx context.Context, lanes []dispatcher.Lane) ([]dispatcher.LaneState, error) {
	states := make([]dispatcher.LaneState, len(lanes))
	lists := make(map[int][]int, 1)
	all := -1 // where AllLanes is asked for
	for i, lane := range lanes {
		states[i].Lane = lane
		if lane == dispatcher.AllLanes {
			all = i
			continue
		}
		n := s.partition(lane)
		lists[n] = append(lists[n], i)
	}
	var jobs []job
	var shares [][]int
	if all >= 0 {
		jobs, shares = s.everywhere(lanesArgs(0, cursor{})), make([][]int, len(s.tags))
	}
	for n, list := range lists {
		each(len(list), lanesBatch, func(from, to int) {
			args := lanesArgs(0, cursor{})
			for _, i := range list[from:to] {
				args = append(args, string(lanes[i]))
			}
			jobs = append(jobs, job{partition: n, args: args})
			shares = append(shares, list[from:to])
		})
	}
	for i, r := range s.run(ctx, s.scripts.lanes, "", jobs) {
		held, _, found, err := readLanes(r)
		if err == nil && len(found) != len(shares[i]) {
			err = errAnswer
		}
		if err != nil {
			return nil, fmt.Errorf("lanes: %w", err)
		}
		for k, at := range shares[i] {
			states[at] = found[k].state
		}
		if all >= 0 && held {
			states[all] = heldLanes()
		}
	}
	return states, nil
}

// Lanes reads a page of the lanes that are known.
func (s *Store) Lanes(ctx context.Context, limit int, after string) (states []dispatcher.LaneState, next string, err error) {
	limit = min(cmp.Or(max(limit, 0), 50), lanesPage)
	at := cursor{section: sectionLanes}
	if after != "" {
		if at, err = parseCursor(after); err == nil && at.section != sectionLanes {
			err = fmt.Errorf("%w: %q", dispatcher.ErrCursor, after)
		}
		if err != nil {
			return nil, "", err
		}
	}
	m, found := s.mergeLanes(limit, at), []knownLane(nil)
	for len(found) < limit {
		if err := m.fill(ctx); err != nil {
			return nil, "", err
		}
		l, ok := m.next()
		if !ok {
			break
		}
		found = append(found, l)
	}
	if m.held && after == "" {
		states = append(states, heldLanes())
	}
	for _, l := range found {
		states = append(states, l.state)
	}
	if len(found) > 0 && m.left() {
		next = lanesBehind(found[len(found)-1]).String()
	}
	return states, next, nil
}

// laneMerge are the lanes of all partitions, the last made first.
type laneMerge struct {
	s       *Store
	sources []laneSource
	held    bool // in some partition all are
}

// laneSource is one partition's part.
type laneSource struct {
	at    cursor      // behind what was read
	chunk int         // how many to read next
	page  []knownLane // what was read and not taken
	more  bool        // there is some that was not read
}

func (s *Store) mergeLanes(limit int, at cursor) *laneMerge {
	m := &laneMerge{s: s, sources: make([]laneSource, len(s.tags))}
	for n := range m.sources {
		m.sources[n] = laneSource{at: at, chunk: min(limit, max(limit/len(s.tags), lanesLeast), lanesBatch), more: true}
	}
	return m
}

// fill reads more of each partition of which all that was read is taken. It
// reads twice as much as before: most of a page may lie there.
func (m *laneMerge) fill(ctx context.Context) error {
	var jobs []job
	for n := range m.sources {
		if l := &m.sources[n]; len(l.page) == 0 && l.more {
			jobs = append(jobs, job{partition: n, args: lanesArgs(l.chunk, l.at)})
			l.chunk = min(2*l.chunk, lanesBatch)
		}
	}
	for i, r := range m.s.run(ctx, m.s.scripts.lanes, "", jobs) {
		held, more, page, err := readLanes(r)
		if err != nil {
			return fmt.Errorf("lanes: %w", err)
		}
		l := &m.sources[jobs[i].partition]
		l.page, l.more, m.held = page, more, m.held || held
		if len(page) > 0 {
			l.at = lanesBehind(page[len(page)-1])
		}
	}
	return nil
}

// next takes the first of all.
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

// left reports whether there is more than was taken.
func (m *laneMerge) left() bool {
	return slices.ContainsFunc(m.sources, func(l laneSource) bool { return l.more || len(l.page) > 0 })
}

func compareLanes(a, b knownLane) int {
	return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(b.state.Lane, a.state.Lane))
}

// lanesBehind is where a page begins behind a lane.
func lanesBehind(l knownLane) cursor {
	return cursor{section: sectionLanes, score: l.score, name: string(l.state.Lane)}
}

// lanesArgs begins the arguments of the script: no instance is named, since no
// delivery is asked for.
func lanesArgs(most int, at cursor) []any {
	after := ""
	if at.name != "" {
		after = scoreText(at.score)
	}
	return []any{0, most, after, at.name}
}

// heldLanes is the state of AllLanes while it is held.
func heldLanes() dispatcher.LaneState {
	return dispatcher.LaneState{
		Lane: dispatcher.AllLanes, Known: true,
		Limits: dispatcher.LaneLimits{Held: dispatcher.HeldPaused},
	}
}

// readLanes reads what one partition answered; held: all its lanes are.
func readLanes(r reply) (held, more bool, lanes []knownLane, err error) {
	a := answer{values: r.values, err: r.err}
	a.hintIf(0)
	if a.err == nil {
		held, more = a.number() == 1, a.number() == 1
	}
	for a.more() {
		l, err := readLane(&a)
		if err = errors.Join(a.err, err); err != nil {
			return false, false, nil, err
		}
		lanes = append(lanes, l)
	}
	return held, more, lanes, a.err
}

func readLane(a *answer) (l knownLane, err error) {
	st := &l.state
	st.Lane = dispatcher.Lane(a.text())
	l.score, _ = strconv.ParseFloat(a.text(), 64)
	st.Known = l.score > 0
	st.InFlight, st.Waiting = int(a.number()), int(a.number())
	st.Window, st.Fails, st.Opened = int(a.number()), int(a.number()), int(a.number())
	st.Until = a.time()
	if token := a.number(); token > 0 {
		st.Token = time.UnixMicro(token).UTC()
	}
	st.Limits, _ = parseLimits(a.text()) // the script tells what it can read
	st.URL, st.Tenant, _ = strings.Cut(a.text(), " ")
	st.Since = a.time()
	return l, nil
}

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

// Bounds of one call: lanesBatch lanes are read by name, lanesPage in a page.
const (
	lanesBatch = 256
	lanesPage  = 500
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
		held, found, err := readLanes(r)
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
	var found []knownLane
	more, anyHeld := false, false
	for _, r := range s.run(ctx, s.scripts.lanes, "", s.everywhere(lanesArgs(limit, at))) {
		held, page, err := readLanes(r)
		if err != nil {
			return nil, "", fmt.Errorf("lanes: %w", err)
		}
		found, more, anyHeld = append(found, page...), more || len(page) == limit, anyHeld || held
	}
	slices.SortFunc(found, func(a, b knownLane) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(b.state.Lane, a.state.Lane))
	})
	if len(found) > limit {
		found, more = found[:limit], true
	}
	if anyHeld && after == "" {
		states = append(states, heldLanes())
	}
	for _, l := range found {
		states = append(states, l.state)
	}
	if more && len(found) > 0 {
		last := found[len(found)-1]
		next = cursor{section: sectionLanes, score: last.score, name: string(last.state.Lane)}.String()
	}
	return states, next, nil
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
func readLanes(r reply) (held bool, lanes []knownLane, err error) {
	a := answer{values: r.values, err: r.err}
	a.hintIf(0)
	held = a.err == nil && a.number() == 1
	for a.more() {
		l, err := readLane(&a)
		if err = errors.Join(a.err, err); err != nil {
			return false, nil, err
		}
		lanes = append(lanes, l)
	}
	return held, lanes, a.err
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
	return l, nil
}

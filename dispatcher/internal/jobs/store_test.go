package jobs_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// pageMost is how many names a page of the memory store looks at.
const pageMost = 100

// stored is a delivery in a memory store.
type stored struct {
	dispatcher.Delivery
	sent int   // how often a job made it ready
	job  int64 // the last one that did
}

// memory is a Store in memory, with faults.
type memory struct {
	mu         sync.Mutex
	parts      int
	deliveries map[dispatcher.Status][]*stored // by end
	jobs       map[int64]dispatcher.Job
	done       map[int64]map[int]*memoryPart
	instances  []string
	full       map[dispatcher.Lane]bool // take no more
	refused    map[dispatcher.Lane]bool // their endpoint is disabled
	takes      time.Duration            // each call

	fault    func(call string) error // before a call does anything
	lost     func(call string) error // after it did it
	stepping func()                  // inside a step
	moved    []time.Time             // when each was changed
	turns    []string                // the holders, in their order
}

type memoryPart struct {
	dispatcher.JobPart
	turn int64
}

func newMemory(parts int) *memory {
	return &memory{
		parts: parts, deliveries: map[dispatcher.Status][]*stored{}, jobs: map[int64]dispatcher.Job{},
		done: map[int64]map[int]*memoryPart{}, full: map[dispatcher.Lane]bool{}, refused: map[dispatcher.Lane]bool{}, takes: time.Millisecond,
	}
}

// add has deliveries of a lane end, one a ms.
func (m *memory) add(lane dispatcher.Lane, status dispatcher.Status, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range n {
		d := dispatcher.Delivery{
			ID: dispatcher.DeliveryID{Lane: lane, Message: fmt.Sprintf("%s-%s-%06d", lane, status, i)}, Status: status, Ended: time.Now().Add(-time.Hour),
		}
		m.deliveries[status] = append(m.deliveries[status], &stored{Delivery: d})
	}
}

// call begins a call of the store.
func (m *memory) call(ctx context.Context, name string) error {
	m.mu.Lock()
	takes := m.takes
	m.mu.Unlock()
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		return ctx.Err()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fault != nil {
		return m.fault(name)
	}
	return nil
}

// answer ends it.
func (m *memory) answer(name string) error {
	if m.lost != nil {
		return m.lost(name)
	}
	return nil
}

func (m *memory) Add(ctx context.Context, j *dispatcher.Job) error {
	if err := m.call(ctx, "add"); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	j.Number = int64(len(m.jobs)) + 1
	m.jobs[j.Number] = *j
	return m.answer("add")
}

func (m *memory) Change(ctx context.Context, number int64, change func(j *dispatcher.Job) error) (dispatcher.Job, error) {
	if err := m.call(ctx, "change"); err != nil {
		return dispatcher.Job{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	j, ok := m.jobs[number]
	if !ok {
		return j, dispatcher.ErrNoJob
	}
	before := j
	if err := change(&j); err != nil {
		return j, err
	}
	if j.Turn > before.Turn && !j.State.Ended() {
		m.turns = append(m.turns, j.Holder)
	}
	m.jobs[number] = j
	return j, m.answer("change")
}

func (m *memory) Turn(ctx context.Context, _ string, j *dispatcher.Job) (map[int]dispatcher.JobPart, error) {
	if err := m.call(ctx, "turn"); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.done[j.Number] == nil {
		m.done[j.Number] = map[int]*memoryPart{}
	}
	all := map[int]dispatcher.JobPart{}
	for _, n := range m.Parts(j.Filter) {
		p := m.done[j.Number][n]
		if p == nil {
			p = &memoryPart{JobPart: dispatcher.JobPart{Since: time.Now()}}
			m.done[j.Number][n] = p
		}
		if p.turn > j.Turn {
			return nil, dispatcher.ErrJobTurn
		}
		p.turn = j.Turn
		all[n] = p.JobPart
	}
	return all, m.answer("turn")
}

func (m *memory) Page(ctx context.Context, j *dispatcher.Job, at dispatcher.JobAt, skip []dispatcher.Lane) (dispatcher.JobPage, error) {
	if err := m.call(ctx, "page"); err != nil {
		return dispatcher.JobPage{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	status, name := j.Filter.Statuses[0], ""
	if at.Cursor != "" {
		word, rest, _ := strings.Cut(at.Cursor, " ")
		status, name = dispatcher.Status(word), rest
	}
	page := dispatcher.JobPage{Status: status}
	for _, d := range m.deliveries[status] {
		if m.Part(d.ID.Lane) != at.Part || d.ID.Message <= name || !at.Since.IsZero() && d.Ended.After(at.Since) {
			continue
		}
		if page.LookedAt == pageMost {
			page.More = true
			break
		}
		page.LookedAt++
		name = d.ID.Message
		mine := len(j.Filter.Lanes) == 0 || slices.Contains(j.Filter.Lanes, d.ID.Lane)
		if mine && !slices.Contains(skip, d.ID.Lane) && (j.Number == 0 || d.job != j.Number) {
			page.Deliveries = append(page.Deliveries, d.Delivery)
		}
	}
	page.Cursor = string(status) + " " + name
	if next := slices.Index(j.Filter.Statuses, status) + 1; !page.More && next < len(j.Filter.Statuses) {
		page.More, page.Cursor = true, string(j.Filter.Statuses[next])+" "
	}
	return page, nil
}

// list reads what is unfinished, for jobs that cancel.
func (m *memory) list(ctx context.Context, f dispatcher.Filter) (page dispatcher.Page, err error) {
	if err := m.call(ctx, "list"); err != nil {
		return page, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	from, _ := strconv.Atoi(f.Cursor)
	all := m.deliveries[dispatcher.StatusReady]
	for i := from; i < len(all) && i < from+pageMost; i++ {
		if len(f.Lanes) == 0 || slices.Contains(f.Lanes, all[i].ID.Lane) {
			page.Deliveries = append(page.Deliveries, all[i].Delivery)
		}
	}
	if from+pageMost < len(all) {
		page.Next = strconv.Itoa(from + pageMost)
	}
	return page, nil
}

func (m *memory) Step(ctx context.Context, _ string, step dispatcher.JobStep) (dispatcher.JobStepped, error) {
	if err := m.call(ctx, "step"); err != nil {
		return dispatcher.JobStepped{}, err
	}
	if m.stepping != nil {
		m.stepping()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.done[step.Job.Number][step.Part]
	if p == nil || p.turn != step.Job.Turn {
		return dispatcher.JobStepped{}, dispatcher.ErrJobTurn
	}
	var out dispatcher.JobStepped
	status := step.Status
	if step.Job.Kind == dispatcher.JobCancel {
		status = dispatcher.StatusReady
	}
	for _, id := range step.IDs {
		i := slices.IndexFunc(m.deliveries[status], func(d *stored) bool { return d.ID == id })
		switch {
		case m.full[id.Lane]:
			out.Full = append(out.Full, id)
		case i < 0:
			p.Left++
		case m.deliveries[status][i].job == step.Job.Number:
		case m.refused[id.Lane]:
			m.deliveries[status][i].job = step.Job.Number
			p.Failed++
		default:
			m.change(step.Job, status, i)
			p.Done++
			out.Done++
		}
	}
	known := p.Done + p.Failed + p.Left + step.Skipped
	p.Matched, p.Skipped, p.Cursor, p.Ended = max(p.Matched, known), step.Skipped, step.Cursor, step.Ended
	if step.Ended {
		p.Matched = known
	}
	out.JobPart = p.JobPart
	return out, m.answer("step")
}

// change makes a delivery ready, which dies again at once, or ends it.
func (m *memory) change(j *dispatcher.Job, status dispatcher.Status, i int) {
	d := m.deliveries[status][i]
	d.job = j.Number
	d.sent++
	m.moved = append(m.moved, time.Now())
	if j.Kind == dispatcher.JobRetry {
		d.Ended = time.Now()
		return
	}
	m.deliveries[status] = slices.Delete(m.deliveries[status], i, i+1)
}

func (m *memory) Parts(f dispatcher.Filter) (all []int) {
	for n := range m.parts {
		if len(f.Lanes) == 0 || slices.ContainsFunc(f.Lanes, func(l dispatcher.Lane) bool { return m.Part(l) == n }) {
			all = append(all, n)
		}
	}
	return all
}

// Part is the lane's last digit.
func (m *memory) Part(lane dispatcher.Lane) int { return int(lane[len(lane)-1]-'0') % m.parts }

func (m *memory) Live(ctx context.Context) (list []dispatcher.Job, instances []string, err error) {
	if err := m.call(ctx, "live"); err != nil {
		return nil, nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, n := range slices.Sorted(maps.Keys(m.jobs)) {
		if j := m.jobs[n]; !j.State.Ended() {
			list = append(list, j)
		}
	}
	return list, slices.Clone(m.instances), nil
}

func (m *memory) Job(ctx context.Context, number int64) (dispatcher.Job, error) {
	if err := m.call(ctx, "job"); err != nil {
		return dispatcher.Job{}, err
	}
	return m.job(number)
}

func (m *memory) job(number int64) (dispatcher.Job, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	j, ok := m.jobs[number]
	if !ok {
		return j, dispatcher.ErrNoJob
	}
	for _, p := range m.done[number] {
		j.Add(p.JobCounts)
	}
	j.Account()
	return j, nil
}

// Jobs is the first page of all.
func (m *memory) Jobs(ctx context.Context, limit int, _ string) (list []dispatcher.Job, next string, err error) {
	if err := m.call(ctx, "jobs"); err != nil {
		return nil, "", err
	}
	m.mu.Lock()
	number := int64(len(m.jobs))
	m.mu.Unlock()
	for ; number > 0 && len(list) < limit; number-- {
		if j, err := m.job(number); err == nil {
			list = append(list, j)
		}
	}
	return list, "", nil
}

func (m *memory) Forget(ctx context.Context, _ time.Time) error { return m.call(ctx, "forget") }

package engine_test

import (
	"context"
	"maps"
	"slices"

	d "github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/queuetest"
)

func (q *fakeQueue) Join(ctx context.Context, by string, _ d.Instance) error {
	if err := q.begin(ctx, call{name: "join", by: by}); err != nil {
		return err
	}
	return q.end("join")
}

func (q *fakeQueue) Beat(ctx context.Context, by string, number int64) (bool, map[string]int64, error) {
	if err := q.begin(ctx, call{name: "beat", by: by, n: int(number)}); err != nil {
		return false, nil, err
	}
	q.mu.Lock()
	_, known := q.beats[by]
	q.beats[by] = number
	all := maps.Clone(q.beats)
	maps.Copy(all, q.dead)
	q.mu.Unlock()
	if err := q.end("beat"); err != nil {
		return false, nil, err
	}
	return !known, all, nil
}

func (q *fakeQueue) Reap(ctx context.Context, by, dead string) (int, []queuetest.Hint, error) {
	if err := q.begin(ctx, call{name: "reap " + dead, by: by}); err != nil {
		return 0, nil, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	taken := 0
	for id, it := range q.leased {
		if it.by == dead && q.lanesDown(id.Lane) == nil {
			delete(q.leased, id)
			taken++
			if q.kills {
				q.over(it, d.StatusDead, d.ReasonPoison)
				continue
			}
			it.by = ""
			q.ready = append(q.ready, it)
		}
	}
	q.fenced[dead] = true
	hints, err := q.hintsOf(q.all())
	if err == nil {
		delete(q.dead, dead)
		delete(q.beats, dead)
		q.strays = slices.DeleteFunc(q.strays, func(name string) bool { return name == dead })
	}
	return taken, hints, err
}

func (q *fakeQueue) Leave(ctx context.Context, by string) error {
	err := q.begin(ctx, call{name: "leave", by: by})
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.beats, by)
	return err
}

func (q *fakeQueue) Trim(ctx context.Context, by string, partitions []int, keep d.Keep, room bool) (queuetest.Trimmed, error) {
	if err := q.begin(ctx, call{name: "trim", by: by, n: len(partitions), room: room, asked: slices.Clone(partitions)}); err != nil {
		return queuetest.Trimmed{}, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.more--
	n := 0
	if room {
		n = min(q.old, 64)
		q.old, q.memory = q.old-n, q.memory+n
	}
	hints, err := q.hintsOf(partitions)
	if !q.placing {
		hints = nil
	}
	return queuetest.Trimmed{Hints: hints, Trimmed: d.Trimmed{Finished: n, DeadCut: q.cut.dead, CutAge: q.cut.age, More: q.more >= 0}}, err
}

func (q *fakeQueue) Polls() bool { return q.polls }

func (q *fakeQueue) Nodes() int { return max(q.nodes, 1) }

func (q *fakeQueue) Ping(ctx context.Context) error { return q.begin(ctx, call{name: "ping"}) }

func (q *fakeQueue) Store(ctx context.Context) (d.StoreInfo, error) {
	return d.StoreInfo{Nodes: max(q.nodes, 1)}, q.begin(ctx, call{name: "store"})
}

func (q *fakeQueue) Watch(ctx context.Context, by string, ears queuetest.Subscriber) error {
	if err := q.begin(ctx, call{name: "watch", by: by}); err != nil {
		return err
	}
	q.mu.Lock()
	q.ears = ears
	deaf, hears := q.deaf, q.hears
	q.mu.Unlock()
	if deaf {
		return nil
	}
	if hears {
		ears.OnGap()
	}
	<-ctx.Done()
	return nil
}

func (q *fakeQueue) ReadHints(ctx context.Context, partitions []int) ([]queuetest.Hint, error) {
	if err := q.begin(ctx, call{name: "peek", n: len(partitions), asked: slices.Clone(partitions)}); err != nil {
		return nil, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.reads {
		return q.read(partitions), nil
	}
	return q.hintsOf(partitions)
}

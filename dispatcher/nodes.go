package dispatcher

import (
	"context"
	"sync/atomic"
	"time"
)

// manyNodes is whether the partitions lie on several nodes, each of which has a
// memory of its own and may be down by itself. It is asked until it is known: a
// queue does not become another kind while it is used.
type manyNodes struct{ answer atomic.Uint32 }

const (
	nodesUnknown = iota
	nodesOne
	nodesMany
)

// nodesWithin bounds the question: the heart that asks has other things to do.
const nodesWithin = time.Second

func (m *manyNodes) ask(ctx context.Context, q Queue) {
	if m.answer.Load() != nodesUnknown {
		return
	}
	call, cancel := context.WithTimeout(ctx, nodesWithin)
	defer cancel()
	info, err := q.Store(call)
	switch {
	case err != nil:
	case info.Nodes > 1:
		m.answer.Store(nodesMany)
	default:
		m.answer.Store(nodesOne)
	}
}

// known reports whether it is known that there are several.
func (m *manyNodes) known() bool { return m.answer.Load() == nodesMany }

package admin

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// readMark finds what is to be done, and whether it was begun before.
func (r *repartition) readMark(ctx context.Context) (m conn.Mark, again bool, err error) {
	key := r.s.home() + keys.Meta
	meta, err := r.s.conn.ReadMeta(ctx)
	switch {
	case err != nil:
		return m, false, err
	case len(meta) == 0:
		return m, false, errors.New("there is no such project in this Redis")
	}
	if err := r.s.conn.CheckLayout(meta[conn.MetaSchema]); err != nil {
		return m, false, err
	}
	r.s.conn.TakeID(meta[conn.MetaID]) // without one it is not heard, and no instance is there to hear it
	r.s.conn.TakeIndex(meta)
	if text := meta[conn.MetaRepartition]; text != "" {
		m, err = conn.ParseMark(text)
		switch {
		case err != nil:
			return m, false, err
		case m.Phase > conn.PhaseBegin && m.To != r.options.To:
			return m, false, fmt.Errorf("one from %d to %d partitions has not ended: finish it with --to %d first", m.From, m.To, m.To)
		case m.Phase > conn.PhaseBegin:
			return m, true, nil
		}
		// It was ended before it changed anything.
	}
	m = conn.Mark{To: r.options.To}
	if m.From, err = strconv.Atoi(meta[conn.MetaPartitions]); err != nil || m.From < 1 {
		return m, false, fmt.Errorf("%s says %q partitions", key, meta[conn.MetaPartitions])
	}
	return m, false, nil
}

// reach marks that a phase has begun.
func (r *repartition) reach(ctx context.Context, p conn.Phase) error {
	r.mark.Phase = p
	if p != conn.PhaseBegin {
		r.tell(p, -1)
	}
	return r.s.conn.At(ctx, "mark", conn.Home, func(c redis.Pipeliner) {
		c.HSet(ctx, r.s.home()+keys.Meta, conn.MetaRepartition, r.mark.String())
	})
}

// mustBeMarked makes sure that it is still this that is under way: a run that
// was stopped for long may find that another has ended it.
func (r *repartition) mustBeMarked(ctx context.Context) error {
	have, err := r.s.conn.ReadMeta(ctx)
	if err == nil && have[conn.MetaRepartition] != r.mark.String() {
		err = errors.New("another run has ended or changed it meanwhile")
	}
	return err
}

// unmark gives the project back as it was.
func (r *repartition) unmark(ctx context.Context) error {
	return r.s.conn.At(ctx, "unmark", conn.Home, func(c redis.Pipeliner) { c.HDel(ctx, r.s.home()+keys.Meta, conn.MetaRepartition) })
}

// serve gives the project back with its new partitions. The mark goes last.
func (r *repartition) serve(ctx context.Context) error {
	return r.s.conn.At(ctx, "unmark", conn.Home, func(c redis.Pipeliner) {
		c.HSet(ctx, r.s.home()+keys.Meta, conn.MetaPartitions, r.mark.To)
		c.HDel(ctx, r.s.home()+keys.Meta, conn.MetaRepartition)
	})
}

package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// maintainTime bounds a Maintain, which copies messages of a month at most.
const maintainTime = 10 * time.Minute

// detachTime is how long readers of a month are waited for. What was begun is gone on with
// another day.
const detachTime = 4 * time.Second

// Maintain makes the tables of the months to come, and drops those whose last day is
// older than retention; 0: none. It has a connection of its own, since it waits for
// readers, and writers shall not.
func (a *Archive) Maintain(ctx context.Context, retention time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, maintainTime)
	defer cancel()
	s, err := a.dial(ctx)
	if err == nil {
		defer s.close()
		err = s.maintain(ctx, retention)
	}
	if err != nil {
		return fault("maintain the archive's months", err)
	}
	return a.in(ctx, "read the archive's months", func(ctx context.Context, s *session) error { return s.readMonths(ctx) })
}

func (s *session) maintain(ctx context.Context, retention time.Duration) error {
	if err := s.migrate(ctx); err != nil {
		return err
	}
	if err := s.makeMonths(ctx); err != nil {
		return err
	}
	if retention <= 0 {
		return nil
	}
	var now time.Time
	if err := s.conn.QueryRow(ctx, "select now()").Scan(&now); err != nil {
		return err
	}
	parts, err := s.parts(ctx)
	if err != nil {
		return err
	}
	for _, p := range parts {
		if (p.month + 1).first().After(now.Add(-retention)) || p.month >= monthOf(now) {
			continue
		}
		err := s.dropPart(ctx, p, next(parts, p))
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			s.log.WarnContext(ctx, "a month of the archive is too old and still read: it goes another day", "table", p.name, "err", err)
			return nil
		}
		if err != nil {
			return fmt.Errorf("drop the table %s: %w", p.name, err)
		}
		s.log.InfoContext(ctx, "month of the archive dropped", "table", p.name)
	}
	return nil
}

// next is the month into which rows of a part come when that has gone: see clamp.
func next(parts []monthTable, p monthTable) month {
	after := monthOf(time.Unix(1<<40, 0))
	for _, other := range parts {
		if other.table == p.table && other.state == attached && other.month > p.month {
			after = min(after, other.month)
		}
	}
	return after
}

// dropPart detaches a part and drops it. Writers do not wait for that, nor does it need
// more than a moment's lock. What has not finished keeps its message, in another month.
func (s *session) dropPart(ctx context.Context, p monthTable, to month) error {
	if p.state == attached { // also before: else what has not finished lacked its message meanwhile
		if err := s.carry(ctx, p, to); err != nil {
			return err
		}
	}
	wait, cancel := context.WithTimeout(ctx, detachTime) // no setting does: a pooler would hand it to others
	defer cancel()
	if err := s.detach(wait, p); err != nil {
		return err
	}
	// Something may have been asked for anew since.
	if err := s.carry(ctx, p, to); err != nil {
		return err
	}
	return s.exec(ctx, "drop table hookladder."+p.name)
}

// detach makes a table of its own of a part. One that was interrupted is gone on with.
func (s *session) detach(ctx context.Context, p monthTable) error {
	text := "alter table hookladder." + p.table + " detach partition hookladder." + p.name
	switch p.state {
	case attached:
		return s.exec(ctx, text+" concurrently")
	case pending:
		return s.exec(ctx, text+" finalize")
	}
	return nil
}

// carry copies the messages of a part that have not finished to another month.
func (s *session) carry(ctx context.Context, p monthTable, to month) error {
	if p.table != "message" {
		return nil
	}
	return s.exec(ctx, `
		insert into hookladder.message (`+messageColumns+`)
		select '`+to.String()+`', created, id, tenant, subject, topic, size, head, body from hookladder.`+p.name+` m
		where exists (select from hookladder.open o where o.id = m.id)
		on conflict do nothing`)
}

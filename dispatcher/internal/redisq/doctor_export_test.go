package redisq

import (
	"context"
	"time"
)

// TagOf is the tag of a partition.
func TagOf(s *Raw, n int) string { return s.tags[n] }

// ExamineAmong examines a store where wait is called between two readings of the
// instances.
func (s *Store) ExamineAmong(ctx context.Context, e Examination, wait func()) (Examined, error) {
	d := newDoctor(s, e)
	d.wait = func(context.Context, time.Duration) bool { wait(); return true }
	return d.examine(ctx)
}

// ExamineLate examines a store where meanwhile is called after the instances
// were read, and before anything else.
func (s *Store) ExamineLate(ctx context.Context, e Examination, meanwhile func()) (Examined, error) {
	d := newDoctor(s, e)
	d.wait = func(context.Context, time.Duration) bool { meanwhile(); return true }
	if err := d.readKeys(ctx); err != nil {
		return d.out, err
	}
	meanwhile()
	err := d.lookThrough(ctx)
	return d.out, err
}

// CompareIndexes compares, and repairs, the indexes with a record as it was read.
func CompareIndexes(ctx context.Context, s *Raw, id, stored string) error {
	d := newDoctor(s.queue, Examination{Fix: true})
	_, err := s.conn.RunHome(ctx, endpointIndex, append([]any{1}, d.indexOf(id, stored)...)...)
	return err
}

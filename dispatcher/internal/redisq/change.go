package redisq

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/read"
)

// changeBatch is the most deliveries in one call of cancel and retry. To remove 128 from a list
// blocks Redis for about 2 ms.
const changeBatch = 128

// Codes that cancel and retry return for a delivery.
const (
	codeUnknown   = -1
	codeInFlight  = -2
	codeDisabled  = -3
	codeDeleted   = -4
	codeDelivered = -5
	codeExpired   = -6
	codeOrder     = -7
	codeMarked    = 2
)

// refusals maps the codes to errors.
var refusals = map[int64]error{
	codeUnknown: dispatcher.ErrNotFound, codeInFlight: dispatcher.ErrInFlight, codeDisabled: dispatcher.ErrDisabled,
	codeDeleted: dispatcher.ErrDeleted, codeDelivered: dispatcher.ErrDelivered, codeExpired: dispatcher.ErrExpired,
	codeOrder: dispatcher.ErrOrder,
}

// Limits of Cancel in long lists. The script finds a delivery only near the ends of its list.
// Cancel then reads up to deepLanes lanes, and deepSteps pages of 1,024 deliveries of each. A
// delivery beyond that ends when it is read.
const (
	deepLanes = 8
	deepSteps = 256
)

// Cancel ends deliveries that are not finished.
func (s *Store) Cancel(ctx context.Context, by string, ids []dispatcher.DeliveryID) ([]dispatcher.Change, error) {
	changes, err := s.change(ctx, cancelScript, by, ids, []any{noJob})
	var deep []dispatcher.Lane
	for _, c := range changes {
		if c.Marked && !slices.Contains(deep, c.ID.Lane) {
			deep = append(deep, c.ID.Lane)
		}
	}
	for _, lane := range deep[:min(len(deep), deepLanes)] {
		if _, fault := s.carryOut(ctx, by, lane, deepSteps); fault != nil {
			break // they are marked as cancelled and end later
		}
	}
	return changes, err
}

// CarryOut ends the marked deliveries in a lane's ready list that Cancel did not find because the
// list is long. It reads the whole list in pages.
func (s *Store) CarryOut(ctx context.Context, by string, lane dispatcher.Lane) (ended int, err error) {
	return s.carryOut(ctx, by, lane, math.MaxInt)
}

// CarryOutAll is CarryOut for all lanes of a partition with deliveries that a cancel marked. The
// marks themselves name the lanes, so it finds them also after a job was killed.
func (s *Store) CarryOutAll(ctx context.Context, by string, partition int) error {
	swept := map[dispatcher.Lane]bool{}
	for cursor, more := "", true; more; more = cursor != "" {
		found, next, err := s.conn.Scan(ctx, "read marks", partition, cursor, func(p redis.Pipeliner, at uint64) *redis.ScanCmd {
			return p.HScan(ctx, s.conn.Tag(partition)+keys.Marks, at, "", marksAtOnce)
		})
		if err != nil {
			return err
		}
		cursor = next
		for i := 0; i+1 < len(found); i += 2 {
			id, ok := dispatcher.ParseDeliveryID(found[i])
			if !ok || found[i+1] != markCancelled || swept[id.Lane] || s.conn.PartitionOf(id.Lane) != partition {
				continue
			}
			swept[id.Lane] = true
			if _, err := s.CarryOut(ctx, by, id.Lane); err != nil {
				return err
			}
		}
	}
	return nil
}

const (
	markCancelled = "c"
	marksAtOnce   = 1000
)

func (s *Store) carryOut(ctx context.Context, by string, lane dispatcher.Lane, steps int) (ended int, err error) {
	n := s.conn.PartitionOf(lane)
	for skip := int64(0); skip >= 0 && steps > 0; steps-- {
		r := s.conn.Send(ctx, conn.Batch{Script: sweepScript, By: by, Calls: []conn.Call{{Partition: n, Args: []any{string(lane), "m", skip}}}})[0]
		h, ok := r.Hint()
		if !ok {
			return ended, s.conn.InPartition(n, r.Err)
		}
		s.observeDeaths(h)
		ended += int(r.Number())
		skip = r.Number()
	}
	return ended, nil
}

// Retry makes deliveries ready at once.
func (s *Store) Retry(ctx context.Context, by string, ids []dispatcher.DeliveryID, delivered bool) ([]dispatcher.Change, error) {
	names, err := read.InstanceNames(ctx, s.conn)
	if err != nil {
		return nil, err
	}
	again := 0
	if delivered {
		again = 1
	}
	return s.change(ctx, retryScript, by, ids, append([]any{again, noJob, dispatcher.CallerOf(ctx)}, names...))
}

// Reschedule lets waiting deliveries be due at another time. A delivery that is not changed has no
// error if an attempt is under way or was asked for, or if it has ended, else ErrExpired, ErrOrder or ErrNotFound.
func (s *Store) Reschedule(ctx context.Context, by string, ids []dispatcher.DeliveryID, at time.Time) ([]dispatcher.Change, error) {
	return s.change(ctx, rescheduleScript, by, ids, []any{at.Add(time.Millisecond - 1).UnixMilli()})
}

// Erase removes deliveries that have ended; their ids stay known. A delivery that has not ended
// gets ErrInFlight. A delivery that is not kept gets ErrNotFound. If a delivery is left without an
// error, the caller may retry it.
func (s *Store) Erase(ctx context.Context, by string, ids []dispatcher.DeliveryID) ([]dispatcher.Change, error) {
	return s.change(ctx, eraseScript, by, ids, nil)
}

// noJob is passed to a script if a person makes the call. The script then returns an empty text
// instead of the job's text.
const noJob = ""

// JobStep changes at most changeBatch deliveries for a job. The script that changes them also
// counts them.
func (s *Store) JobStep(ctx context.Context, by, job string, step dispatcher.JobStep) (text string, codes []int64, err error) {
	sc, args := cancelScript, []any{job}
	switch step.Job.Kind {
	case dispatcher.JobRetry:
		// A delivery that has ended is leased to no instance, so no instance is named.
		sc, args = retryScript, []any{conn.Flag(step.Status == dispatcher.StatusDelivered), job, step.Job.By, 0}
	case dispatcher.JobPurge:
		sc = purgeScript
	}
	for _, id := range step.IDs {
		args = append(args, id.String())
	}
	r := s.conn.Send(ctx, conn.Batch{Script: sc, By: by, Calls: []conn.Call{{Partition: step.Part, Args: args}}})[0]
	h, ok := r.Hint()
	if !ok {
		return "", nil, s.conn.InPartition(step.Part, r.Err)
	}
	s.observeDeaths(h)
	text = r.Text()
	if text == "" && r.Err == nil {
		return "", nil, dispatcher.ErrJobTurn
	}
	for range step.IDs {
		codes = append(codes, r.Number())
	}
	return text, codes, r.Err
}

func (s *Store) change(ctx context.Context, sc conn.Script, by string, ids []dispatcher.DeliveryID, before []any) ([]dispatcher.Change, error) {
	shares := conn.Grouped(len(ids), changeBatch, func(i int) int { return s.conn.PartitionOf(ids[i].Lane) })
	calls := make([]conn.Call, len(shares))
	for k, share := range shares {
		args := append(make([]any, 0, len(before)+len(share.At)), before...)
		for _, i := range share.At {
			args = append(args, ids[i].String())
		}
		calls[k] = conn.Call{Partition: share.Partition, Args: args}
	}
	changes := make([]dispatcher.Change, len(ids))
	var unknown []int // partitions in which a delivery was not found
	err := s.conn.SendEach(ctx, conn.Batch{Script: sc, By: by, Calls: calls}, func(k int, r *conn.Call) error {
		if h, ok := r.Hint(); ok {
			s.observeDeaths(h)
			r.Text() // noJob
		}
		for _, at := range shares[k].At {
			changes[at] = dispatcher.Change{ID: ids[at]}
			if r.Err != nil {
				continue
			}
			code := r.Number()
			changes[at].Changed, changes[at].Err = code == 1 || code == codeMarked, refusals[code]
			changes[at].Marked = code == codeMarked
			if code == codeUnknown && !slices.Contains(unknown, r.Partition) {
				unknown = append(unknown, r.Partition)
			}
		}
		return r.Err
	})
	if len(unknown) > 0 {
		err = conn.JoinErrors(err, s.conn.Intact(ctx, unknown...))
	}
	return changes, err
}

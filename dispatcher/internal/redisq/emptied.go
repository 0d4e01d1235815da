package redisq

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// refuseLost refuses entries that need lost data. Notices of the store itself are accepted, because
// they report the loss. A fan-out is refused as a whole.
func (s *Store) refuseLost(batch []dispatcher.Entry, loss *dispatcher.Emptied, out []dispatcher.ScheduleResult) {
	for i := range batch {
		e := &batch[i]
		if !e.Message.OfStore() && s.needsLost(e, loss) {
			out[i].Err = fmt.Errorf("message %s: %w", e.Message.ID, loss)
		}
	}
}

func (s *Store) needsLost(e *dispatcher.Entry, loss *dispatcher.Emptied) bool {
	if loss.Home && (loss.Archived || e.Fan) {
		return true
	}
	for _, lane := range e.Lanes {
		if loss.Home && lane.IsEndpoint() || loss.Has(s.conn.PartitionOf(lane)) {
			return true
		}
	}
	return false
}

// emptiedWord begins the reply of schedule if the partition has another epoch than the caller
// passed.
const emptiedWord = "EMPTIED"

// lostIn returns an error with the data that were lost, after schedule reported a loss. If the
// data were restored or given up in the meantime, it returns an error of a call that may be
// retried.
func (s *Store) lostIn(ctx context.Context, err error) error {
	if err == nil || !strings.HasPrefix(conn.Word(err), emptiedWord) {
		return err
	}
	if failed := s.conn.Verify(ctx); failed != nil {
		return failed
	}
	if loss := s.conn.Loss(); loss != nil {
		return fmt.Errorf("schedule: %w", loss)
	}
	return err
}

// Intact checks, after a query found nothing, that the store still has the data with which this
// instance began.
func (s *Store) Intact(ctx context.Context, lanes ...dispatcher.Lane) error {
	return s.conn.IntactOf(ctx, lanes)
}

// Emptied reports the data that were lost and neither restored nor given up. It returns nil if
// there are none.
func (s *Store) Emptied() *dispatcher.Emptied { return s.conn.Loss() }

// EndLoss records that the lost data were restored or given up. If the keys of home were lost, so
// were the names of the instances. Instances that have leases in other partitions and send no beat
// are recorded as departed. Another instance then takes over from them. EndLoss notifies all
// instances; an instance that misses the notice continues with its next beat.
func (s *Store) EndLoss(ctx context.Context, loss *dispatcher.Emptied) error {
	if loss.Home {
		if err := s.noteHolders(ctx); err != nil {
			return err
		}
	}
	if err := s.conn.EndLoss(ctx, loss); err != nil {
		return err
	}
	if err := s.Stir(ctx); err != nil { // the loss has ended in any case
		s.log.Warn("instances were not notified that the loss is over: they continue with their next beats", "err", err)
	}
	return nil
}

// Stir has all instances read the log now and check whether a loss has ended. It publishes the
// request as a change of an endpoint.
func (s *Store) Stir(ctx context.Context) error {
	if s.polls {
		return nil
	}
	return s.conn.At(ctx, "publish", conn.Home, func(p redis.Pipeliner) {
		p.Publish(ctx, s.home()+keys.EndpointsChannel, s.conn.ID()+" 0 "+noEndpoint+" ")
	})
}

// noEndpoint is the id in a change that concerns no endpoint.
const noEndpoint = "-"

// stirred checks whether a loss has ended. If it fails, the next beat checks again.
func (s *Store) stirred(ctx context.Context) {
	if err := s.conn.Verify(ctx); err != nil {
		s.log.Debug("not looked whether the loss is over", "err", err)
	}
}

// holdersAtOnce is the approximate number of keys that one command scans.
const holdersAtOnce = 1000

// noteHolders finds the instances that have leases, from the names of the keys. A key created
// during the scan belongs to an instance that sends beats.
func (s *Store) noteHolders(ctx context.Context) error {
	found := map[string]bool{}
	for key, err := range s.conn.KeyNames(ctx, "{"+s.conn.Project()+":*}"+keys.Leases+"*", holdersAtOnce) {
		if err != nil {
			return fmt.Errorf("find who holds leases: %w", err)
		}
		if _, name, ok := strings.Cut(key, keys.Leases); ok {
			found[name] = true
		}
	}
	var living *redis.StringSliceCmd
	err := s.conn.At(ctx, "read instances", conn.Home, func(p redis.Pipeliner) { living = p.HKeys(ctx, s.instances()) })
	if err != nil {
		return err
	}
	for _, name := range living.Val() {
		delete(found, name)
	}
	if len(found) == 0 {
		return nil
	}
	at := float64(time.Now().UnixMilli())
	return s.conn.At(ctx, "note departed instances", conn.Home, func(p redis.Pipeliner) {
		for name := range found {
			p.ZAdd(ctx, s.home()+keys.Departed, redis.Z{Score: at, Member: name})
		}
	})
}

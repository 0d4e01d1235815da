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

// refuseLost refuses the entries that need data which were lost. Notices of the store
// itself are taken, since they report the loss. A fan-out is refused as a whole.
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

// emptiedWord begins schedule's answer where a partition has another epoch than it was
// told.
const emptiedWord = "EMPTIED"

// lostIn finds out what was lost where schedule answered so. Where it was restored or
// given up meanwhile, the error stays one of a call that may be repeated.
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

// Intact makes sure, after nothing was found, that the store still has the data with
// which this instance began.
func (s *Store) Intact(ctx context.Context, lanes ...dispatcher.Lane) error {
	return s.conn.IntactOf(ctx, lanes)
}

// Emptied is what was lost, and neither restored nor given up; nil: nothing.
func (s *Store) Emptied() *dispatcher.Emptied { return s.conn.Loss() }

// EndLoss notes that what was lost was restored, or given up. Where home was lost, so were the
// names of the instances. Those that hold leases elsewhere and do not beat count as departed,
// so that an instance takes over from them. All instances are told; those that can't hear
// continue with their next beat.
func (s *Store) EndLoss(ctx context.Context, loss *dispatcher.Emptied) error {
	if loss.Home {
		if err := s.noteHolders(ctx); err != nil {
			return err
		}
	}
	if err := s.conn.EndLoss(ctx, loss); err != nil {
		return err
	}
	if err := s.Stir(ctx); err != nil { // the loss is over all the same
		s.log.Warn("instances were not told that the loss is over: they continue with their next beats", "err", err)
	}
	return nil
}

// Stir has all instances look at the log now, and whether a loss is over. It asks in the
// words that tell of a change of an endpoint.
func (s *Store) Stir(ctx context.Context) error {
	if s.polls {
		return nil
	}
	return s.conn.At(ctx, "publish", conn.Home, func(p redis.Pipeliner) {
		p.Publish(ctx, s.home()+keys.EndpointsChannel, s.conn.ID()+" 0 "+noEndpoint+" ")
	})
}

// noEndpoint is the id of none.
const noEndpoint = "-"

// stirred looks whether a loss is over. Without it the next beat does.
func (s *Store) stirred(ctx context.Context) {
	if err := s.conn.Verify(ctx); err != nil {
		s.log.Debug("not looked whether the loss is over", "err", err)
	}
}

// holdersAtOnce is about how many keys one command goes through.
const holdersAtOnce = 1000

// noteHolders finds who holds leases by the names of the keys. A key that comes meanwhile is
// of an instance that beats.
func (s *Store) noteHolders(ctx context.Context) error {
	found := map[string]bool{}
	for key, err := range s.conn.KeyNames(ctx, "{"+s.project+":*}"+keys.Leases+"*", holdersAtOnce) {
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

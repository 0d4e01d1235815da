package redisq

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/partitions"
)

// A subscription that was quiet for pingEvery gets a ping and has pongWithin to
// answer. The 3 s of go-redis would be a third of all the commands of an idle
// instance, and go-redis ignores a missing answer.
const (
	pingEvery  = 30 * time.Second
	pongWithin = 5 * time.Second
)

// errSilent ends a subscription whose other end does not answer.
var errSilent = errors.New("the subscription does not answer")

// Polls reports that Watch must not be called.
func (s *Store) Polls() bool { return s.polls }

// findPubSub finds out whether pub/sub may be used. A proxy may not know it,
// and a user may lack the right. A script would be refused at its PUBLISH,
// after its writes. So this must be known before.
func (s *Store) findPubSub(ctx context.Context) error {
	if s.polls {
		return nil
	}
	sub := s.conn.Redis().Subscribe(ctx, s.home()+keys.WakeChannel, s.home()+keys.EndpointsChannel)
	_, err := sub.ReceiveTimeout(ctx, conn.ReadWithin)
	err = errors.Join(err, sub.Close())
	if err == nil {
		err = s.conn.At(ctx, "publish", conn.Home, func(p redis.Pipeliner) {
			p.Publish(ctx, s.home()+keys.WakeChannel, noHint)
			p.Publish(ctx, s.home()+keys.EndpointsChannel, noHint)
		})
	}
	switch word := conn.Word(err); {
	case err == nil:
		return nil
	case word == "" || conn.Meaning(err) != nil:
		return conn.Failed("subscribe", err)
	default:
		s.log.Warn("pub/sub may not be used, so the store is asked again and again", "err", err)
		s.polls = true
		return nil
	}
}

// noHint is published only to find out whether publishing is allowed. It
// belongs to no project.
const noHint = ""

// Watch takes in the hints of other instances, and tells the subscriber what
// became of endpoints. It also tells where something may have been missed: when it
// begins, and when another node may have taken over.
func (s *Store) Watch(ctx context.Context, by string, to dispatcher.Subscriber) error {
	return s.WatchHints(ctx, by, to, s.partitions.Heard)
}

// WatchHints is Watch, but hands the hints on instead of taking them in. It listens
// on one connection to both channels, and returns when that ends.
func (s *Store) WatchHints(ctx context.Context, by string, to dispatcher.Subscriber, onHint func(partitions.Hint)) error {
	wake, endpoints := s.home()+keys.WakeChannel, s.home()+keys.EndpointsChannel
	sub := s.conn.Redis().Subscribe(ctx, wake, endpoints)
	end := func() { _ = sub.Close() } // its connection is gone in any case
	defer end()
	defer context.AfterFunc(ctx, end)() // the wait for messages takes no context
	if to.OnGap == nil {
		to.OnGap = func() {}
	}
	var beside sync.WaitGroup
	defer beside.Wait()
	watching, stop := context.WithCancel(ctx)
	defer stop()
	beside.Go(func() { s.watchTakeovers(watching, to.OnGap) })
	for asked := false; ; {
		wait := pingEvery
		if asked {
			wait = pongWithin
		}
		event, err := sub.ReceiveTimeout(ctx, wait)
		switch {
		case ctx.Err() != nil:
			return nil
		case conn.IsTimeout(err) && !asked:
			err, asked = sub.Ping(ctx), true
		case conn.IsTimeout(err):
			err = errSilent
		default:
			asked = false
		}
		if ctx.Err() != nil {
			return nil // it ended during the ping
		}
		if err != nil {
			return conn.Failed("watch", err)
		}
		switch e := event.(type) {
		case *redis.Subscription:
			if e.Channel == wake { // one command subscribes to both channels
				s.conn.Doubt()
				to.OnGap()
			}
		case *redis.Message:
			if e.Channel == wake {
				s.heardHint(e.Payload, by, onHint, to.OnTakeable)
			} else if s.heardEndpoint(e.Payload, to.OnEndpoint) && s.Emptied() != nil {
				beside.Go(func() { s.stirred(watching) })
			}
		}
	}
}

// takeoverEvery is the shortest time between two reports of a takeover: many
// calls notice the same one.
const takeoverEvery = time.Second

// watchTakeovers reports each takeover until ctx ends.
func (s *Store) watchTakeovers(ctx context.Context, lost func()) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.conn.Takeovers():
			lost()
			conn.Sleep(ctx, takeoverEvery)
		}
	}
}

func (s *Store) heardHint(text, by string, onHint func(partitions.Hint), onTakeable func([]dispatcher.Lane)) {
	text, ours := s.conn.Ours(text)
	if !ours {
		return
	}
	if _, lanes, ok := strings.Cut(text, takeable); ok {
		if onTakeable != nil {
			onTakeable(lanesIn(lanes))
		}
		return
	}
	h, from, err := parseHint(text)
	switch {
	case err != nil || h.Partition < 0 || h.Partition >= len(s.tags):
		s.log.Warn("hint can't be read", "err", err)
	case from != by:
		onHint(h)
	}
}

// heardEndpoint reports whether the change is of no endpoint.
func (s *Store) heardEndpoint(text string, onEndpoint func(dispatcher.EndpointChange)) (stirs bool) {
	text, ours := s.conn.Ours(text)
	if !ours {
		return false
	}
	change, err := parseChange(text)
	switch {
	case err != nil:
		s.log.Warn("change of an endpoint can't be read", "err", err)
	case onEndpoint != nil:
		onEndpoint(change)
	}
	return change.ID == noEndpoint
}

// takeable stands before the lanes of a hint that tells what may be taken.
const takeable = " q "

func lanesIn(text string) (lanes []dispatcher.Lane) {
	for lane := range strings.FieldsSeq(text) {
		lanes = append(lanes, dispatcher.Lane(lane))
	}
	return lanes
}

// parseHint reads a published hint after the project's id: partition, now, due,
// weight, and the instance that called the script.
func parseHint(text string) (h partitions.Hint, by string, err error) {
	var now, due int64
	if _, err = fmt.Sscanf(text, "%d %d %d %d %s", &h.Partition, &now, &due, &h.Weight, &by); err != nil {
		return h, "", fmt.Errorf("hint %q: %w", text, err)
	}
	h.Now, h.Due = time.UnixMicro(now).UTC(), conn.FromMillis(due)
	return h, by, nil
}

// parseChange reads a published change of an endpoint after the project's id.
// It has the version (0 for a deleted one), the id, and the tenant, which may
// be empty.
func parseChange(text string) (c dispatcher.EndpointChange, err error) {
	version, rest, ok := strings.Cut(text, " ")
	c.ID, c.Tenant, _ = strings.Cut(rest, " ")
	c.Version, err = strconv.ParseInt(version, 10, 64)
	if !ok || err != nil || c.Version < 0 || c.ID == "" {
		return dispatcher.EndpointChange{}, fmt.Errorf("change %q: %w", text, conn.ErrReply)
	}
	return c, nil
}

// ReadHints reads the hints of partitions by plain commands.
func (s *Store) ReadHints(ctx context.Context, in []int) ([]partitions.Hint, error) {
	heads := make([][3]*redis.ZSliceCmd, len(in))
	calls := make([]conn.Call, len(in))
	for i, n := range in {
		calls[i] = conn.Call{Partition: n, Fill: func(p redis.Pipeliner) {
			for k, key := range []string{keys.Lanes, keys.Due, keys.Parked} {
				heads[i][k] = p.ZRangeWithScores(ctx, s.tags[n]+key, 0, 0)
			}
		}}
	}
	hints := make([]partitions.Hint, 0, len(in))
	var errs []error
	for i, e := range s.conn.Send(ctx, conn.Batch{Doing: "peek", Clock: true, Calls: calls}) {
		if e.Err != nil {
			errs = append(errs, s.conn.InPartition(e.Partition, e.Err))
			continue
		}
		h := partitions.Hint{Partition: e.Partition, Now: e.Now, Sent: e.Sent, Weight: -1}
		if head := heads[i][0].Val(); len(head) > 0 {
			h.Weight = int(max(0, min(head[0].Score/keys.Turn, keys.MostWeight))) // also while every lane is held; a claim finds that out
		}
		for _, times := range heads[i][1:] {
			if head := times.Val(); len(head) > 0 && head[0].Score <= conn.LatestMillis {
				if at := time.UnixMilli(int64(max(head[0].Score, 1))).UTC(); h.Due.IsZero() || at.Before(h.Due) {
					h.Due = at
				}
			}
		}
		hints = append(hints, h)
	}
	return hints, partitions.Join(errs...)
}

// Notify has e called from now on.
func (s *Store) Notify(e dispatcher.Events) {
	s.events = e.Whole()
	s.partitions.Notify(s.events)
	s.conn.OnLoss(s.events.Emptied)
}

// Now is what time it is by Redis' clock, as far as answers told.
func (s *Store) Now() time.Time { return s.partitions.Now() }

// Nodes is the number of masters.
func (s *Store) Nodes() int { return s.nodes }

// observe takes in what a script answered with.
func (s *Store) observe(h partitions.Hint) {
	s.partitions.Answered(h)
	if s.answered != nil {
		s.answered(h)
	}
}

// observeDeaths is observe where the caller is not told what died.
func (s *Store) observeDeaths(h partitions.Hint) {
	s.observe(h)
	if len(h.Dead) > 0 {
		s.events.Dead(h.Dead)
	}
}

// observeEnds notes that deliveries ended in a partition, which is to be trimmed then.
func (s *Store) observeEnds(partition, deliveries int) {
	if deliveries > 0 {
		s.partitions.Ended(partition)
		s.events.Ended(deliveries)
	}
}

// observeBreakers tells of the breakers that a call opened and closed, and since when
// their lanes fail.
func (s *Store) observeBreakers(h partitions.Hint, failing map[dispatcher.Lane]time.Time) {
	for _, o := range h.Opened {
		s.events.Opened(o.Lane, failing[o.Lane], o.Until.Sub(h.Now))
	}
	for _, lane := range h.Closed {
		s.events.Closed(lane, failing[lane])
	}
}

// Look reads the hints of all partitions, or of those of which an answer was lost.
func (s *Store) Look(ctx context.Context, all bool) (wait time.Duration, err error) {
	list, wait := s.partitions.Unseen()
	if all {
		list = s.conn.All()
	}
	if len(list) == 0 {
		return wait, nil
	}
	hints, err := s.ReadHints(ctx, list)
	for _, h := range hints {
		s.partitions.Heard(h)
	}
	s.partitions.Fail(err)
	return 0, err
}

// Cost is what Look and HeldLanes take: a partition costs three commands to look
// at, and the time one more.
func (s *Store) Cost() (look, held int) { return 3*len(s.tags) + 1, len(s.tags) }

// ReadClock reads the clock of one partition.
func (s *Store) ReadClock(ctx context.Context) error {
	hints, err := s.ReadHints(ctx, []int{0})
	for _, h := range hints {
		s.partitions.Heard(h)
	}
	return err
}

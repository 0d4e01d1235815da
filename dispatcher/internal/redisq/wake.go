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
	"github.com/hookladder/hookladder/dispatcher/internal/wait"
)

// A subscription that was quiet for pingEvery gets a ping. It must reply within pongWithin. The
// health check of go-redis runs every 3 s, so its pings would be a third of all commands of an idle
// instance. It also ignores a missing reply.
const (
	pingEvery  = 30 * time.Second
	pongWithin = 5 * time.Second
)

// errSilent ends a subscription if the other end does not reply.
var errSilent = errors.New("the subscription does not answer")

// Polls reports whether the store must be polled because Watch must not be called.
func (s *Store) Polls() bool { return s.polls }

// findPubSub checks whether pub/sub may be used. A proxy may not support it, and a user may lack
// the permission. The check comes first, because Redis would reject a script at its PUBLISH, after
// its writes.
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

// noHint is published only to check whether publishing is allowed. It belongs to no project.
const noHint = ""

// Watch records the hints of other instances and reports changes of endpoints to the subscriber. It
// calls to.OnGap when messages may have been missed. That is the case at the start, and after a
// possible takeover by another node.
func (s *Store) Watch(ctx context.Context, by string, to dispatcher.Subscriber) error {
	return s.WatchHints(ctx, by, to, s.partitions.Heard)
}

// WatchHints works like Watch, but passes the hints to onHint instead of recording them. It listens
// to both channels on one connection, and returns when the connection ends.
func (s *Store) WatchHints(ctx context.Context, by string, to dispatcher.Subscriber, onHint func(conn.Hint)) error {
	wake, endpoints := s.home()+keys.WakeChannel, s.home()+keys.EndpointsChannel
	sub := s.conn.Redis().Subscribe(ctx, wake, endpoints)
	end := func() { _ = sub.Close() } // the connection is closed in any case
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
			return nil // ctx ended during the ping
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

// takeoverEvery is the shortest time between two reports of a takeover. It is needed because many
// calls notice the same takeover.
const takeoverEvery = time.Second

// watchTakeovers reports each takeover until ctx ends.
func (s *Store) watchTakeovers(ctx context.Context, lost func()) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.conn.Takeovers():
			lost()
			wait.Sleep(ctx, takeoverEvery)
		}
	}
}

func (s *Store) heardHint(text, by string, onHint func(conn.Hint), onTakeable func([]dispatcher.Lane)) {
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
	case err != nil || h.Partition < 0 || h.Partition >= s.conn.Partitions():
		s.log.Warn("hint can't be read", "err", err)
	case from != by:
		onHint(h)
	}
}

// heardEndpoint passes a change to the subscriber. It reports whether the change concerns no
// endpoint.
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

// takeable separates the lanes in a hint that lists lanes with deliveries to take.
const takeable = " q "

func lanesIn(text string) (lanes []dispatcher.Lane) {
	for lane := range strings.FieldsSeq(text) {
		lanes = append(lanes, dispatcher.Lane(lane))
	}
	return lanes
}

// parseHint parses a published hint after the project's id. The hint has the partition, the fields
// now, due and weight, and the instance that called the script.
func parseHint(text string) (h conn.Hint, by string, err error) {
	var now, due int64
	if _, err = fmt.Sscanf(text, "%d %d %d %d %s", &h.Partition, &now, &due, &h.Weight, &by); err != nil {
		return h, "", fmt.Errorf("hint %q: %w", text, err)
	}
	h.Now, h.Due = time.UnixMicro(now).UTC(), conn.FromMillis(due)
	return h, by, nil
}

// parseChange parses a published change of an endpoint after the project's id. It has the version
// (0 for a deleted endpoint), the id, and the tenant, which may be empty.
func parseChange(text string) (c dispatcher.EndpointChange, err error) {
	version, rest, ok := strings.Cut(text, " ")
	c.ID, c.Tenant, _ = strings.Cut(rest, " ")
	c.Version, err = strconv.ParseInt(version, 10, 64)
	if !ok || err != nil || c.Version < 0 || c.ID == "" {
		return dispatcher.EndpointChange{}, fmt.Errorf("change %q: %w", text, conn.ErrReply)
	}
	return c, nil
}

// ReadHints returns the hints of partitions. It reads them by plain commands.
func (s *Store) ReadHints(ctx context.Context, in []int) ([]conn.Hint, error) {
	heads := make([][3]*redis.ZSliceCmd, len(in))
	calls := make([]conn.Call, len(in))
	for i, n := range in {
		calls[i] = conn.Call{Partition: n, Fill: func(p redis.Pipeliner) {
			for k, key := range []string{keys.Lanes, keys.Due, keys.Parked} {
				heads[i][k] = p.ZRangeWithScores(ctx, s.conn.Tag(n)+key, 0, 0)
			}
		}}
	}
	hints := make([]conn.Hint, 0, len(in))
	err := s.conn.SendEach(ctx, conn.Batch{Doing: "peek", Clock: true, Calls: calls}, func(i int, e *conn.Call) error {
		if e.Err != nil {
			return e.Err
		}
		h := conn.Hint{Partition: e.Partition, Now: e.Now, Sent: e.Sent, Weight: -1}
		if head := heads[i][0].Val(); len(head) > 0 {
			h.Weight = int(max(0, min(head[0].Score/keys.Turn, keys.MostWeight))) // also if every lane is paused; a claim notices that
		}
		for _, times := range heads[i][1:] {
			if head := times.Val(); len(head) > 0 && head[0].Score <= conn.LatestMillis {
				if at := time.UnixMilli(int64(max(head[0].Score, 1))).UTC(); h.Due.IsZero() || at.Before(h.Due) {
					h.Due = at
				}
			}
		}
		hints = append(hints, h)
		return nil
	})
	return hints, err
}

// Notify sets the events that the store calls from now on.
func (s *Store) Notify(e dispatcher.Events) {
	s.events = e.Whole()
	s.partitions.Notify(s.events)
	s.conn.OnLoss(s.events.Emptied)
}

// Now returns the time by the clock of Redis, estimated from the replies so far.
func (s *Store) Now() time.Time { return s.partitions.Now() }

// ClockJumps returns the number of jumps of Redis' clock that this process noticed.
func (s *Store) ClockJumps() int64 { return s.partitions.Jumps() }

// Nodes returns the number of masters.
func (s *Store) Nodes() int { return s.nodes }

// observe records the hint that a script returned.
func (s *Store) observe(h conn.Hint) {
	s.partitions.Answered(h)
	if s.answered != nil {
		s.answered(h)
	}
}

// observeDeaths records a hint, and reports its dead deliveries to the events. It is for calls that
// do not return them.
func (s *Store) observeDeaths(h conn.Hint) {
	s.observe(h)
	if len(h.Dead) > 0 {
		s.events.Dead(h.Dead)
	}
}

// Poll reads the hints of all partitions, or only of the partitions whose last reply was lost.
func (s *Store) Poll(ctx context.Context, all bool) (wait time.Duration, err error) {
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

// Cost returns the number of commands of Poll and of StoppedLanes. Poll takes three commands for each
// partition and one for the time.
func (s *Store) Cost() (poll, paused int) { return 3*s.conn.Partitions() + 1, s.conn.Partitions() }

// ReadClock reads the clock of one partition.
func (s *Store) ReadClock(ctx context.Context) error {
	hints, err := s.ReadHints(ctx, []int{0})
	for _, h := range hints {
		s.partitions.Heard(h)
	}
	return err
}

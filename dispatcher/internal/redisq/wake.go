package redisq

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
)

// pingEvery is how often a quiet subscription is asked whether it still lives.
// go-redis' 3 s would be a third of all the commands an idle instance sends.
const pingEvery = 30 * time.Second

// Watch tells the ears what other instances published, and where something may
// have been missed: at the start and at each new subscription. One connection
// serves both channels.
func (s *Store) Watch(ctx context.Context, by string, ears dispatcher.Ears) error {
	wake, endpoints := s.home()+channelWake, s.home()+channelEndpoints
	sub := s.rdb.Subscribe(ctx, wake, endpoints)
	defer func() { _ = sub.Close() }() // its connection is gone either way
	events := sub.ChannelWithSubscriptions(redis.WithChannelHealthCheckInterval(pingEvery))
	for {
		select {
		case <-ctx.Done():
			return nil
		case event, ok := <-events:
			if !ok {
				return nil
			}
			switch e := event.(type) {
			case *redis.Subscription:
				if e.Channel == wake && ears.Lost != nil {
					ears.Lost() // one command subscribes to both
				}
			case *redis.Message:
				if e.Channel == wake {
					s.heardHint(e.Payload, by, ears)
				} else {
					s.heardEndpoint(e.Payload, ears)
				}
			}
		}
	}
}

func (s *Store) heardHint(text, by string, ears dispatcher.Ears) {
	h, from, err := parseHint(text)
	switch {
	case err != nil || h.Partition < 0 || h.Partition >= len(s.tags):
		s.log.Warn("hint can't be read", "err", err)
	case from != by && ears.Hint != nil:
		ears.Hint(h)
	}
}

func (s *Store) heardEndpoint(text string, ears dispatcher.Ears) {
	change, err := parseChange(text)
	switch {
	case err != nil:
		s.log.Warn("change of an endpoint can't be read", "err", err)
	case ears.Endpoint != nil:
		ears.Endpoint(change)
	}
}

// parseHint reads what a script published: partition, now, due, weight and who
// called the script.
func parseHint(text string) (h dispatcher.Hint, by string, err error) {
	var now, due int64
	if _, err = fmt.Sscanf(text, "%d %d %d %d %s", &h.Partition, &now, &due, &h.Weight, &by); err != nil {
		return h, "", fmt.Errorf("hint %q: %w", text, err)
	}
	h.Now, h.Due = time.UnixMicro(now).UTC(), fromMillis(due)
	return h, by, nil
}

// parseChange reads what a change of an endpoint published: its version, 0 for
// one that was deleted, its id, and its tenant, which may be empty.
func parseChange(text string) (c dispatcher.EndpointChange, err error) {
	version, rest, ok := strings.Cut(text, " ")
	c.ID, c.Tenant, _ = strings.Cut(rest, " ")
	c.Version, err = strconv.ParseInt(version, 10, 64)
	if !ok || err != nil || c.Version < 0 || c.ID == "" {
		return dispatcher.EndpointChange{}, fmt.Errorf("change %q: %w", text, errAnswer)
	}
	return c, nil
}

// Peek reads the hints of partitions by plain commands.
func (s *Store) Peek(ctx context.Context, partitions []int) ([]dispatcher.Hint, error) {
	now, err := s.now(ctx)
	if err != nil {
		return nil, err
	}
	lanes := make([]*redis.ZSliceCmd, len(partitions))
	times := make([][2]*redis.ZSliceCmd, len(partitions))
	_, err = s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, n := range partitions {
			lanes[i] = p.ZRangeWithScores(ctx, s.tags[n]+keyLanes, 0, 0)
			times[i][0] = p.ZRangeWithScores(ctx, s.tags[n]+keyDue, 0, 0)
			times[i][1] = p.ZRangeWithScores(ctx, s.tags[n]+keyParked, 0, 0)
		}
		return nil
	})
	if err != nil {
		return nil, s.failed("peek", err)
	}
	hints := make([]dispatcher.Hint, len(partitions))
	for i, n := range partitions {
		h := dispatcher.Hint{Partition: n, Now: now, Weight: -1}
		if head := lanes[i].Val(); len(head) > 0 {
			h.Weight = int(head[0].Score / turn) // also while every lane is held: then a claim says so
		}
		for _, heads := range times[i] {
			if head := heads.Val(); len(head) > 0 {
				if at := fromMillis(int64(head[0].Score)); h.Due.IsZero() || at.Before(h.Due) {
					h.Due = at
				}
			}
		}
		hints[i] = h
	}
	return hints, nil
}

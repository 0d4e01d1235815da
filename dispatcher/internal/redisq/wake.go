package redisq

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
)

// pingEvery is how often a quiet subscription is asked whether it still lives.
// go-redis' 3 s would be a third of all the commands an idle instance sends.
const pingEvery = 30 * time.Second

// Watch calls hint for what other instances published and lost where something
// may have been missed: at the start and at each new subscription.
func (s *Store) Watch(ctx context.Context, by string, hint func(dispatcher.Hint), lost func()) error {
	sub := s.rdb.Subscribe(ctx, "{"+s.project+"}"+channelWake)
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
				lost()
			case *redis.Message:
				h, from, err := parseHint(e.Payload)
				if err != nil || h.Partition >= len(s.tags) {
					s.log.Warn("hint can't be read", "err", err)
				} else if from != by {
					hint(h)
				}
			}
		}
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

// Peek reads the hints of partitions by plain commands.
func (s *Store) Peek(ctx context.Context, partitions []int) ([]dispatcher.Hint, error) {
	now, err := s.now(ctx)
	if err != nil {
		return nil, err
	}
	lanes := make([]*redis.ZSliceCmd, len(partitions))
	dues := make([]*redis.ZSliceCmd, len(partitions))
	_, err = s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, n := range partitions {
			lanes[i] = p.ZRangeWithScores(ctx, s.tags[n]+keyLanes, 0, 0)
			dues[i] = p.ZRangeWithScores(ctx, s.tags[n]+keyDue, 0, 0)
		}
		return nil
	})
	if err != nil {
		return nil, s.failed("peek", err)
	}
	hints := make([]dispatcher.Hint, len(partitions))
	for i, n := range partitions {
		hints[i] = dispatcher.Hint{Partition: n, Now: now, Weight: -1}
		if head := lanes[i].Val(); len(head) > 0 {
			hints[i].Weight = int(head[0].Score / turn)
		}
		if head := dues[i].Val(); len(head) > 0 {
			hints[i].Due = fromMillis(int64(head[0].Score))
		}
	}
	return hints, nil
}

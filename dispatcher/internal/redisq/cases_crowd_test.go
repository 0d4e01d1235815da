package redisq_test

import (
	"fmt"
	"strings"
	"sync"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// CrowdCases are about several instances that publish, claim and settle at once.
var CrowdCases = []redisqtest.Case{
	{Name: "limits and lines hold with three instances at once", Run: func(r *redisqtest.Rig) { mustHoldInCrowd(r, 60) }},
	{Name: "limits and lines hold with three instances at once, over several partitions", Setup: redisqtest.Spread, Run: func(r *redisqtest.Rig) {
		mustHoldInCrowd(r, 60)
	}},
}

// workforce counts the deliveries that all instances have in flight. An instance counts a
// delivery after the store leased it and removes it before it returns the lease.
// So the count is never above the store's.
type workforce struct {
	mu     sync.Mutex
	flying map[string]int
	most   map[string]int
	next   map[string]int // the number of the next delivery of each line
	served int
	faults redisqtest.Faults
}

// mustHoldInCrowd publishes n messages each to a lane with a limit of three, to
// an ordered lane, and under two keys of a third lane. It delivers them all.
func mustHoldInCrowd(r *redisqtest.Rig, n int) {
	r.Helper()
	r.Limit(redisqtest.EpOne, redisqtest.Most(3))
	r.Limit(redisqtest.EpTwo, redisqtest.Ordered)
	c := &workforce{
		flying: map[string]int{}, next: map[string]int{},
		most: map[string]int{"few": 3, "line": 1, "key0": 1, "key1": 1},
	}
	instances := []string{redisqtest.One, redisqtest.Two, "three"}
	var publishers, senders errgroup.Group
	for kind, lane := range map[string]dispatcher.Lane{"few": redisqtest.EpOne, "line": redisqtest.EpTwo, "key0": "a", "key1": "a"} {
		publishers.Go(func() error {
			for i := range n {
				e := r.Entry(fmt.Sprintf("%s-%04d", kind, i), redisqtest.To(lane))
				if lane == "a" {
					e.Message.OrderingKey = kind
				}
				by := instances[i%3]
				got, _, err := r.Queue.Schedule(r.Ctx, by, 512, i%2, []dispatcher.Entry{e})
				if err != nil || got[0].Err != nil {
					return fmt.Errorf("schedule %s: %w, %w", e.Message.ID, err, got[0].Err)
				}
				for _, leased := range redisqtest.Leased(got[0]) {
					if err := c.serve(r, by, []dispatcher.Claimed{{ID: redisqtest.Named(leased, e.Message.ID), Attempt: 1}}); err != nil {
						return err
					}
				}
			}
			return nil
		})
	}
	for _, by := range instances {
		senders.Go(func() error {
			for !c.done(4 * n) {
				claimed, _, err := r.Queue.Claim(r.Ctx, by, r.All(), 8, 512)
				if err != nil {
					return err
				}
				if err := c.serve(r, by, claimed); err != nil {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(r, publishers.Wait())
	require.NoError(r, senders.Wait())
	require.Empty(r, c.faults)
	require.Equal(r, map[dispatcher.Status]int64{dispatcher.StatusDelivered: int64(4 * n)}, r.Stats().Counts)
}

// serve delivers the deliveries that an instance leased.
func (c *workforce) serve(r *redisqtest.Rig, by string, claimed []dispatcher.Claimed) error {
	batch := make([]dispatcher.Settlement, len(claimed))
	c.mu.Lock()
	for i, got := range claimed {
		kind, number, _ := strings.Cut(got.ID.Message, "-")
		if c.flying[kind]++; c.flying[kind] > c.most[kind] {
			c.faults.Add("%s has %d in flight", got.ID, c.flying[kind])
		}
		if want := fmt.Sprintf("%04d", c.next[kind]); c.most[kind] == 1 && number != want {
			c.faults.Add("%s comes before number %s", got.ID, want)
		}
		c.next[kind]++
		batch[i] = redisqtest.Success(got)
	}
	c.mu.Unlock()
	if len(batch) == 0 {
		return nil
	}
	c.mu.Lock()
	for _, got := range claimed {
		c.served++
		kind, _, _ := strings.Cut(got.ID.Message, "-")
		c.flying[kind]--
	}
	c.mu.Unlock()
	_, _, err := r.Queue.Settle(r.Ctx, by, batch)
	return err
}

func (c *workforce) done(all int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.served >= all
}

package conn

import (
	"context"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// Share is the part of a list that one call sends to a partition.
type Share struct {
	Partition int
	At        []int // indices in the list, in its order
}

// Grouped divides a list of n things into shares by partition, of at most `most` things each; 0: no
// limit. The shares of a partition are in the order of the list, so calls in the same order see
// the effects of each other.
func Grouped(n, most int, partitionOf func(i int) int) []Share {
	var shares []Share
	open := make(map[int]int, 1) // partition → its last share
	for i := range n {
		partition := partitionOf(i)
		at, ok := open[partition]
		if !ok || most > 0 && len(shares[at].At) == most {
			at = len(shares)
			open[partition], shares = at, append(shares, Share{Partition: partition})
		}
		shares[at].At = append(shares[at].At, i)
	}
	return shares
}

// EachShare runs plain commands for each share, in one round trip. The error names the partition
// that failed.
func (c *Client) EachShare(ctx context.Context, doing string, shares []Share, fill func(p redis.Pipeliner, k int)) error {
	in := make([]int, len(shares))
	for k, share := range shares {
		in[k] = share.Partition
	}
	return c.EachPartition(ctx, doing, in, fill)
}

// SendEach sends a batch and passes each call to read, also one that failed. It joins the errors
// that read returns, each as the error of its partition.
func (c *Client) SendEach(ctx context.Context, b Batch, read func(i int, r *Call) error) error {
	var errs []error
	for i, done := 0, c.Send(ctx, b); i < len(done); i++ {
		if err := read(i, &done[i]); err != nil {
			errs = append(errs, c.InPartition(done[i].Partition, err))
		}
	}
	return JoinErrors(errs...)
}

// PartitionOf is the partition of a lane.
func (c *Client) PartitionOf(lane dispatcher.Lane) int {
	if len(c.tags) == 1 {
		return 0
	}
	return keys.Partition(string(lane), len(c.tags))
}

// PartitionsOf returns the partitions of lanes, in order. Without lanes it returns all.
func (c *Client) PartitionsOf(lanes []dispatcher.Lane) (in []int) {
	if len(lanes) == 0 {
		return c.All()
	}
	for _, lane := range lanes {
		in = append(in, c.PartitionOf(lane))
	}
	slices.Sort(in)
	return slices.Compact(in)
}

package conn

import (
	"context"
	"crypto/rand"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// Each partition has an epoch, a random name for its data. It is created with the
// partition and stored among the data, so it is lost with them. An instance remembers the
// epochs at its start. If one is missing or different later, the data of that partition
// were lost.

// NewEpoch returns a unique epoch. It begins with the current second.
func NewEpoch() string { return strconv.FormatInt(time.Now().Unix(), 36) + "-" + rand.Text() }

// EpochTime returns when the data of an epoch began, or zero if that is unknown.
func EpochTime(epoch string) time.Time {
	second, _, named := strings.Cut(epoch, "-")
	if at, err := strconv.ParseInt(second, 36, 64); named && err == nil && at > 0 {
		return time.Unix(at, 0).UTC()
	}
	return time.Time{}
}

// Epoch returns the epoch of a partition as this instance knows it; empty: not known yet.
func (c *Client) Epoch(partition int) string {
	if e := c.epochs[partition].Load(); e != nil {
		return *e
	}
	return ""
}

// Epochs returns the known epochs of all partitions.
func (c *Client) Epochs() (all []string) {
	for n := range c.tags {
		if e := c.Epoch(n); e != "" {
			all = append(all, e)
		}
	}
	return all
}

// learnEpoch stores the epoch of a partition.
func (c *Client) learnEpoch(partition int, epoch string) { c.epochs[partition].Store(&epoch) }

// MakeEpochs creates the epochs of a new project, or reads the existing ones. It skips a
// partition whose master can't be reached, unless all fail.
func (c *Client) MakeEpochs(ctx context.Context) error {
	meta, err := c.ReadMeta(ctx)
	if err != nil {
		return err
	}
	found, err := c.readEpochs(ctx, c.All())
	if err != nil {
		return err
	}
	made := meta.epochs
	var missing []int
	for n := range c.tags {
		epoch, answered := found[n]
		switch {
		case epoch != "":
			c.learnEpoch(n, epoch)
		case answered && !made:
			missing = append(missing, n)
		}
	}
	if made {
		return c.verifyKnown(ctx, found)
	}
	return c.makeMissing(ctx, missing, len(found) == len(c.tags))
}

// Whole returns an error if a project lost data of its first partitions, as far as a
// process can see that did not know them before.
func (c *Client) Whole(ctx context.Context, partitions int) error {
	meta, err := c.ReadMeta(ctx)
	if err != nil {
		return err
	}
	if meta.Loss != nil {
		return meta.Loss
	}
	if !meta.epochs {
		return nil
	}
	found, err := c.readEpochs(ctx, keys.Partitions(partitions))
	if err != nil {
		return err
	}
	loss := &dispatcher.Emptied{Archived: meta.Archive}
	for n := range partitions {
		if epoch, answered := found[n]; answered && epoch == "" {
			loss.Partitions = append(loss.Partitions, n)
		}
	}
	if len(loss.Partitions) > 0 {
		return loss
	}
	return nil
}

// verifyKnown records which partitions of an existing project have lost their epochs.
func (c *Client) verifyKnown(ctx context.Context, found map[int]string) error {
	for _, epoch := range found {
		if epoch == "" {
			return c.Verify(ctx)
		}
	}
	return nil
}

// makeMissing creates the epochs of partitions in a new project. all reports that no
// other partition lacks one.
func (c *Client) makeMissing(ctx context.Context, missing []int, all bool) error {
	if len(missing) > 0 {
		if err := c.giveEpochs(ctx, missing); err != nil {
			return err
		}
	}
	if !all {
		return nil
	}
	return c.writeMeta(ctx, metaChange{fields: []any{metaEpochs, 1}, over: true})
}

// readEpochs reads the epochs of partitions; empty: none. It skips a partition that can't
// be reached, unless all fail.
func (c *Client) readEpochs(ctx context.Context, in []int) (map[int]string, error) {
	read := make([]*redis.StringCmd, len(in))
	calls := make([]Call, len(in))
	for i, n := range in {
		calls[i] = Call{Partition: n, Fill: func(p redis.Pipeliner) { read[i] = p.HGet(ctx, c.tags[n]+keys.Limits, keys.Epoch) }}
	}
	found := make(map[int]string, len(in))
	var errs []error
	for i, r := range c.Send(ctx, Batch{Doing: "read epochs", Calls: calls}) {
		if r.Err == nil {
			found[r.Partition] = Value(read[i])
			continue
		}
		errs = append(errs, c.InPartition(r.Partition, r.Err))
		if !errors.Is(r.Err, dispatcher.ErrUnavailable) {
			return nil, JoinErrors(errs...)
		}
	}
	if len(found) == 0 {
		return nil, JoinErrors(errs...)
	}
	return found, nil
}

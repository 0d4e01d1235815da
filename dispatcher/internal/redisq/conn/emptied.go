package conn

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// A Redis that lost its data responds like one that was always empty: nothing matches,
// there is no such message. So the first instance that notices a loss records it in :meta
// before anything else: emptied is the id that home had, emptied:<n> the epoch of
// partition n. All instances obey these fields, including later ones. The fields stay
// until a person has restored the data, or given them up.

// unknownEpoch is recorded for data whose epoch no instance knew.
const unknownEpoch = "?"

// emptiedOf returns the field for the loss of a partition, or of home.
func emptiedOf(partition int) string {
	if partition == Home {
		return metaEmptied
	}
	return metaEmptied + ":" + strconv.Itoa(partition)
}

// Loss returns the data that were lost, and neither restored nor given up; nil: none.
func (c *Client) Loss() *dispatcher.Emptied { return c.division.loss.Load() }

// OnLoss sets a function that is called when data were lost, and with nil when the loss
// is over.
func (c *Client) OnLoss(reported func(*dispatcher.Emptied)) { c.division.onLoss.Store(&reported) }

// LostHome returns the error of calls that need the project's own keys after they were
// lost, or nil.
func (c *Client) LostHome() error {
	if loss := c.Loss(); loss != nil && loss.Home {
		return loss
	}
	return nil
}

// LostOf returns the error of calls that need the deliveries of these lanes after some of
// them were lost. Without lanes it means all deliveries.
func (c *Client) LostOf(lanes []dispatcher.Lane) error {
	loss := c.Loss()
	if loss == nil || len(loss.Partitions) == 0 || len(lanes) > 0 && !slices.ContainsFunc(c.PartitionsOf(lanes), loss.Has) {
		return nil
	}
	return loss
}

// IntactOf returns an error if data were lost, after nothing was found of these lanes. It
// checks the partitions of the lanes, and home if a lane is an endpoint's. Without lanes
// it checks everything.
func (c *Client) IntactOf(ctx context.Context, lanes []dispatcher.Lane) error {
	if len(lanes) == 0 {
		return c.IntactAll(ctx)
	}
	in := c.PartitionsOf(lanes)
	err := c.Intact(ctx, in...)
	var loss *dispatcher.Emptied
	if errors.As(err, &loss) && !slices.ContainsFunc(in, loss.Has) && !slices.ContainsFunc(lanes, dispatcher.Lane.IsEndpoint) {
		return nil
	}
	return err
}

// Intact returns an error if data were lost, after something was not found in some
// partitions or home. It compares their epochs with those at the start of this instance.
// Without partitions it checks home.
func (c *Client) Intact(ctx context.Context, in ...int) error {
	if err := c.lostAmong(in); err != nil {
		return err
	}
	var home *redis.MapStringStringCmd
	read := make([]*redis.StringCmd, len(in))
	b := Batch{Doing: "read epochs", Calls: []Call{{Partition: Home, Fill: func(p redis.Pipeliner) {
		home = c.QueueMeta(ctx, p)
	}}}}
	for i, n := range in {
		b.Calls = append(b.Calls, Call{Partition: n, Fill: func(p redis.Pipeliner) { read[i] = p.HGet(ctx, c.tags[n]+keys.Limits, keys.Epoch) }})
	}
	for _, r := range c.Send(ctx, b) {
		if r.Err != nil {
			return c.InPartition(r.Partition, r.Err)
		}
	}
	same := c.sameHome(ParseMeta(home.Val()))
	for i, n := range in {
		same = same && read[i].Val() == c.Epoch(n)
	}
	if same {
		return nil
	}
	if err := c.Verify(ctx); err != nil {
		return err
	}
	return c.lostAmong(in)
}

// IntactAll is Intact for home and all partitions.
func (c *Client) IntactAll(ctx context.Context) error { return c.Intact(ctx, c.All()...) }

// sameHome reports whether home has the same data as at the start of this instance.
func (c *Client) sameHome(meta Meta) bool {
	return meta.ID == c.ID() && !meta.lostHome() && meta.settled == c.settled()
}

func (c *Client) lostAmong(in []int) error {
	loss := c.Loss()
	if loss == nil {
		return nil
	}
	if loss.Home || slices.ContainsFunc(in, loss.Has) {
		return loss
	}
	return nil
}

func (c *Client) settled() string {
	if text := c.division.settled.Load(); text != nil {
		return *text
	}
	return ""
}

// Verify compares the epochs of home and of all partitions with the ones that this
// instance knows, and records losses in :meta. It returns an error if the project has
// changed, or :meta could not be read.
func (c *Client) Verify(ctx context.Context) error {
	c.division.mu.Lock()
	defer c.division.mu.Unlock()
	meta, err := c.ReadMeta(ctx)
	if err != nil {
		return err
	}
	return c.verify(ctx, meta)
}

// verify is Verify with the content of :meta. The caller holds mu.
func (c *Client) verify(ctx context.Context, meta Meta) error {
	if c.checkDivision(meta); c.changed() != nil {
		return c.changed()
	}
	id, anew := c.ID(), c.endedLoss(meta)
	if anew {
		id = meta.ID
	}
	if meta.ID != id && !meta.lostHome() {
		if err := c.noteEmptied(ctx, id, map[int]string{Home: id}); err != nil {
			return err
		}
	}
	if err := c.verifyPartitions(ctx, id, meta, anew); err != nil {
		return err
	}
	meta, err := c.ReadMeta(ctx)
	if err == nil {
		c.take(meta)
		err = c.changed()
	}
	return err
}

// endedLoss reports whether a loss was restored or given up, with what this instance knew last.
func (c *Client) endedLoss(meta Meta) bool {
	return meta.settled != "" && meta.settled != c.settled()
}

// verifyPartitions records which partitions lost their data, and stores their new epochs. If a
// loss ended after the epochs were read, new epochs are not another loss.
func (c *Client) verifyPartitions(ctx context.Context, id string, meta Meta, anew bool) error {
	found, err := c.readEpochs(ctx, c.All())
	if err != nil {
		return err
	}
	lost := map[int]string{}
	for n, epoch := range found {
		known := c.Epoch(n)
		switch {
		case epoch != "" && (known == "" || epoch == known || anew):
			c.learnEpoch(n, epoch)
		case meta.Loss.Has(n) && epoch != "":
			c.learnEpoch(n, epoch)
		default:
			lost[n] = cmp.Or(known, unknownEpoch)
		}
	}
	if len(lost) == 0 {
		return nil
	}
	if err := c.noteEmptied(ctx, id, lost); err != nil {
		return err
	}
	return c.giveEpochs(ctx, slices.Collect(maps.Keys(lost)))
}

// noteEmptied records a loss in :meta, with the known epochs. If home was lost it gets
// the fields that are needed to open it, and another id. Otherwise an archive would treat
// the lost endpoints as deleted. Home may be lost after the caller has read its id: that
// is recorded in the same step.
func (c *Client) noteEmptied(ctx context.Context, id string, lost map[int]string) error {
	var fields []any
	for n, epoch := range lost {
		fields = append(fields, emptiedOf(n), epoch)
	}
	fields = append(fields, metaPartitions, len(c.tags), metaSchema, schemaVersion, metaID, newID(), metaEpochs, 1, metaIndex, c.knownIndex())
	if c.Archives() {
		fields = append(fields, metaArchive, 1)
	}
	return c.writeMeta(ctx, metaChange{fields: fields, full: true, id: id})
}

// giveEpochs gives partitions without an epoch a new one, unless another instance was first, and
// stores it.
func (c *Client) giveEpochs(ctx context.Context, in []int) error {
	given := make([]*redis.Cmd, len(in))
	err := c.EachPartition(ctx, "make epochs", in, func(p redis.Pipeliner, i int) {
		given[i] = p.Eval(ctx, identifyScript.Text(), []string{c.tags[in[i]]}, keys.Limits, keys.Epoch, NewEpoch())
	})
	for i, n := range in {
		if epoch, _ := Value(given[i]).(string); epoch != "" {
			c.learnEpoch(n, epoch)
		}
	}
	return err
}

// EndLoss records that the lost data were restored, or given up. All instances continue
// with their next heartbeat.
func (c *Client) EndLoss(ctx context.Context, loss *dispatcher.Emptied) error {
	var gone []string
	if loss.Home {
		gone = append(gone, metaEmptied)
	}
	for _, n := range loss.Partitions {
		gone = append(gone, emptiedOf(n))
	}
	if err := c.writeMeta(ctx, metaChange{fields: []any{metaSettled, NewEpoch()}, over: true, gone: gone, full: true}); err != nil {
		return err
	}
	return c.Verify(ctx)
}

// NoteLost records the loss of data that an archive knows: of home by its id, or else of
// partitions by their epochs.
func (c *Client) NoteLost(ctx context.Context, id string, epochs map[int]string) error {
	if id == "" || id == c.ID() || c.Loss() != nil {
		return nil
	}
	lost := map[int]string{Home: id}
	for n := range c.tags {
		if epoch := epochs[n]; epoch != c.Epoch(n) {
			lost[n] = cmp.Or(epoch, unknownEpoch)
		}
	}
	if err := c.noteEmptied(ctx, c.ID(), lost); err != nil {
		return err
	}
	return c.Verify(ctx)
}

// IsLoss reports whether an error says that data were lost.
func IsLoss(err error) bool {
	var loss *dispatcher.Emptied
	return errors.As(err, &loss)
}

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

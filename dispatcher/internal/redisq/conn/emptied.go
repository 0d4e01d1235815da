package conn

import (
	"cmp"
	"context"
	_ "embed" // the script
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/script"
)

// A store that lost its data answers as one that was always empty: nothing matches, there
// is no such message. So what was lost is noted in :meta, by the first instance that
// notices, before anything else: emptied is the id that home had, emptied:<n> the epoch
// of partition n. All instances obey these fields, also those that start later. They stay
// until a person restored the data, or gave them up.

//go:embed lua/emptied.lua
var emptiedSrc string

var emptiedScript = script.New("emptied", emptiedSrc)

const (
	metaEmptied = "emptied"
	metaSettled = "settled" // a random text, another one after each loss that was restored or given up

	// unknownEpoch stands for the epoch of data that no instance knew.
	unknownEpoch = "?"
)

// emptiedOf is the field that says that a partition, or home, was emptied.
func emptiedOf(partition int) string {
	if partition == Home {
		return metaEmptied
	}
	return metaEmptied + ":" + strconv.Itoa(partition)
}

// lossOf reads what :meta says was lost; nil: nothing was.
func lossOf(meta map[string]string) *dispatcher.Emptied {
	loss := &dispatcher.Emptied{Archived: meta[MetaArchive] != ""}
	for field := range meta {
		switch n, err := strconv.Atoi(strings.TrimPrefix(field, metaEmptied+":")); {
		case field == metaEmptied:
			loss.Home = true
		case err == nil && n >= 0 && strings.HasPrefix(field, metaEmptied+":"):
			loss.Partitions = append(loss.Partitions, n)
		}
	}
	slices.Sort(loss.Partitions)
	if !loss.Home && len(loss.Partitions) == 0 {
		return nil
	}
	return loss
}

// Loss is what of the project was lost, and neither restored nor given up; nil: nothing.
func (c *Client) Loss() *dispatcher.Emptied { return c.division.loss.Load() }

// OnLoss has a function called when something was lost, and with nil when that is over.
func (c *Client) OnLoss(told func(*dispatcher.Emptied)) { c.division.onLoss.Store(&told) }

// LostHome is the error of calls that need the project's own keys after they were lost.
func (c *Client) LostHome() error {
	if loss := c.Loss(); loss != nil && loss.Home {
		return loss
	}
	return nil
}

// LostOf is the error of calls that need the deliveries of these lanes, or without lanes
// all deliveries, after some of them were lost.
func (c *Client) LostOf(lanes []dispatcher.Lane) error {
	loss := c.Loss()
	if loss == nil || len(loss.Partitions) == 0 || len(lanes) > 0 && !slices.ContainsFunc(c.partitionsOf(lanes), loss.Has) {
		return nil
	}
	return loss
}

// IntactOf makes sure, after nothing was found of these lanes, that the store still has
// the data with which this instance began. These are the data of their partitions, and the
// project's own if a lane is an endpoint's. Without lanes all data are meant.
func (c *Client) IntactOf(ctx context.Context, lanes []dispatcher.Lane) error {
	if len(lanes) == 0 {
		return c.IntactAll(ctx)
	}
	in := c.partitionsOf(lanes)
	err := c.Intact(ctx, in...)
	var loss *dispatcher.Emptied
	if errors.As(err, &loss) && !slices.ContainsFunc(in, loss.Has) && !slices.ContainsFunc(lanes, dispatcher.Lane.IsEndpoint) {
		return nil
	}
	return err
}

// partitionsOf are the partitions in which lanes lie, in order.
func (c *Client) partitionsOf(lanes []dispatcher.Lane) (in []int) {
	for _, lane := range lanes {
		in = append(in, keys.Partition(string(lane), len(c.tags)))
	}
	slices.Sort(in)
	return slices.Compact(in)
}

// Intact makes sure, after something was not found in some partitions or home, that these
// are the data with which this instance began. Without partitions home alone is meant.
func (c *Client) Intact(ctx context.Context, in ...int) error {
	if err := c.lostAmong(in); err != nil {
		return err
	}
	var home *redis.SliceCmd
	read := make([]*redis.StringCmd, len(in))
	b := Batch{Doing: "read epochs", Calls: []Call{{Partition: Home, Fill: func(p redis.Pipeliner) {
		home = p.HMGet(ctx, c.home+keys.Meta, MetaID, metaEmptied, metaSettled)
	}}}}
	for i, n := range in {
		b.Calls = append(b.Calls, Call{Partition: n, Fill: func(p redis.Pipeliner) { read[i] = p.HGet(ctx, c.tags[n]+keys.Limits, keys.Epoch) }})
	}
	for _, r := range c.Send(ctx, b) {
		if r.Err != nil {
			return c.InPartition(r.Partition, r.Err)
		}
	}
	same := c.sameHome(home.Val())
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
func (c *Client) IntactAll(ctx context.Context) error { return c.Intact(ctx, c.all()...) }

// sameHome reports whether id, emptied and settled of :meta are as they were.
func (c *Client) sameHome(have []any) bool {
	text := func(i int) string {
		t, _ := have[i].(string)
		return t
	}
	return len(have) == 3 && text(0) == c.ID() && text(1) == "" && text(2) == c.settled()
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

// Verify compares the epochs of home and of all partitions with those that this instance
// knows, and notes in :meta what was lost. The error is that of a project that is not as
// it was, or that :meta could not be read.
func (c *Client) Verify(ctx context.Context) error {
	c.division.mu.Lock()
	defer c.division.mu.Unlock()
	meta, err := c.ReadMeta(ctx)
	if err != nil {
		return err
	}
	return c.verify(ctx, meta)
}

// verify is Verify with what :meta says. mu is held.
func (c *Client) verify(ctx context.Context, meta map[string]string) error {
	if c.checkDivision(meta); c.stands() != nil {
		return c.stands()
	}
	anew := meta[metaSettled] != "" && meta[metaSettled] != c.settled()
	if meta[MetaID] != c.ID() && !anew && meta[metaEmptied] == "" {
		if err := c.noteEmptied(ctx, map[int]string{Home: c.ID()}); err != nil {
			return err
		}
	}
	if err := c.verifyPartitions(ctx, meta, anew); err != nil {
		return err
	}
	meta, err := c.ReadMeta(ctx)
	if err == nil {
		c.take(meta)
		err = c.stands()
	}
	return err
}

// verifyPartitions notes which partitions lost their data, and learns the epochs of those
// that they have now. Where a loss ended since the epochs were read, other ones are no
// other loss.
func (c *Client) verifyPartitions(ctx context.Context, meta map[string]string, anew bool) error {
	found, err := c.readEpochs(ctx, c.all())
	if err != nil {
		return err
	}
	lost := map[int]string{}
	for n, epoch := range found {
		known := c.Epoch(n)
		switch {
		case epoch != "" && (known == "" || epoch == known || anew):
			c.learnEpoch(n, epoch)
		case meta[emptiedOf(n)] != "" && epoch != "":
			c.learnEpoch(n, epoch)
		default:
			lost[n] = cmp.Or(known, unknownEpoch)
		}
	}
	if len(lost) == 0 {
		return nil
	}
	if err := c.noteEmptied(ctx, lost); err != nil {
		return err
	}
	return c.giveEpochs(ctx, slices.Collect(maps.Keys(lost)))
}

// noteEmptied notes in :meta what was lost, with the epochs that were known. Home that
// was lost gets what it needs to be opened, and another id: an archive that knows
// endpoints of the lost one must not take them for deleted.
func (c *Client) noteEmptied(ctx context.Context, lost map[int]string) error {
	var fields []any
	for n, epoch := range lost {
		fields = append(fields, emptiedOf(n), epoch)
	}
	fields = append(fields, MetaPartitions, len(c.tags), MetaSchema, schemaVersion, MetaID, newID(), metaEpochs, 1, metaIndex, c.knownIndex())
	if c.Archives() {
		fields = append(fields, MetaArchive, 1)
	}
	return c.writeMeta(ctx, fields, false)
}

// writeMeta writes fields of :meta that are not there, or over those that are, and
// removes others, all at once.
func (c *Client) writeMeta(ctx context.Context, fields []any, over bool, gone ...string) error {
	args := append([]any{len(fields) / 2}, fields...)
	args = append(args, Flag(over))
	for _, field := range gone {
		args = append(args, field)
	}
	var done *redis.Cmd
	err := c.At(ctx, "write "+c.home+keys.Meta, Home, func(p redis.Pipeliner) {
		done = p.Eval(ctx, emptiedScript.Text, []string{c.home}, args...)
	})
	if err == nil {
		err = Failed("write "+c.home+keys.Meta, done.Err())
	}
	return err
}

// giveEpochs gives partitions without an epoch a new one, and learns it.
func (c *Client) giveEpochs(ctx context.Context, in []int) error {
	given := make([]*redis.StringCmd, len(in))
	err := c.EachPartition(ctx, "make epochs", in, func(p redis.Pipeliner, i int) {
		p.HSetNX(ctx, c.tags[in[i]]+keys.Limits, keys.Epoch, NewEpoch())
		given[i] = p.HGet(ctx, c.tags[in[i]]+keys.Limits, keys.Epoch)
	})
	for i, n := range in {
		if epoch := Value(given[i]); epoch != "" {
			c.learnEpoch(n, epoch)
		}
	}
	return err
}

// EndLoss notes that what was lost was restored, or given up. All instances go on with
// their next beat.
func (c *Client) EndLoss(ctx context.Context, loss *dispatcher.Emptied) error {
	var gone []string
	if loss.Home {
		gone = append(gone, metaEmptied)
	}
	for _, n := range loss.Partitions {
		gone = append(gone, emptiedOf(n))
	}
	if err := c.writeMeta(ctx, []any{metaSettled, NewEpoch()}, true, gone...); err != nil {
		return err
	}
	return c.Verify(ctx)
}

// NoteLost notes which data were lost that an archive knows: of home by the id that it
// had, and then of partitions by their epochs.
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
	if err := c.noteEmptied(ctx, lost); err != nil {
		return err
	}
	return c.Verify(ctx)
}

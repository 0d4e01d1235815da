package admin

import (
	"context"
	_ "embed" // the scripts
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher/archive"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

//go:embed lua/archive_state.lua
var stateSrc string

//go:embed lua/archived.lua
var archivedSrc string

//go:embed lua/unfinished.lua
var unfinishedSrc string

var (
	stateScript      = conn.GuardedScript("archive_state", conn.PartCommon+conn.PartPosition+stateSrc)
	archivedScript   = conn.GuardedScript("archived", conn.PartCommon+conn.PartPosition+archivedSrc)
	unfinishedScript = conn.PrunedScript("unfinished", conn.PartCommon+conn.PartServer+unfinishedSrc)
)

// Feed is the source of an archive.
type Feed struct {
	store *redisq.Store
	conn  *conn.Client
}

var _ archive.Source = (*Feed)(nil)

// NewFeed returns a Feed of a store.
func NewFeed(s *redisq.Store) *Feed { return &Feed{store: s, conn: s.Conn()} }

// All returns the numbers of all partitions.
func (f *Feed) All() []int { return f.conn.All() }

// Begin makes all instances log the names of the messages that they accept. It makes partitions
// keep data until they are archived. Running instances learn this by their next beat at the latest.
func (f *Feed) Begin(ctx context.Context) error {
	if err := f.conn.BeginArchive(ctx); err != nil {
		return err
	}
	_, err := f.States(ctx, f.All())
	return err
}

// Ask makes all instances read the log now. It is needed if the writer of a line is not an
// instance, because the instances then get no notice.
func (f *Feed) Ask(ctx context.Context) error { return f.store.Stir(ctx) }

// States returns how far some partitions are archived. If a partition lost all its data, it begins
// anew after the loss is recorded.
func (f *Feed) States(ctx context.Context, in []int) ([]archive.State, error) {
	calls := make([]conn.Call, len(in))
	for i, n := range in {
		calls[i] = conn.Call{Partition: n, Args: []any{1}}
	}
	states, anew, err := f.read(ctx, calls)
	if slices.ContainsFunc(states, func(s archive.State) bool { return s.Epoch == "" }) {
		if err := f.conn.Verify(ctx); err != nil {
			return nil, err
		}
		states, anew, err = f.read(ctx, calls)
	}
	if anew {
		err = errors.Join(err, f.conn.BeginArchive(ctx))
	}
	return states, err
}

// ReadStates returns how far the first partitions are archived. It begins no partition anew.
func (f *Feed) ReadStates(ctx context.Context, partitions int) ([]archive.State, error) {
	calls := make([]conn.Call, partitions)
	for n := range calls {
		calls[n] = conn.Call{Partition: n, Args: []any{0}}
	}
	states, _, err := f.read(ctx, calls)
	return states, err
}

func (f *Feed) read(ctx context.Context, calls []conn.Call) (states []archive.State, anew bool, err error) {
	states = make([]archive.State, 0, len(calls))
	err = f.conn.SendEach(ctx, conn.Batch{Script: stateScript, Clock: true, Calls: calls}, func(_ int, r *conn.Call) error {
		s := archive.State{Partition: r.Partition, Now: r.Now}
		if r.Err == nil {
			anew = r.Number() == 1 || anew
			r.Err = readState(&r.Reply, &s)
		}
		if r.Err == nil {
			states = append(states, s)
		}
		return r.Err
	})
	return states, anew, err
}

// readState reads the reply of archive_state for one partition.
func readState(r *conn.Reply, s *archive.State) error {
	s.Epoch = r.Text()
	s.At = positionOf(r)
	s.Backlog, s.Dropped = number(r), number(r)
	s.Gap = positionOf(r)
	first := positionOf(r)
	s.Last = positionOf(r)
	s.First = conn.FromMillis(first.MS)
	return r.Err
}

// positionOf reads an id. It returns the zero Position for any other text.
func positionOf(r *conn.Reply) archive.Position {
	p, _ := archive.ParsePosition(r.Text())
	return p
}

// Lost records the data that the store lost, compared with an archive. The archive has the id of
// the project's data and the last archived epochs of the partitions. Lost returns the present id,
// or an empty id while data are missing.
func (f *Feed) Lost(ctx context.Context, id string, epochs map[int]string) (present string, err error) {
	if err := f.conn.NoteLost(ctx, id, epochs); err != nil {
		return "", err
	}
	if f.conn.Loss() != nil {
		return "", nil
	}
	return f.conn.ID(), nil
}

// number reads a count. It returns 0 for any other text.
func number(r *conn.Reply) int64 {
	n, _ := strconv.ParseInt(r.Text(), 10, 64)
	return max(n, 0)
}

// Archived reports to the partitions of some parts how far their log is archived.
func (f *Feed) Archived(ctx context.Context, parts []archive.Part) error {
	calls := make([]conn.Call, len(parts))
	for i := range parts {
		p := &parts[i]
		calls[i] = conn.Call{Partition: p.Partition, Args: []any{p.Epoch, p.To.String(), p.Bytes}}
	}
	return f.conn.SendEach(ctx, conn.Batch{Script: archivedScript, Calls: calls}, func(_ int, r *conn.Call) error { return r.Err })
}

// about is the state of a partition's log.
type about struct {
	epoch string
	gap   archive.Position
}

// readAt reads from a partition, and after that reads its epoch and its newest gap. The data are of
// that epoch, or of data that were lost since.
func (f *Feed) readAt(ctx context.Context, doing string, partition int, fill func(redis.Pipeliner)) (a about, err error) {
	var gap, epoch *redis.StringCmd
	err = f.conn.At(ctx, doing, partition, func(p redis.Pipeliner) {
		fill(p)
		gap = p.HGet(ctx, f.conn.Tag(partition)+keys.Archive, "gap")
		epoch = p.HGet(ctx, f.conn.Tag(partition)+keys.Limits, keys.Epoch)
	})
	a.epoch = conn.Value(epoch)
	a.gap, _ = archive.ParsePosition(conn.Value(gap)) // any other text returns the zero Position
	return a, err
}

// inPartition adds the partition to the error of a value that can't be read.
func inPartition(n int, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("partition %d: %w", n, err)
}

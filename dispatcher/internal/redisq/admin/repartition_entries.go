package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/home"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/read"
)

// entriesPage is how many entries are moved at once.
const entriesPage = 500

// laneFunc returns the lane that an entry belongs to, or "" for an entry that stays.
type laneFunc func(entry string) string

// laneOf returns the laneFunc for a kind of keys, or nil if its entries belong to no
// lane. The entry * belongs to its partition, and so do the timer and the epoch.
func laneOf(k keys.Kind) laneFunc {
	behind := func(mark string) laneFunc {
		return func(entry string) string {
			lane, _, _ := strings.Cut(entry, mark)
			return lane
		}
	}
	switch k.Of {
	case keys.OfDelivery:
		return behind(":")
	case keys.OfReason:
		return behind(" ")
	case keys.OfLane, keys.OfLanes:
		return func(entry string) string {
			if keys.IsNoLane(entry) {
				return ""
			}
			lane, _ := read.ShelfLane(entry)
			return lane
		}
	}
	return nil
}

// setTimers sets the timers of each partition to its first expiring lease and its first
// expiring delivery, because these have moved.
func (r *repartition) setTimers(ctx context.Context) error {
	for n := range max(r.mark.From, r.mark.To) {
		for timer, zset := range map[string]string{keys.Timer: keys.Taken, keys.Expiry: keys.Expiring} {
			if err := r.setTimer(ctx, n, timer, zset); err != nil {
				return err
			}
		}
	}
	return nil
}

// setTimer sets a timer to the first time of a sorted set.
func (r *repartition) setTimer(ctx context.Context, n int, timer, zset string) error {
	var first *redis.ZSliceCmd
	err := r.s.conn.At(ctx, "read "+zset, n, func(p redis.Pipeliner) { first = p.ZRangeWithScores(ctx, r.s.conn.Tag(n)+zset, 0, 0) })
	if err != nil {
		return err
	}
	return r.s.conn.At(ctx, "set the timer of "+zset, n, func(p redis.Pipeliner) {
		if head := first.Val(); len(head) > 0 {
			p.ZAdd(ctx, r.s.conn.Tag(n)+keys.Parked, redis.Z{Score: math.Ceil(head[0].Score), Member: timer})
		} else {
			p.ZRem(ctx, r.s.conn.Tag(n)+keys.Parked, timer)
		}
	})
}

// moveEntries moves the entries of a partition's own keys.
func (r *repartition) moveEntries(ctx context.Context, n int) error {
	for _, k := range keys.Kinds {
		if laneOf(k) == nil || k.Named() {
			continue
		}
		if err := r.moveKey(ctx, n, k, ""); err != nil {
			return err
		}
	}
	return nil
}

// copyEnds copies the counts of finished deliveries of an old partition to a remaining
// one, under their own names, so that it may be repeated. addEnds adds them up.
func (r *repartition) copyEnds(ctx context.Context, n int) error {
	if n < r.mark.To {
		return nil
	}
	var ends *redis.MapStringStringCmd
	if err := r.s.conn.At(ctx, "read ends", n, func(p redis.Pipeliner) { ends = p.HGetAll(ctx, r.s.conn.Tag(n)+keys.Ends) }); err != nil {
		return err
	}
	var fields []any
	for end, count := range ends.Val() {
		fields = append(fields, end+" "+strconv.Itoa(n), count)
	}
	if len(fields) == 0 {
		return nil
	}
	q := n % r.mark.To
	return r.s.conn.At(ctx, "copy ends", q, func(p redis.Pipeliner) { p.HSet(ctx, r.s.conn.Tag(q)+keys.Ends, fields...) })
}

// addEnds adds up the counts from copyEnds.
func (r *repartition) addEnds(ctx context.Context) error {
	var calls []conn.Call
	for q := range r.mark.To {
		calls = append(calls, conn.Call{Partition: q})
	}
	return r.s.conn.SendEach(ctx, conn.Batch{Script: endsScript, Calls: calls}, func(_ int, done *conn.Call) error { return done.Err })
}

// forgottenFields have the ms of the newest finished deliveries that a trim forgot, in
// :archive.
var forgottenFields = []string{"ended", "dead"}

// forgotten returns the latest of these ms of all partitions, because their deliveries
// may be in any partition now.
func (r *repartition) forgotten(ctx context.Context) (fields []any, err error) {
	latest := map[string]int64{}
	for n := range max(r.mark.From, r.mark.To) {
		var texts *redis.SliceCmd
		if err := r.s.conn.At(ctx, "read the times of forgotten deliveries", n, func(p redis.Pipeliner) { texts = p.HMGet(ctx, r.s.conn.Tag(n)+keys.Archive, forgottenFields...) }); err != nil {
			return nil, err
		}
		for i, value := range texts.Val() {
			text, _ := value.(string)
			ms, _ := strconv.ParseInt(text, 10, 64)
			latest[forgottenFields[i]] = max(latest[forgottenFields[i]], ms)
		}
	}
	for field, ms := range latest {
		if ms > 0 {
			fields = append(fields, field, ms)
		}
	}
	return fields, nil
}

// cutLogs records that the log of attempts is incomplete. The entries of two streams have
// no common order, so they stay where they were written. The partitions have other data
// now, so they get new epochs.
func (r *repartition) cutLogs(ctx context.Context) error {
	forgotten, err := r.forgotten(ctx)
	if err != nil {
		return err
	}
	for q := range r.mark.To {
		var now *redis.TimeCmd
		if err := r.s.conn.At(ctx, "read the time", q, func(p redis.Pipeliner) { now = p.Time(ctx) }); err != nil {
			return err
		}
		cut := strconv.FormatInt(now.Val().UnixMilli(), 10) + "-0"
		err := r.s.conn.At(ctx, "note how far the log reaches back", q, func(p redis.Pipeliner) {
			p.HSet(ctx, r.s.conn.Tag(q)+keys.Archive, append(forgotten, "cut", cut)...)
			p.HSet(ctx, r.s.conn.Tag(q)+keys.Limits, keys.Epoch, conn.NewEpoch())
		})
		if err != nil {
			return err
		}
	}
	return r.s.endArchive(ctx, max(r.mark.From, r.mark.To))
}

// moveJobs copies the results of jobs in a partition to the home partition, under their
// own names, so that it may be repeated. An unfinished job starts again in each
// partition, and skips the deliveries that it has changed.
func (r *repartition) moveJobs(ctx context.Context, n int) error {
	from, home, to := r.s.conn.Tag(n)+keys.Jobs, r.s.conn.Tag(conn.Home)+keys.Jobs, n%r.mark.To
	var all *redis.MapStringStringCmd
	var epoch *redis.StringCmd
	if err := r.s.conn.At(ctx, "read jobs", n, func(p redis.Pipeliner) {
		all, epoch = p.HGetAll(ctx, from), p.HGet(ctx, r.s.conn.Tag(n)+keys.Limits, keys.Epoch)
	}); err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	var gone []string
	var copies []conn.Call
	for name, text := range all.Val() {
		set := func(partition int, key, field string) {
			copies = append(copies, conn.Call{Partition: partition, Fill: func(p redis.Pipeliner) { p.HSet(ctx, key, field, text) }})
		}
		number, what, _ := strings.Cut(name, " ")
		turn, _, _ := strings.Cut(all.Val()[number], " ")
		if lane, probes := strings.CutPrefix(what, "probe "); probes {
			if q := r.target(lane); q != n {
				set(q, r.s.conn.Tag(q)+keys.Jobs, name)
			}
			continue
		}
		switch what {
		case "", "left":
			if number == SentField { // its deliveries are in any partition now, and the newest one is not known yet
				text = strconv.FormatInt(time.Now().UnixMilli(), 10)
				for q := range r.mark.To {
					set(q, r.s.conn.Tag(q)+keys.Jobs, name)
				}
				continue
			}
			gone = append(gone, name)
			set(conn.Home, home, fmt.Sprintf("%s %s %d %s", number, cmp.Or(what, "was"), n, cmp.Or(turn, "0")))
		case "ends": // they are kept even if the turn is not
			gone = append(gone, name)
			set(conn.Home, home, fmt.Sprintf("%s %s %d %s", number, what, n, cmp.Or(epoch.Val(), "0")))
		default:
			if to != n {
				copies = append(copies, conn.Call{Partition: to, Fill: func(p redis.Pipeliner) { p.HSetNX(ctx, r.s.conn.Tag(to)+keys.Jobs, name, text) }})
			}
		}
	}
	if err := r.trip(ctx, conn.Batch{Doing: "move jobs", Durable: true, Calls: copies}); err != nil || len(gone) == 0 {
		return err
	}
	return r.s.conn.At(ctx, "move jobs", n, func(p redis.Pipeliner) { p.HDel(ctx, from, gone...) })
}

// moveKey moves the entries of a hash or a sorted set. of is the second part of the key's
// name. The entries of :in are counted, one for each lane.
func (r *repartition) moveKey(ctx context.Context, n int, k keys.Kind, of string) error {
	name, lane := k.Name+of, laneOf(k)
	from := r.s.conn.Tag(n) + name
	for page, err := range r.pages(ctx, n, k, of, r.page) {
		if err != nil {
			return err
		}
		to, gone := map[int][]entry{}, []string{}
		for _, e := range page {
			if lane := lane(e.name); lane != "" && r.target(lane) != n {
				to[r.target(lane)] = append(to[r.target(lane)], e)
				gone = append(gone, e.name)
			}
		}
		if k.Name == keys.In {
			r.out.Moved.Lanes += len(gone)
		}
		if len(gone) == 0 || r.options.DryRun {
			continue
		}
		var copies []conn.Call
		for q, entries := range to {
			copies = append(copies, conn.Call{Partition: q, Fill: func(p redis.Pipeliner) {
				add(ctx, p, k.Type, r.s.conn.Tag(q)+name, entries)
				if k.Name == keys.Health {
					p.ExpireAt(ctx, r.s.conn.Tag(q)+name, home.BarsUntil(of))
				}
			}})
		}
		if err := r.trip(ctx, conn.Batch{Doing: "move " + from, Durable: true, Calls: copies}); err != nil {
			return err
		}
		err := r.s.conn.At(ctx, "move "+from, n, func(p redis.Pipeliner) {
			if k.Type == "hash" {
				p.HDel(ctx, from, gone...)
			} else {
				p.ZRem(ctx, from, gone)
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// add writes entries to a hash or a sorted set.
func add(ctx context.Context, p redis.Pipeliner, kind, key string, entries []entry) {
	if kind == "hash" {
		fields := make([]any, 0, 2*len(entries))
		for _, e := range entries {
			fields = append(fields, e.name, e.value)
		}
		p.HSet(ctx, key, fields...)
		return
	}
	members := make([]redis.Z, len(entries))
	for i, e := range entries {
		score, _ := strconv.ParseFloat(e.value, 64) // written by Redis, so it is valid
		members[i] = redis.Z{Score: score, Member: e.name}
	}
	p.ZAdd(ctx, key, members...)
}

// keysBatch is how many keys are moved at once. A history may have some hundred KiB of
// excerpts.
const keysBatch = 100

// keyMove is one key to move.
type keyMove struct {
	name     string // without the tag
	from, to int
	line     bool // a sorted set, otherwise a list

	list *redis.StringSliceCmd // the first page
	set  *redis.ZSliceCmd
}

// read queues the commands that read a page.
func (k *keyMove) read(ctx context.Context, p redis.Pipeliner, r *repartition, start int64) {
	if key := r.s.conn.Tag(k.from) + k.name; k.line {
		k.set = p.ZRangeWithScores(ctx, key, start, start+r.page-1)
	} else {
		k.list = p.LRange(ctx, key, start, start+r.page-1)
	}
}

// size returns the number of entries read.
func (k *keyMove) size() int { return len(conn.Value(k.set)) + len(conn.Value(k.list)) }

// write queues the commands that write the page.
func (k *keyMove) write(ctx context.Context, p redis.Pipeliner, r *repartition) {
	if key := r.s.conn.Tag(k.to) + k.name; k.line {
		p.ZAdd(ctx, key, k.set.Val()...)
	} else {
		values := make([]any, k.size())
		for i, v := range k.list.Val() {
			values[i] = v
		}
		p.RPush(ctx, key, values...)
	}
}

// moveKeys moves the keys that belong to one lane or one delivery, and the statistics and
// tenants of lanes.
func (r *repartition) moveKeys(ctx context.Context) error {
	var batch []*keyMove
	for key, err := range r.eachKey(ctx) {
		if err != nil {
			return err
		}
		k, of, _ := keys.Explain(key.name)
		if entriesMove(k) && key.partition < r.s.conn.Partitions() {
			if err := r.moveKey(ctx, key.partition, k, of); err != nil {
				return err
			}
		}
		lane := owner(key.name)
		if lane == "" || key.partition >= r.s.conn.Partitions() || r.target(lane) == key.partition {
			continue
		}
		batch = append(batch, &keyMove{name: key.name, from: key.partition, to: r.target(lane), line: k.Type == "zset"})
		if len(batch) == keysBatch {
			if err := r.moveBatch(ctx, batch); err != nil {
				return err
			}
			batch = nil
		}
	}
	return r.moveBatch(ctx, batch)
}

// entriesMove reports whether keys of a kind have entries of several lanes, because they
// are named after a time or a tenant.
func entriesMove(k keys.Kind) bool { return k.Name == keys.Health || k.Name == keys.Tenant }

// owner returns the lane that a key belongs to, or "".
func owner(name string) (lane string) {
	k, of, known := keys.Explain(name)
	if known && k.Named() && k.Name != keys.Leases && k.Of != keys.OfMessage && !entriesMove(k) { // leases belong to an instance
		lane, _, _ = strings.Cut(of, ":")
		lane, _ = read.ShelfLane(lane)
	}
	return lane
}

// moveBatch moves some keys. An existing target was left by a run that did not finish,
// and is replaced. A missing source was listed twice, and its target stays.
func (r *repartition) moveBatch(ctx context.Context, batch []*keyMove) error {
	reads := make([]conn.Call, len(batch))
	for i, k := range batch {
		reads[i] = conn.Call{Partition: k.from, Fill: func(p redis.Pipeliner) { k.read(ctx, p, r, 0) }}
	}
	if err := r.trip(ctx, conn.Batch{Doing: "read keys", Calls: reads}); err != nil {
		return err
	}
	var copies, removals []conn.Call
	var long []*keyMove
	for _, k := range batch {
		switch k.size() {
		case 0:
			continue
		case int(r.page):
			long = append(long, k)
			continue
		}
		copies = append(copies, conn.Call{Partition: k.to, Fill: func(p redis.Pipeliner) {
			p.Unlink(ctx, r.s.conn.Tag(k.to)+k.name)
			k.write(ctx, p, r)
		}})
		removals = append(removals, r.removal(ctx, k))
	}
	if err := r.trip(ctx, conn.Batch{Doing: "copy keys", Durable: true, Calls: copies}); err != nil {
		return err
	}
	if err := r.trip(ctx, conn.Batch{Doing: "remove keys", Calls: removals}); err != nil {
		return err
	}
	for _, k := range long {
		if err := r.moveLong(ctx, k); err != nil {
			return err
		}
	}
	return nil
}

func (r *repartition) removal(ctx context.Context, k *keyMove) conn.Call {
	return conn.Call{Partition: k.from, Fill: func(p redis.Pipeliner) { p.Unlink(ctx, r.s.conn.Tag(k.from)+k.name) }}
}

// moveLong moves a key of several pages.
func (r *repartition) moveLong(ctx context.Context, k *keyMove) error {
	for start := int64(0); ; start += r.page {
		err := r.s.conn.At(ctx, "read keys", k.from, func(p redis.Pipeliner) { k.read(ctx, p, r, start) })
		if err != nil {
			return err
		}
		if k.size() == 0 {
			break
		}
		err = r.trip(ctx, conn.Batch{Doing: "copy keys", Durable: true, Calls: []conn.Call{{Partition: k.to, Fill: func(p redis.Pipeliner) {
			if start == 0 {
				p.Unlink(ctx, r.s.conn.Tag(k.to)+k.name)
			}
			k.write(ctx, p, r)
		}}}})
		if err != nil {
			return err
		}
	}
	return r.trip(ctx, conn.Batch{Doing: "remove keys", Calls: []conn.Call{r.removal(ctx, k)}})
}

// errLeft is the error for a key that is still in its old place.
func errLeft(key string) error {
	return fmt.Errorf("%s is still there: something else writes to this project; run it again", key)
}

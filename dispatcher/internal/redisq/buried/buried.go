// Package buried reads how many deliveries are dead, by destination and reason,
// from the counts that every script keeps. It looks at no delivery.
package buried

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/cursor"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// Bounds. A page orders at most mostGroups: reading them takes Redis some 15 ms.
// Where there are more, the next ones follow in an order of their own. One command
// reads pageOfScan, in less than half a ms.
const (
	mostGroups = 50_000
	pageOfScan = 1000
)

// Reader reads the counts of a project.
type Reader struct {
	Conn *conn.Client
	Tags []string // of the partitions
	Most int      // 0: mostGroups

	Sealer *cursor.Sealer

	// Partition is where a lane lies.
	Partition func(dispatcher.Lane) int
}

// Page reads the groups that match, the largest first. What a lane is called is
// filled in where that is known. Where it is not, the tenant may be another one.
func (r *Reader) Page(ctx context.Context, f dispatcher.DeadFilter) (page dispatcher.DeadPage, err error) {
	list := dispatcher.ListName("dead", f)
	var at place
	if f.Cursor != "" {
		if err := r.open(ctx, list, f.Cursor, &at); err != nil {
			return page, err
		}
	}
	var rest *place
	if len(f.Lanes) > 0 {
		page.Groups, err = r.named(ctx, f)
	} else {
		page.Groups, rest, err = r.window(ctx, &at)
	}
	if err != nil {
		return page, err
	}
	if err = r.choose(ctx, f, &page); err != nil {
		return page, err
	}
	slices.SortFunc(page.Groups, compare)
	if at.Count > 0 {
		last := dispatcher.DeadGroup{Lane: at.Lane, Reason: at.Reason, Count: at.Count}
		from, there := slices.BinarySearchFunc(page.Groups, last, compare)
		if there {
			from++
		}
		page.Groups = page.Groups[from:]
	}
	if limit := cmp.Or(f.Limit, 50); len(page.Groups) > limit {
		page.Groups = page.Groups[:limit]
		last := page.Groups[limit-1]
		at.Count, at.Lane, at.Reason = last.Count, last.Lane, last.Reason
		rest = &at
	}
	if rest != nil {
		if page.Next, err = r.Sealer.Seal(ctx, list, rest); err != nil {
			return page, err
		}
	}
	if len(f.Tenants) == 0 {
		err = r.name(ctx, page.Groups)
	}
	return page, err
}

// place is where a page ended: the partitions whose groups are in one order, where the scan
// of the first one began, and the last group that was shown.
type place struct {
	From, To int    // To: exclusive; 0: it is not known yet
	Scan     string // cursor in the first partition; empty: from its start

	Count  int64 // of the last group; 0: none was shown
	Lane   dispatcher.Lane
	Reason dispatcher.DeadReason
}

// open opens a cursor. It refuses one that was made before a repartition: it may name
// partitions that are gone.
func (r *Reader) open(ctx context.Context, list, text string, at *place) error {
	if err := r.Sealer.Open(ctx, list, text, at); err != nil {
		return err
	}
	if n := len(r.Tags); at.From >= n || at.To > n {
		return fmt.Errorf("%w: it is of another division", dispatcher.ErrCursor)
	}
	return nil
}

// compare puts the largest group first.
func compare(a, b dispatcher.DeadGroup) int {
	return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Lane, b.Lane), cmp.Compare(a.Reason, b.Reason))
}

// named reads the groups of the lanes that are asked for.
func (r *Reader) named(ctx context.Context, f dispatcher.DeadFilter) (groups []dispatcher.DeadGroup, err error) {
	reasons := f.Reasons
	if len(reasons) == 0 {
		reasons = dispatcher.DeadReasons
	}
	for _, lane := range f.Lanes {
		for _, reason := range reasons {
			groups = append(groups, dispatcher.DeadGroup{Lane: lane, Reason: reason})
		}
	}
	slices.SortFunc(groups, compare)
	groups = slices.CompactFunc(groups, func(a, b dispatcher.DeadGroup) bool { return compare(a, b) == 0 })
	err = r.fields(ctx, keys.Buried, groups, func(g *dispatcher.DeadGroup) string { return string(g.Lane) + " " + string(g.Reason) },
		func(g *dispatcher.DeadGroup, text string) { g.Count, _ = strconv.ParseInt(text, 10, 64) })
	return slices.DeleteFunc(groups, func(g dispatcher.DeadGroup) bool { return g.Count <= 0 }), err
}

// window reads the groups of some partitions from the cursor on, as many as one
// page may order. rest is where the next window begins; nil: there is none.
func (r *Reader) window(ctx context.Context, at *place) (groups []dispatcher.DeadGroup, rest *place, err error) {
	sizes := make([]*redis.IntCmd, len(r.Tags))
	all := make([]int, len(r.Tags))
	for n := range all {
		all[n] = n
	}
	err = r.Conn.EachPartition(ctx, "count groups", all, func(p redis.Pipeliner, n int) { sizes[n] = p.HLen(ctx, r.Tags[n]+keys.Buried) })
	if err != nil {
		return nil, nil, err
	}
	most := int64(cmp.Or(r.Most, mostGroups))
	if at.To == 0 {
		sum := sizes[at.From].Val()
		for at.To = at.From + 1; at.Scan == "" && at.To < len(r.Tags) && sum+sizes[at.To].Val() <= most; at.To++ {
			sum += sizes[at.To].Val()
		}
	}
	w := r.walk(slices.DeleteFunc(all[at.From:at.To], func(n int) bool { return sizes[n].Val() == 0 }))
	w.Cursors[at.From] = at.Scan
	counts := map[dispatcher.DeadGroup]int64{} // a scan may answer a field twice
	for len(w.Left) > 0 {
		if at.To == at.From+1 && int64(len(counts)) >= most {
			rest = &place{From: at.From, Scan: conn.Carried(w.Cursors[at.From])}
			break
		}
		if err = r.scan(ctx, w, counts); err != nil {
			return nil, nil, err
		}
		if w.Again && at.Scan != "" { // none of this window was told yet
			at.Scan, at.Count = "", 0
		}
	}
	if rest == nil && at.To < len(r.Tags) {
		rest = &place{From: at.To}
	}
	return groupsOf(counts), rest, nil
}

// ByReason counts the dead by reason, page by page. partial says that there are so
// many groups that it counted some of them only. Beside an error of some partitions it
// answers what the others have.
func (r *Reader) ByReason(ctx context.Context) (sums map[dispatcher.DeadReason]int64, partial bool, err error) {
	var errs []error
	all, counts := make([]int, len(r.Tags)), map[dispatcher.DeadGroup]int64{}
	for n := range all {
		all[n] = n
	}
	w := r.walk(all)
	for len(w.Left) > 0 && len(counts) < cmp.Or(r.Most, mostGroups) {
		errs = append(errs, r.scan(ctx, w, counts))
	}
	sums = map[dispatcher.DeadReason]int64{}
	for g, n := range counts {
		sums[g.Reason] += n
	}
	return sums, len(w.Left) > 0, errors.Join(errs...)
}

func (r *Reader) walk(in []int) *conn.Walk { return r.Conn.Walk("read groups", in) }

// scan reads a page of each partition.
func (r *Reader) scan(ctx context.Context, w *conn.Walk, counts map[dispatcher.DeadGroup]int64) error {
	return w.Pages(ctx, func(p redis.Pipeliner, n int, at uint64) *redis.ScanCmd {
		return p.HScan(ctx, r.Tags[n]+keys.Buried, at, "", pageOfScan)
	}, func(_ int, fields []string) {
		for k := 0; k+1 < len(fields); k += 2 {
			lane, reason, _ := strings.Cut(fields[k], " ")
			if count, _ := strconv.ParseInt(fields[k+1], 10, 64); count > 0 { // else a person wrote it: doctor tells
				counts[dispatcher.DeadGroup{Lane: dispatcher.Lane(lane), Reason: dispatcher.DeadReason(reason)}] = count
			}
		}
	})
}

func groupsOf(counts map[dispatcher.DeadGroup]int64) []dispatcher.DeadGroup {
	groups := make([]dispatcher.DeadGroup, 0, len(counts))
	for g, n := range counts {
		g.Count = n
		groups = append(groups, g)
	}
	return groups
}

// choose leaves out the groups that do not match. A bare URL's lane that is not
// known by name any more may be any tenant's, so it stays.
func (r *Reader) choose(ctx context.Context, f dispatcher.DeadFilter, page *dispatcher.DeadPage) error {
	owned := make(map[dispatcher.Lane]bool, len(f.Owned))
	for _, lane := range f.Owned {
		owned[lane] = true
	}
	page.Groups = slices.DeleteFunc(page.Groups, func(g dispatcher.DeadGroup) bool {
		return len(f.Reasons) > 0 && !slices.Contains(f.Reasons, g.Reason) || len(f.Tenants) > 0 && g.Lane.IsEndpoint() && !owned[g.Lane]
	})
	if len(f.Tenants) == 0 {
		return nil
	}
	if err := r.name(ctx, page.Groups); err != nil {
		return err
	}
	page.Groups = slices.DeleteFunc(page.Groups, func(g dispatcher.DeadGroup) bool { return g.URL != "" && !slices.Contains(f.Tenants, g.Tenant) })
	return nil
}

// name fills in the origins and tenants of bare URLs' lanes.
func (r *Reader) name(ctx context.Context, groups []dispatcher.DeadGroup) error {
	return r.fields(ctx, keys.LaneNames, groups, func(g *dispatcher.DeadGroup) string { return string(g.Lane) },
		func(g *dispatcher.DeadGroup, text string) {
			if !g.Lane.IsQueue() { // its name is no origin
				g.URL, g.Tenant, _ = strings.Cut(text, " ")
			}
		})
}

// fields reads a field for each group, of a hash of its partition. It tells only
// those that are there.
func (r *Reader) fields(ctx context.Context, key string, groups []dispatcher.DeadGroup, field func(*dispatcher.DeadGroup) string, tell func(*dispatcher.DeadGroup, string)) error {
	byPartition := map[int][]int{}
	for i := range groups {
		n := r.Partition(groups[i].Lane)
		byPartition[n] = append(byPartition[n], i)
	}
	var partitions []int
	var shares [][]int
	for n, all := range byPartition {
		for share := range slices.Chunk(all, pageOfScan) {
			partitions, shares = append(partitions, n), append(shares, share)
		}
	}
	answers := make([]*redis.SliceCmd, len(shares))
	err := r.Conn.EachPartition(ctx, "read groups", partitions, func(p redis.Pipeliner, i int) {
		names := make([]string, len(shares[i]))
		for k, g := range shares[i] {
			names[k] = field(&groups[g])
		}
		answers[i] = p.HMGet(ctx, r.Tags[partitions[i]]+key, names...)
	})
	if err != nil {
		return err
	}
	for i, share := range shares {
		for k, value := range answers[i].Val() {
			if text, ok := value.(string); ok {
				tell(&groups[share[k]], text)
			}
		}
	}
	return nil
}

package read

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/input"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// Limits of one page. A page sorts at most mostGroups groups, because Redis takes some 15 ms
// to read them. If there are more, the next page sorts the next groups separately. One command
// reads pageOfScan, in less than half a ms.
const (
	mostGroups = 50_000
	pageOfScan = 1000
)

// DeadCounts queries the number of dead deliveries, by destination and reason. It reads the
// counts that every script keeps, and no delivery.
type DeadCounts struct {
	conn *conn.Client
	most int // limit of groups that a page sorts
}

// NewDeadCounts returns DeadCounts. A page sorts at most `most` groups; 0: mostGroups.
func NewDeadCounts(c *conn.Client, most int) *DeadCounts {
	return &DeadCounts{conn: c, most: cmp.Or(most, mostGroups)}
}

// Page returns the matching groups, the largest first. It fills in the name of a lane if it is
// known. If it is not, the lane may belong to another tenant.
func (c *DeadCounts) Page(ctx context.Context, f dispatcher.DeadFilter) (page dispatcher.DeadPage, err error) {
	list := dispatcher.ListName("dead", f)
	var at deadPlace
	if err := c.open(ctx, list, f.Cursor, &at); err != nil {
		return page, err
	}
	var rest *deadPlace
	if len(f.Lanes) > 0 {
		page.Groups, err = c.named(ctx, f)
	} else {
		page.Groups, rest, err = c.window(ctx, &at)
	}
	if err != nil {
		return page, err
	}
	if err = c.choose(ctx, f, &page); err != nil {
		return page, err
	}
	slices.SortFunc(page.Groups, compareGroups)
	if at.Count > 0 {
		last := dispatcher.DeadGroup{Lane: at.Lane, Reason: at.Reason, Count: at.Count}
		from, there := slices.BinarySearchFunc(page.Groups, last, compareGroups)
		if there {
			from++
		}
		page.Groups = page.Groups[from:]
	}
	if limit := input.PageSize(f.Limit, input.MaxPage); len(page.Groups) > limit {
		page.Groups = page.Groups[:limit]
		last := page.Groups[limit-1]
		at.Count, at.Lane, at.Reason = last.Count, last.Lane, last.Reason
		rest = &at
	}
	if rest != nil {
		if page.Next, err = c.conn.Cursors().Seal(ctx, list, rest); err != nil {
			return page, err
		}
	}
	if len(f.Tenants) == 0 {
		err = c.name(ctx, page.Groups)
	}
	return page, err
}

// deadPlace is the cursor of a page: the partitions that are sorted together, the start of the
// scan in the first one, and the last returned group.
type deadPlace struct {
	From, To int    // To: exclusive; 0: not known yet
	Scan     string // cursor in the first partition; empty: its start

	Count  int64 // of the last group; 0: none was returned
	Lane   dispatcher.Lane
	Reason dispatcher.DeadReason
}

// open opens a cursor. It returns an error for a cursor from before a repartition, because its
// partitions may not exist any more.
func (c *DeadCounts) open(ctx context.Context, list, text string, at *deadPlace) error {
	if err := c.conn.Cursors().Open(ctx, list, text, at); err != nil {
		return err
	}
	if n := c.conn.Partitions(); at.From >= n || at.To > n {
		return fmt.Errorf("%w: it is of another division", dispatcher.ErrCursor)
	}
	return nil
}

// compareGroups sorts the largest group first.
func compareGroups(a, b dispatcher.DeadGroup) int {
	return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Lane, b.Lane), cmp.Compare(a.Reason, b.Reason))
}

// named queries the groups of the requested lanes.
func (c *DeadCounts) named(ctx context.Context, f dispatcher.DeadFilter) (groups []dispatcher.DeadGroup, err error) {
	reasons := f.Reasons
	if len(reasons) == 0 {
		reasons = dispatcher.DeadReasons()
	}
	for _, lane := range f.Lanes {
		for _, reason := range reasons {
			groups = append(groups, dispatcher.DeadGroup{Lane: lane, Reason: reason})
		}
	}
	slices.SortFunc(groups, compareGroups)
	groups = slices.CompactFunc(groups, func(a, b dispatcher.DeadGroup) bool { return compareGroups(a, b) == 0 })
	err = c.fields(ctx, keys.Buried, groups, func(g *dispatcher.DeadGroup) string { return string(g.Lane) + " " + string(g.Reason) },
		func(g *dispatcher.DeadGroup, text string) { g.Count, _ = strconv.ParseInt(text, 10, 64) })
	return slices.DeleteFunc(groups, func(g dispatcher.DeadGroup) bool { return g.Count <= 0 }), err
}

// window reads the groups of some partitions from the cursor. It reads at most the number of
// groups that a page may sort. rest is the start of the next window; nil: there is none.
func (c *DeadCounts) window(ctx context.Context, at *deadPlace) (groups []dispatcher.DeadGroup, rest *deadPlace, err error) {
	sizes := make([]*redis.IntCmd, c.conn.Partitions())
	all := c.conn.All()
	err = c.conn.EachPartition(ctx, "count groups", all, func(p redis.Pipeliner, n int) { sizes[n] = p.HLen(ctx, c.conn.Tag(n)+keys.Buried) })
	if err != nil {
		return nil, nil, err
	}
	most := int64(c.most)
	if at.To == 0 {
		sum := sizes[at.From].Val()
		for at.To = at.From + 1; at.Scan == "" && at.To < c.conn.Partitions() && sum+sizes[at.To].Val() <= most; at.To++ {
			sum += sizes[at.To].Val()
		}
	}
	w := c.walk(slices.DeleteFunc(all[at.From:at.To], func(n int) bool { return sizes[n].Val() == 0 }))
	w.Cursors[at.From] = at.Scan
	counts := map[dispatcher.DeadGroup]int64{} // a scan may return a field twice
	for len(w.Left) > 0 {
		if at.To == at.From+1 && int64(len(counts)) >= most {
			rest = &deadPlace{From: at.From, Scan: conn.Carried(w.Cursors[at.From])}
			break
		}
		if err = c.scan(ctx, w, counts); err != nil {
			return nil, nil, err
		}
		if w.Again && at.Scan != "" { // no group of this window was returned yet
			at.Scan, at.Count = "", 0
		}
	}
	if rest == nil && at.To < c.conn.Partitions() {
		rest = &deadPlace{From: at.To}
	}
	return groupsOf(counts), rest, nil
}

// ByReason returns the number of dead deliveries by reason. It reads page by page. partial
// reports that it counted only some groups, because there are too many. If some partitions
// fail, it returns their error and the counts of the others.
func (c *DeadCounts) ByReason(ctx context.Context) (sums map[dispatcher.DeadReason]int64, partial bool, err error) {
	var errs []error
	counts := map[dispatcher.DeadGroup]int64{}
	w := c.walk(c.conn.All())
	for len(w.Left) > 0 && len(counts) < c.most {
		errs = append(errs, c.scan(ctx, w, counts))
	}
	sums = map[dispatcher.DeadReason]int64{}
	for g, n := range counts {
		sums[g.Reason] += n
	}
	return sums, len(w.Left) > 0, errors.Join(errs...)
}

func (c *DeadCounts) walk(in []int) *conn.Walk { return c.conn.Walk("read groups", in) }

// scan reads a page of each partition.
func (c *DeadCounts) scan(ctx context.Context, w *conn.Walk, counts map[dispatcher.DeadGroup]int64) error {
	return w.Pages(ctx, func(p redis.Pipeliner, n int, at uint64) *redis.ScanCmd {
		return p.HScan(ctx, c.conn.Tag(n)+keys.Buried, at, "", pageOfScan)
	}, func(_ int, fields []string) {
		for k := 0; k+1 < len(fields); k += 2 {
			lane, reason, _ := strings.Cut(fields[k], " ")
			if count, _ := strconv.ParseInt(fields[k+1], 10, 64); count > 0 { // else a person wrote it, and doctor reports it
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

// choose removes the groups that do not match. A lane of a bare URL without a known name may
// belong to any tenant, so it is kept.
func (c *DeadCounts) choose(ctx context.Context, f dispatcher.DeadFilter, page *dispatcher.DeadPage) error {
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
	if err := c.name(ctx, page.Groups); err != nil {
		return err
	}
	page.Groups = slices.DeleteFunc(page.Groups, func(g dispatcher.DeadGroup) bool { return g.URL != "" && !slices.Contains(f.Tenants, g.Tenant) })
	return nil
}

// name fills in the origins and tenants of the lanes of bare URLs.
func (c *DeadCounts) name(ctx context.Context, groups []dispatcher.DeadGroup) error {
	return c.fields(ctx, keys.LaneNames, groups, func(g *dispatcher.DeadGroup) string { return string(g.Lane) },
		func(g *dispatcher.DeadGroup, text string) {
			if !g.Lane.IsQueue() { // its name is not an origin
				g.URL, g.Tenant, _ = strings.Cut(text, " ")
			}
		})
}

// fields reads one field for each group, from a hash of the group's partition. It reports
// only the fields that exist.
func (c *DeadCounts) fields(ctx context.Context, key string, groups []dispatcher.DeadGroup, field func(*dispatcher.DeadGroup) string, set func(*dispatcher.DeadGroup, string)) error {
	shares := conn.Grouped(len(groups), pageOfScan, func(i int) int { return c.conn.PartitionOf(groups[i].Lane) })
	answers := make([]*redis.SliceCmd, len(shares))
	err := c.conn.EachShare(ctx, "read groups", shares, func(p redis.Pipeliner, i int) {
		names := make([]string, len(shares[i].At))
		for k, g := range shares[i].At {
			names[k] = field(&groups[g])
		}
		answers[i] = p.HMGet(ctx, c.conn.Tag(shares[i].Partition)+key, names...)
	})
	if err != nil {
		return err
	}
	for i, share := range shares {
		for k, value := range answers[i].Val() {
			if text, ok := value.(string); ok {
				set(&groups[share.At[k]], text)
			}
		}
	}
	return nil
}

// Dead returns the counts of dead deliveries, with the newest delivery of each group.
func (s *Deliveries) Dead(ctx context.Context, f dispatcher.DeadFilter) (dispatcher.DeadPage, error) {
	err := s.conn.LostOf(f.Lanes)
	var page dispatcher.DeadPage
	if err == nil {
		page, err = s.dead.Page(ctx, f)
	}
	if err == nil && len(page.Groups) == 0 && page.Next == "" {
		err = s.conn.IntactOf(ctx, f.Lanes)
	}
	if err == nil {
		err = s.newestDead(ctx, page.Groups)
	}
	if err != nil {
		return dispatcher.DeadPage{}, fmt.Errorf("count the dead: %w", err)
	}
	if len(f.Tenants) > 0 {
		page.Groups = slices.DeleteFunc(page.Groups, func(g dispatcher.DeadGroup) bool {
			return !g.Lane.IsEndpoint() && !slices.Contains(f.Tenants, g.Tenant)
		})
	}
	return page, nil
}

// newestDead finds the newest delivery of each group. It reads the dead deliveries, newest
// first, with the limits of a list's page. In most groups the newest delivery died recently.
func (s *Deliveries) newestDead(ctx context.Context, groups []dispatcher.DeadGroup) error {
	type group struct {
		lane   dispatcher.Lane
		reason dispatcher.DeadReason
	}
	left, at := map[int]map[group]*dispatcher.DeadGroup{}, make([]listCursor, s.conn.Partitions())
	for i := range groups {
		g := &groups[i]
		n := s.conn.PartitionOf(g.Lane)
		if left[n] == nil {
			left[n] = map[group]*dispatcher.DeadGroup{}
		}
		left[n][group{g.Lane, g.Reason}] = g
	}
	l := &lister{s: s}
	for len(left) > 0 && !l.spent() {
		var calls []conn.Call
		for n, of := range left {
			var lanes []dispatcher.Lane
			var reasons []dispatcher.DeadReason
			for g := range of {
				lanes, reasons = append(lanes, g.lane), append(reasons, g.reason)
			}
			slices.Sort(reasons)
			after := ""
			if at[n].name != "" {
				after = conn.ScoreText(at[n].score)
			}
			calls = append(calls, conn.Call{Partition: n, Args: []any{
				0, "dead", "", min(len(of), listChunk), after, at[n].name, " dead ", ShelfWords(slices.Compact(reasons)), ShelfWords(lanes), "0", "1",
			}})
		}
		chunks, err := l.read(ctx, calls...)
		if err != nil {
			return err
		}
		for i, c := range chunks {
			n := calls[i].Partition
			for _, e := range c.entries {
				key := group{e.delivery.ID.Lane, e.delivery.Reason}
				if g := left[n][key]; g != nil {
					setNewest(g, &e.delivery)
					delete(left[n], key)
				}
			}
			if at[n] = c.last; !c.more || len(left[n]) == 0 {
				delete(left, n)
			}
		}
	}
	return nil
}

func setNewest(g *dispatcher.DeadGroup, d *dispatcher.Delivery) {
	g.Newest, g.LastStatus, g.LastError = d.Ended, d.LastStatus, d.LastError
	if u, err := url.Parse(d.URL); err == nil && g.URL == "" && u.Host != "" {
		g.URL, g.Tenant = u.Scheme+"://"+u.Host, d.Tenant
	}
}

package admin

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
	"github.com/hookladder/hookladder/dispatcher/internal/wait"
)

// turns checks the lanes of a partition: a lane with deliveries must have its turn for
// claims, and must be in its own partition.
func (d *doctor) turns(ctx context.Context, n int) error {
	d.out.Lanes += len(d.lanes[n])                                               // once even without lanes
	for first := 0; first == 0 || first < len(d.lanes[n]); first += judgeBatch { // once even if there are none
		lanes := d.lanes[n][first:min(first+judgeBatch, len(d.lanes[n]))]
		args := []any{conn.Flag(d.e.Fix)}
		for _, lane := range lanes {
			args = append(args, lane)
			if d.s.conn.PartitionOf(dispatcher.Lane(lane)) != n {
				d.report(n, lane, "wrong_partition", "", false)
			}
		}
		a, err := d.call(ctx, lanesScript, n, args...)
		if err != nil {
			return err
		}
		if err := readFaults(a, func(lane, kind, detail string) { d.report(n, lane, kind, detail, d.e.Fix) }); err != nil {
			return err
		}
	}
	return nil
}

// project checks the data that belong to no partition. It checks them twice, because an
// endpoint is created in two steps, and a starting instance writes twice.
func (d *doctor) project(ctx context.Context) error {
	if err := d.ends(ctx); err != nil {
		return err
	}
	if err := d.indexes(ctx); err != nil { // before the checks that read endpoints through the indexes
		return err
	}
	limits, err := d.wrongLimits(ctx)
	if err != nil {
		return err
	}
	if err := d.archive(ctx); err != nil {
		return err
	}
	about, err := d.unmet(ctx)
	if err != nil {
		return err
	}
	watch := instanceWatch{readings: wait.DeadReadings, every: d.e.Still / wait.DeadReadings, wait: d.wait, read: d.beats}
	gone, err := watch.silent(ctx)
	if err != nil {
		return err
	}
	if len(limits) > 0 {
		again, err := d.wrongLimits(ctx)
		if err != nil {
			return err
		}
		maps.DeleteFunc(limits, func(lane string, was wrongLimit) bool { return again[lane] != was })
	}
	if err := d.repairLimits(ctx, limits); err != nil {
		return err
	}
	for _, name := range gone {
		if d.e.Fix {
			if _, err := d.s.Reap(ctx, doctorName, name); err != nil {
				return err
			}
		}
		d.report(-1, name, "dead_instance", "", d.e.Fix)
	}
	return d.forgetUnmet(ctx, about)
}

// beats returns the heartbeat number of each instance, and 0 for each unknown name with
// leases. Such a name never has a heartbeat, so its deliveries would stay in flight
// forever.
func (d *doctor) beats(ctx context.Context) (map[string]int64, error) {
	if err := d.readHolders(ctx); err != nil {
		return nil, err
	}
	numbers, err := d.numbers(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range d.holders {
		if _, known := numbers[name]; known {
			continue
		}
		leases, err := d.s.Leases(ctx, name)
		if err != nil {
			return nil, err
		}
		if len(leases) > 0 {
			numbers[name] = 0
		}
	}
	return numbers, nil
}

// wrongLimit is the fault in a lane's copy of its endpoint's limits.
type wrongLimit struct {
	kind      string
	had, want int64 // versions
}

// endpointsAtOnce is how many endpoints, and their lanes, are compared at once.
const endpointsAtOnce = 256

// wrongLimits compares the limits of endpoints with their lanes' copies.
func (d *doctor) wrongLimits(ctx context.Context) (map[string]wrongLimit, error) {
	wrong := map[string]wrongLimit{}
	known := map[string]bool{}
	for cursor := ""; ; {
		page, next, err := d.s.Endpoints.ListEndpoints(ctx, dispatcher.EndpointFilter{Limit: endpointsAtOnce, Cursor: cursor})
		if err != nil {
			return nil, err
		}
		lanes := make([]dispatcher.Lane, len(page))
		for i, e := range page {
			known[e.ID] = true
			lanes[i] = e.Lane()
		}
		states, err := d.s.LaneReader.LaneStates(ctx, lanes)
		if err != nil {
			return nil, err
		}
		for i, e := range page {
			switch {
			case len(e.Secrets) == 0: // the limits of an endpoint that can't be decrypted are unknown
				wrong[e.ID] = wrongLimit{kind: "unopened", want: e.Version}
			case states[i].Limits.Version < e.Version:
				wrong[e.ID] = wrongLimit{kind: "limits", had: states[i].Limits.Version, want: e.Version}
			}
		}
		if cursor = next; cursor == "" {
			break
		}
	}
	return wrong, d.orphans(ctx, known, wrong)
}

// orphans adds the lanes whose endpoints do not exist.
func (d *doctor) orphans(ctx context.Context, known map[string]bool, wrong map[string]wrongLimit) error {
	var lanes []dispatcher.Lane
	for _, some := range d.lanes {
		for _, lane := range some {
			if strings.HasPrefix(lane, dispatcher.EndpointPrefix) && !known[lane] {
				lanes = append(lanes, dispatcher.Lane(lane))
			}
		}
	}
	for some := range slices.Chunk(lanes, endpointsAtOnce) {
		states, err := d.s.LaneReader.LaneStates(ctx, some)
		if err != nil {
			return err
		}
		versions, err := d.s.Endpoints.EndpointVersions(ctx, names(some))
		if err != nil {
			return err
		}
		for i, s := range states {
			switch {
			case versions[i].Version != 0: // it is missing in an index only
			case s.Limits.Mode == dispatcher.LaneDeleted:
			case versions[i].End > 0:
				wrong[string(s.Lane)] = wrongLimit{kind: "half_deleted", had: s.Limits.Version, want: versions[i].End}
			case s.InFlight+s.Waiting > 0:
				wrong[string(s.Lane)] = wrongLimit{kind: "no_endpoint_work", had: s.Limits.Version}
			case s.Limits.Version > 0 || s.Known:
				wrong[string(s.Lane)] = wrongLimit{kind: "no_endpoint", had: s.Limits.Version}
			}
		}
	}
	return nil
}

func names(lanes []dispatcher.Lane) []string {
	out := make([]string, len(lanes))
	for i, lane := range lanes {
		out[i] = string(lane)
	}
	return out
}

// ends reports deleted endpoints whose version can't be read.
func (d *doctor) ends(ctx context.Context) error {
	for e, err := range d.entries(ctx, conn.Home, keys.Find(keys.Gone), "") {
		if err != nil {
			return err
		}
		if end, err := strconv.ParseInt(e.value, 10, 64); err == nil && end > 0 {
			continue
		}
		if d.e.Fix {
			if err := d.s.Endpoints.ForgetDeleted(ctx, e.name); err != nil {
				return err
			}
		}
		d.report(-1, e.name, "broken_end", "", d.e.Fix)
	}
	return nil
}

// repairLimits copies limits to lanes, and marks empty lanes without an endpoint as
// deleted.
func (d *doctor) repairLimits(ctx context.Context, wrong map[string]wrongLimit) error {
	for _, id := range slices.Sorted(maps.Keys(wrong)) {
		kind, lane := wrong[id].kind, dispatcher.Lane(id)
		fix := d.e.Fix && meanings[kind].cure != ""
		limits := dispatcher.LaneLimits{Mode: dispatcher.LaneDeleted}
		if kind == "half_deleted" {
			limits.Version = wrong[id].want
		}
		if kind == "limits" {
			found, err := d.s.Endpoints.Endpoints(ctx, []string{id})
			if err != nil {
				return err
			}
			if found[0] == nil {
				continue // deleted in the meantime
			}
			limits = found[0].Limits()
		}
		if fix {
			if _, err := d.s.Limit(ctx, doctorName, lane, limits, false); err != nil {
				return err
			}
		}
		d.report(d.s.conn.PartitionOf(lane), id, kind, "", fix)
	}
	return nil
}

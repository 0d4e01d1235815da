package dispatcher

import (
	"context"
	"slices"
	"time"
)

// admitWithin bounds what a lease waits for: endpoints read, limits written.
const admitWithin = 2 * time.Second

// admit tells which of the deliveries that were just leased may be attempted:
// those whose lane and endpoint are of one version, or whose endpoint may be
// called all the same. The others go back; their lanes are told what they did
// not know. So a change that was made and of which nobody was told, since who
// made it died, counts from the next claim on.
//
// An error says that the store does not answer, and everything went back.
func (d *directory) admit(ctx context.Context, leased []Claimed) (may []Claimed, back []Settlement, err error) {
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), admitWithin)
	defer cancel()
	found, err := d.find(call, endpointsOf(leased)...)
	if err == nil {
		err = d.renew(call, leased, found)
	}
	held := map[Lane]bool{}
	for _, c := range leased {
		if _, judged := held[c.ID.Lane]; !judged {
			held[c.ID.Lane] = err != nil || d.unfit(call, c, found[string(c.ID.Lane)])
		}
		if held[c.ID.Lane] {
			back = append(back, Settlement{ID: c.ID, Verdict: Back, Due: c.Due})
		} else {
			may = append(may, c)
		}
	}
	return may, back, err
}

// endpointsOf are the ids of the endpoints whose deliveries these are.
func endpointsOf(leased []Claimed) (ids []string) {
	for _, c := range leased {
		if !slices.Contains(ids, string(c.ID.Lane)) {
			ids = append(ids, string(c.ID.Lane))
		}
	}
	return ids
}

// renew reads again what a lane knows a newer version of.
func (d *directory) renew(ctx context.Context, leased []Claimed, found map[string]*destination) error {
	var old []string
	for _, c := range leased {
		id := string(c.ID.Lane)
		if dest := found[id]; dest != nil && dest.endpoint.Version < c.Version && !slices.Contains(old, id) {
			d.forget(id)
			delete(found, id)
			old = append(old, id)
		}
	}
	if len(old) == 0 {
		return nil
	}
	fresh, err := d.find(ctx, old...)
	for id, dest := range fresh {
		found[id] = dest
	}
	return err
}

// unfit reports whether deliveries of a lane may not be sent, after telling the
// lane why.
func (d *directory) unfit(ctx context.Context, c Claimed, dest *destination) bool {
	limits := LaneLimits{Version: c.Version + 1, Held: HeldDeleted}
	if dest != nil {
		limits = dest.endpoint.Limits()
	}
	if limits.Version > c.Version {
		d.engine.limit(ctx, c.ID.Lane, limits)
	}
	return limits.Held != HeldNone
}

// mend gives lanes the limits that they lack, or have an older version of, as
// a publish found out.
func (d *directory) mend(ctx context.Context, versions map[Lane]int64, used map[Lane]int64) error {
	for lane, version := range versions {
		if version == used[lane] {
			continue
		}
		d.forget(string(lane)) // either may be the older one
		found, err := d.find(ctx, string(lane))
		if err != nil {
			return err
		}
		limits := LaneLimits{Version: version + 1, Held: HeldDeleted}
		if dest := found[string(lane)]; dest != nil {
			limits = dest.endpoint.Limits()
		}
		if limits.Version > version {
			d.engine.limit(ctx, lane, limits)
		}
	}
	return nil
}

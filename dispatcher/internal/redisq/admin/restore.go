package admin

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
	"github.com/hookladder/hookladder/dispatcher/archive"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/home"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// RestoreTarget is the store that receives the data of an archive.
type RestoreTarget struct {
	store *redisq.Store
	conn  *conn.Client
	by    string
	loss  *dispatcher.Emptied // nil: no data are recorded as lost
}

var _ archive.Target = (*RestoreTarget)(nil)

// NewRestoreTarget returns a RestoreTarget for a store. The parameter by is the name of the caller.
func NewRestoreTarget(s *redisq.Store, by string) *RestoreTarget {
	return &RestoreTarget{store: s, conn: s.Conn(), by: by}
}

// Emptied records the data that the store lost, compared with an archive, and reports whether there
// are any. If so, all later calls restore only these data.
func (t *RestoreTarget) Emptied(ctx context.Context, id string, epochs map[int]string) (bool, error) {
	if err := t.conn.NoteLost(ctx, id, epochs); err != nil {
		return false, err
	}
	t.loss = t.conn.Loss()
	return t.loss != nil, nil
}

// ID returns the id of the present data.
func (t *RestoreTarget) ID() string { return t.conn.ID() }

// fills reports whether data are put into a partition. If the store lost no data, all partitions
// are filled, because a running store may still lack other data.
func (t *RestoreTarget) fills(partition int) bool { return t.loss == nil || t.loss.Has(partition) }

// Epochs returns the epochs of the partitions, in their order. It reports whether their whole log
// is archived.
func (t *RestoreTarget) Epochs(ctx context.Context) (epochs []string, drained bool, err error) {
	log := NewFeed(t.store)
	states, err := log.States(ctx, t.conn.All())
	if err != nil {
		return nil, false, err
	}
	epochs, drained = make([]string, len(states)), true
	for _, s := range states {
		epochs[s.Partition] = s.Epoch
		drained = drained && !s.Last.After(s.At)
	}
	if !drained {
		err = log.Ask(ctx)
	}
	return epochs, drained, err
}

// Hold pauses the store until Release: it accepts no message and attempts no delivery.
func (t *RestoreTarget) Hold(ctx context.Context) error {
	if err := t.store.ReadClock(ctx); err != nil { // bodies are staged by this clock
		return err
	}
	return t.everywhere(ctx, 1)
}

// Release ends the pause of Hold. All lanes stay paused if they were paused before, or if a
// person requested a pause in the meantime. The lost data are recorded as restored.
func (t *RestoreTarget) Release(ctx context.Context) error {
	if err := t.everywhere(ctx, 0); err != nil {
		return err
	}
	if t.loss != nil {
		return t.store.EndLoss(ctx, t.loss) // and makes the instances read the log
	}
	// The end of the pause is a line in the log, and a later restore needs that line archived. All
	// data are restored by now, so a failed request is no error. Instances poll the log later in
	// any case.
	_ = NewFeed(t.store).Ask(ctx)
	return nil
}

// everywhere begins or ends the pause in each partition that is filled.
func (t *RestoreTarget) everywhere(ctx context.Context, begin int) error {
	calls := slices.DeleteFunc(t.conn.Everywhere([]any{begin}), func(c conn.Call) bool { return !t.fills(c.Partition) })
	return t.conn.SendEach(ctx, conn.Batch{Script: restoreHoldScript, By: t.by, Calls: calls}, func(_ int, r *conn.Call) error { return r.Err })
}

// PutEndpoints puts back endpoints, the limits of their lanes, and the paused lanes.
func (t *RestoreTarget) PutEndpoints(ctx context.Context, list []archive.Endpoint, holds []archive.PausedLane) (put int, err error) {
	lanes := make([]dispatcher.Lane, len(list))
	for i := range list {
		lanes[i] = dispatcher.Lane(list[i].ID)
	}
	states, err := t.store.LaneReader.LaneStates(ctx, lanes)
	if err != nil {
		return 0, err
	}
	for i := range list {
		e := &list[i]
		lane := states[i].Limits
		lane.By, lane.Since = states[i].By, states[i].Since
		limits, fresh, err := t.putEndpoint(ctx, e, lane)
		if err != nil {
			return put, fmt.Errorf("restore endpoint %s: %w", e.ID, err)
		}
		if limits.Version > 0 {
			if _, err := t.store.Limit(ctx, t.by, dispatcher.Lane(e.ID), limits, false); err != nil {
				return put, fmt.Errorf("restore limits of %s: %w", e.ID, err)
			}
		}
		if fresh && !e.Deleted {
			put++
		}
	}
	for _, h := range holds {
		if h.Lane != dispatcher.AllLanes && !t.fills(t.conn.PartitionOf(h.Lane)) {
			continue
		}
		if _, err := t.store.Limit(ctx, t.by, h.Lane, dispatcher.LaneLimits{Mode: dispatcher.LanePaused, Name: h.Name, By: h.By, Since: h.Since}, false); err != nil {
			return put, fmt.Errorf("hold %s again: %w", h.Lane, err)
		}
	}
	return put, nil
}

// lanesAtOnce is the number of lanes in one read.
const lanesAtOnce = 256

// Lost returns the lanes with unfinished deliveries whose endpoint is missing and was not deleted
// by the store. It returns the number of deliveries for each lane.
func (t *RestoreTarget) Lost(ctx context.Context) (map[dispatcher.Lane]int64, error) {
	lost := map[dispatcher.Lane]int64{}
	for after, more := "", true; more; more = after != "" {
		states, next, err := t.store.LaneReader.LanesHere(ctx, lanesAtOnce, after)
		if err != nil {
			return nil, err
		}
		after = next
		states = slices.DeleteFunc(states, func(s dispatcher.LaneState) bool { return !s.Lane.IsEndpoint() || s.InFlight+s.Waiting == 0 })
		ids := make([]string, len(states))
		for i := range states {
			ids[i] = string(states[i].Lane)
		}
		stored, _, err := t.store.Endpoints.StoredByID(ctx, ids)
		if err != nil {
			return nil, err
		}
		for i := range stored {
			if !stored[i].There() && stored[i].End == 0 {
				lost[states[i].Lane] = int64(states[i].InFlight + states[i].Waiting)
			}
		}
	}
	return lost, nil
}

// putEndpoint puts an endpoint back and returns the limits of its lane. If the endpoints were not
// lost, only lanes lack their limits. It then returns the limits of the present endpoint. Version 0
// means that no limits must be written.
func (t *RestoreTarget) putEndpoint(ctx context.Context, e *archive.Endpoint, lane dispatcher.LaneLimits) (l dispatcher.LaneLimits, fresh bool, err error) {
	if t.loss == nil || t.loss.Home {
		return t.store.Endpoints.PutBack(ctx, home.EndpointBack{ID: e.ID, Version: e.Version, Record: e.Record, Deleted: e.Deleted, Lane: lane})
	}
	if e.Deleted || !t.fills(t.conn.PartitionOf(dispatcher.Lane(e.ID))) {
		return l, false, nil
	}
	found, err := t.store.Endpoints.Endpoints(ctx, []string{e.ID})
	if err != nil || found[0] == nil {
		return l, false, err
	}
	return found[0].Limits(), false, nil
}

// OpensEndpoint reports whether the store has the key of an endpoint's record.
func (t *RestoreTarget) OpensEndpoint(e *archive.Endpoint) bool {
	id := home.EndpointSealedBy(string(e.Record))
	return id == home.NoKey || t.store.Endpoints.Box().Has(id)
}

// Opens reports whether the store has the key of the headers of a delivery's message.
func (t *RestoreTarget) Opens(o *archive.Open) bool {
	return !errors.Is(conn.CheckHeaders(o.ID.Message, string(o.Head), t.store.Endpoints.Box()), dispatcher.ErrSealed)
}

// Limits of one call of the scripts. They limit the ids of ended deliveries, the deliveries to put
// back, and the bytes of their records. Bodies stored apart are written by plain commands.
const (
	knownAtOnce  = 256
	putAtOnce    = 64
	putBytes     = 256 << 10
	stagedAtOnce = 4 << 20
)

// PutKnown adds ids to the known ids.
func (t *RestoreTarget) PutKnown(ctx context.Context, known []archive.Known) error {
	var calls []conn.Call
	for _, share := range conn.Grouped(len(known), knownAtOnce, func(i int) int { return t.conn.PartitionOf(known[i].Lane) }) {
		if !t.fills(share.Partition) {
			continue
		}
		call := conn.Call{Partition: share.Partition}
		for _, i := range share.At {
			k := &known[i]
			call.Args = append(call.Args, k.ID, k.Digest[:], conn.ToMillis(k.Ended))
		}
		calls = append(calls, call)
	}
	return t.conn.SendEach(ctx, conn.Batch{Script: restoreKnownScript, By: t.by, Durable: true, Calls: calls}, func(_ int, r *conn.Call) error {
		return cmp.Or(r.Err, r.Weak)
	})
}

// Put puts unfinished deliveries back in their order.
func (t *RestoreTarget) Put(ctx context.Context, open []archive.Open) ([]archive.Put, error) {
	list := make([]delivery, len(open))
	for i := range open {
		list[i] = delivery{Open: &open[i], reason: "-"}
	}
	return t.putAll(ctx, list)
}

// PutDead puts dead deliveries back into the dead list.
func (t *RestoreTarget) PutDead(ctx context.Context, dead []archive.DeadOne) ([]archive.Put, error) {
	list := make([]delivery, len(dead))
	for i := range dead {
		d := &dead[i]
		list[i] = delivery{Open: &d.Open, status: d.Status, reason: string(d.Reason), ended: conn.ToMillis(d.Ended)}
		if list[i].reason == "" {
			list[i].reason = string(dispatcher.ReasonExhausted)
		}
	}
	return t.putAll(ctx, list)
}

// delivery is a delivery to put back.
type delivery struct {
	*archive.Open
	status int
	reason string // reason of its death; -: it did not die
	ended  int64  // ms
}

// share is the part of one partition in one call.
type share struct {
	conn.Call
	at    []int // indices of its deliveries
	bytes int
	apart int // bytes of the staged bodies
}

// putAll puts deliveries back. The calls to one partition run one after the other, because each
// call appends to the end of its line.
func (t *RestoreTarget) putAll(ctx context.Context, list []delivery) ([]archive.Put, error) {
	puts := make([]archive.Put, len(list))
	rounds := map[int][]*share{}
	for i := range list {
		n := t.conn.PartitionOf(list[i].ID.Lane)
		if !t.fills(n) {
			puts[i] = archive.PutExists // this partition lost no data
			continue
		}
		rounds[n] = t.add(ctx, rounds[n], n, i, &list[i])
		if rounds[n] == nil || !slices.Contains(rounds[n][len(rounds[n])-1].at, i) {
			puts[i] = archive.PutUnreadable
		}
	}
	for len(rounds) > 0 {
		var calls []conn.Call
		var shares []*share
		for n, of := range rounds {
			calls, shares = append(calls, of[0].Call), append(shares, of[0])
			if rounds[n] = of[1:]; len(of) == 1 {
				delete(rounds, n)
			}
		}
		if err := t.send(ctx, calls, shares, puts); err != nil {
			return nil, err
		}
	}
	return puts, nil
}

// add adds a delivery to the last share of its partition, or to a new share. It skips a delivery
// whose record can't be read.
func (t *RestoreTarget) add(ctx context.Context, of []*share, n, i int, d *delivery) []*share {
	m, err := conn.DecodeRecord(d.ID.Message, string(d.Head))
	if err != nil || len(m.Body) > 0 || m.Apart != nil && len(d.Body) != m.Apart.Size {
		return of
	}
	record, apart := conn.WithToken(d.Head, t.conn.SubjectMark(m.Subject)), 0
	tried, status := history(d.History, m.URL)
	if m.Apart == nil {
		record = append(record, d.Body...)
	} else {
		apart = len(d.Body)
	}
	if len(of) == 0 || !of[len(of)-1].takes(len(record)+len(tried), apart) {
		of = append(of, &share{Call: conn.Call{Partition: n}})
	}
	s := of[len(of)-1]
	s.at, s.bytes, s.apart = append(s.at, i), s.bytes+len(record)+len(tried), s.apart+apart
	s.Args = append(s.Args, string(d.ID.Lane), d.ID.Message, record, conn.ToMillis(d.Due), d.Attempts, d.Base, d.Beside,
		conn.ToMillis(d.Asked), cmp.Or(d.status, status), d.reason, d.ended, tried)
	if apart > 0 {
		field, before, tag, now := conn.BodyField(d.ID.Message, m.Apart.Digest), s.Fill, t.conn.Tag(n), t.store.Now()
		s.Fill = func(p redis.Pipeliner) {
			if before != nil {
				before(p)
			}
			// The score is the present time, because trim removes a body that was staged an hour
			// ago. A trim may run between the two commands.
			p.ZAdd(ctx, tag+keys.Staged, redis.Z{Score: float64(now.UnixMilli()), Member: field})
			p.HSet(ctx, tag+keys.Bodies, field, d.Body)
		}
	}
	return of
}

// withExcerpt is the number of newest attempts that keep their excerpt, as in settle.
const withExcerpt = 3

// history packs the attempts of a delivery for the script. It returns the status of the last
// attempt too.
func history(newest []archive.Event, url string) (packed string, status int) {
	var b strings.Builder
	n := 0
	for i := range newest {
		a, made := newest[i].Made(url)
		if !made {
			continue
		}
		if n == 0 {
			status = a.Status
		}
		entry := conn.AttemptEntry(&a, n < withExcerpt)
		b.WriteString(strconv.Itoa(len(entry)) + " " + entry)
		n++
	}
	return b.String(), status
}

// takes reports whether a share has room for one more delivery.
func (s *share) takes(bytes, apart int) bool {
	return len(s.at) < putAtOnce && s.bytes+bytes <= putBytes && s.apart+apart <= stagedAtOnce
}

// send makes one call in each of some partitions.
func (t *RestoreTarget) send(ctx context.Context, calls []conn.Call, shares []*share, puts []archive.Put) error {
	return t.conn.SendEach(ctx, conn.Batch{Script: restorePutScript, By: t.by, Durable: true, Calls: calls}, func(k int, r *conn.Call) error {
		if _, ok := r.Hint(); ok {
			codes := r.Text()
			if len(codes) != len(shares[k].at) {
				r.Err = conn.ErrReply
			}
			for i := range min(len(codes), len(shares[k].at)) {
				puts[shares[k].at[i]] = archive.Put(codes[i] - '0')
			}
		}
		return cmp.Or(r.Err, r.Weak)
	})
}

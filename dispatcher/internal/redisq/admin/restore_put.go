package admin

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

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
	return t.conn.SendEach(ctx, conn.Batch{Script: t.known, By: t.by, Durable: true, Calls: calls}, func(_ int, r *conn.Call) error {
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
	return t.conn.SendEach(ctx, conn.Batch{Script: t.put, By: t.by, Durable: true, Calls: calls}, func(k int, r *conn.Call) error {
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

package relay

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// errAway says that the store took nothing of a batch.
var errAway = errors.New("the store takes nothing")

// goOnAfter is how many batches in a row fail as a whole before their rows are put off. One
// part of a store may be away for long, and what is for the others must not wait for it.
const goOnAfter = 3

// A row that waits is tried again after an eighth of its age: the longer a destination is
// full, the fewer rows ask again and again. The least is what the API says in Retry-After.
const (
	waitLeast = 5 * time.Second
	waitMost  = time.Minute
	waitPart  = 8
)

// load is a batch on its way.
type load struct {
	r       *Relay
	pending []carried
	waiting []behind // by the first row of each
	done    dispatcher.OutboxDone
	taken   bool // the store took something, or refused it for good
	tried   bool
}

// carried is a row with its message.
type carried struct {
	row     *dispatcher.OutboxRow
	message *dispatcher.Message
	place   place // as the caller named it: publishing replaces an endpoint's uid
}

// behind is what rows wait behind: those of a key and destination, after a row.
type behind struct {
	seq   int64
	key   string
	place place
	wait  time.Duration
}

// place is a destination as far as a message tells. Those of a fan-out are any endpoints.
type place struct {
	name string
	fan  bool
	to   bool // it is one endpoint
	any  bool // it is not known
}

// meets reports whether messages for two places may go to one destination.
func (p place) meets(q place) bool {
	return p == q || p.any || p.fan && q.to || q.fan && p.to
}

// carry gives the rows to the engine, and answers what becomes of them.
func (r *Relay) carry(ctx context.Context, b dispatcher.OutboxBatch) (dispatcher.OutboxDone, error) {
	l := load{r: r, done: dispatcher.OutboxDone{Awake: b.Asleep && len(b.Rows) >= busyRows}}
	for i := range b.Waiting {
		row := &b.Waiting[i]
		at := place{any: true} // it was a message when it was put off
		if m, _ := r.o.Read(row); m != nil {
			at = placeOf(m)
		}
		l.waiting = append(l.waiting, behind{row.Seq, row.Key, at, row.Wait})
	}
	l.read(b.Rows)
	for len(l.pending) > 0 {
		l.round(ctx)
	}
	if l.taken || !l.tried {
		r.failed = 0
		return l.done, nil
	}
	if r.failed++; r.failed <= goOnAfter {
		return dispatcher.OutboxDone{}, errAway
	}
	return l.done, nil
}

// read makes messages of the rows, and puts aside those that are none.
func (l *load) read(rows []dispatcher.OutboxRow) {
	r := l.r
	old, rejected := 0, 0
	for i := range rows {
		row := &rows[i]
		if row.Age > r.o.Retention {
			old++
		}
		if row.Seq == r.stuck {
			l.putOff(row, waitMost)
			continue
		}
		m, refusal := r.o.Read(row)
		if m == nil {
			rejected++
			l.reject(row, refusal)
			continue
		}
		l.pending = append(l.pending, carried{row, m, placeOf(m)})
	}
	if n, ok := r.aged.allow(old); ok {
		r.o.Log.Warn("rows of the outbox are older than RETENTION: one that was relayed before would be a new message", "rows", n, "first", rows[0].ID)
	}
}

// round publishes the first row of each ordering key, and all rows that have none: what comes
// behind a row that can't be accepted must not overtake it.
func (l *load) round(ctx context.Context) {
	var now, later []carried
	met := map[string]bool{}
	for _, c := range l.pending {
		if b := l.blocked(&c); b != nil {
			l.putOff(c.row, b.wait)
			continue
		}
		key, id := "key "+c.row.Key, "id "+c.row.ID
		if met[id] || c.row.Key != "" && met[key] {
			later = append(later, c)
		} else {
			now = append(now, c)
		}
		met[id], met[key] = true, true
	}
	l.pending = later
	if len(now) == 0 {
		return
	}
	messages := make([]*dispatcher.Message, len(now))
	for i := range now {
		messages[i] = now[i].message
	}
	call, cancel := context.WithTimeout(ctx, publishWithin)
	defer cancel()
	l.tried = true
	results, err := l.r.o.Publish(call, messages)
	if err == nil && len(results) != len(now) {
		err = errAway
	}
	for i := range now {
		if err != nil {
			l.judge(&now[i], Refusal{Status: http.StatusServiceUnavailable}, 0)
			continue
		}
		l.judge(&now[i], l.r.o.Judge(&results[i]), taken(&results[i]))
	}
}

// taken is what becomes of a row whose message was not refused.
func taken(p *dispatcher.Published) dispatcher.RowResult {
	switch {
	case p.Result == dispatcher.Duplicate:
		return dispatcher.RowDuplicate
	case p.Unmatched():
		return dispatcher.RowUnmatched
	}
	return dispatcher.RowAccepted
}

// judge notes what becomes of a row that was published; is is that of one that was taken.
func (l *load) judge(c *carried, why Refusal, is dispatcher.RowResult) {
	switch {
	case why.Status < 300:
		l.taken = true
		l.done.Fates = append(l.done.Fates, dispatcher.RowFate{Seq: c.row.Seq, Result: is})
	case why.Status == http.StatusTooManyRequests:
		l.taken = true
		l.wait(c)
	case why.Status >= 500:
		l.wait(c)
	default:
		l.taken = true
		l.reject(c.row, why)
	}
}

func (l *load) reject(row *dispatcher.OutboxRow, why Refusal) {
	l.done.Fates = append(l.done.Fates, dispatcher.RowFate{Seq: row.Seq, Result: dispatcher.RowRejected, Problem: why.Problem})
	if n, ok := l.r.told.allow(1); ok {
		l.r.o.Log.Warn("rows of the outbox were rejected: hookladder_rejected has them, with the problems", "rows", n, "id", row.ID, "status", why.Status)
	}
}

// wait puts a row off, and what comes behind it.
func (l *load) wait(c *carried) {
	wait := waitOf(c.row)
	l.putOff(c.row, wait)
	if c.row.Key != "" {
		l.waiting = append(l.waiting, behind{c.row.Seq, c.row.Key, c.place, wait})
	}
}

func (l *load) putOff(row *dispatcher.OutboxRow, wait time.Duration) {
	l.done.Fates = append(l.done.Fates, dispatcher.RowFate{Seq: row.Seq, Result: dispatcher.RowWaits, Wait: wait})
}

// blocked is what a row has to wait behind; nil: nothing.
func (l *load) blocked(c *carried) *behind {
	if c.row.Key == "" || len(l.waiting) == 0 {
		return nil
	}
	for i := range l.waiting {
		if b := &l.waiting[i]; b.seq < c.row.Seq && b.key == c.row.Key && b.place.meets(c.place) {
			return b
		}
	}
	return nil
}

func waitOf(row *dispatcher.OutboxRow) time.Duration {
	return min(max(row.Age/waitPart, waitLeast), waitMost)
}

// placeOf is where a message goes. URLs of one origin and tenant are one destination.
func placeOf(m *dispatcher.Message) place {
	switch {
	case m.Queue != "":
		return place{name: "queue " + m.Queue}
	case m.Endpoint != "":
		return place{name: m.Endpoint, to: true}
	case m.URL == "":
		return place{name: m.Tenant, fan: true}
	}
	if u, err := url.Parse(m.URL); err == nil {
		return place{name: "url " + string(dispatcher.URLLane(u, m.Tenant))}
	}
	return place{name: "url " + strings.ToLower(m.URL)}
}

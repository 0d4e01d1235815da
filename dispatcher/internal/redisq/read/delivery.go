package read

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
)

// knownDelivery has the values of one delivery, as the scripts return them.
type knownDelivery struct {
	lane, status string
	at           time.Time // end, next attempt or claim; zero if it has none
	waitsFor     string    // a word; then the ms of the end if known, or the number of deliveries before it; empty: nothing
	progress     string    // entry of :progress
	history      []string  // newest first
}

// decodeShelved returns a delivery from a lane's list of all its deliveries, without its
// history. It returns false for the name of no delivery, and if the message is gone.
func decodeShelved(e ShelfEntry) (dispatcher.Delivery, bool) {
	id := e.ID
	if _, ok := dispatcher.ParseDeliveryID(id.String()); !ok || e.Head == "" {
		return dispatcher.Delivery{}, false
	}
	m, err := conn.DecodeRecord(id.Message, e.Head)
	f := knownDelivery{lane: string(id.Lane), status: string(e.Status), at: e.Time, waitsFor: e.WaitsFor, progress: e.Progress}
	if e.Newest != "" {
		f.history = []string{e.Newest}
	}
	d := f.delivery(m, id.Message)
	d.History = nil
	if err != nil {
		d.LastError = conn.ErrRecord.Error()
	}
	return d, true
}

// DecodeEnded returns a delivery that ended, without its history. It returns false for the
// name of no delivery.
func DecodeEnded(e EndedEntry) (dispatcher.Delivery, bool) {
	id, ok := dispatcher.ParseDeliveryID(e.Name)
	if !ok {
		return dispatcher.Delivery{}, false
	}
	var m *dispatcher.Message
	if e.Head != "" {
		m, _ = conn.DecodeRecord(id.Message, e.Head) // unreadable values are left out
	}
	f := knownDelivery{lane: string(id.Lane), status: string(e.Status), at: e.At, progress: e.Progress}
	if e.Newest != "" {
		f.history = []string{e.Newest}
	}
	d := f.delivery(m, id.Message)
	d.History = nil
	return d, true
}

// delivery returns a delivery of message id, with the values that can be read. m is nil if the
// record can't be read. A broken value does not hide the others.
func (f knownDelivery) delivery(m *dispatcher.Message, id string) dispatcher.Delivery {
	d := dispatcher.Delivery{
		ID:     dispatcher.DeliveryID{Lane: dispatcher.Lane(f.lane), Message: id},
		Status: dispatcher.Status(f.status),
	}
	if m != nil {
		d.Topic, d.Tenant, d.Subject, d.URL, d.Created = m.Topic, m.Tenant, m.Subject, m.URL, m.CreatedAt
		d.MaxAttempts, d.Ladder = m.MaxAttempts, m.Ladder
	}
	p, _ := conn.ParseProgress(f.progress) // a malformed text counts as none, also in the scripts
	d.Climbed, d.LadderFrom = p.Climbed(), p.Base+1
	d.Attempts, d.LastStatus = p.Attempts, p.Status
	word, number, _ := strings.Cut(f.waitsFor, " ")
	d.WaitingFor = word
	switch n, err := strconv.ParseInt(number, 10, 64); {
	case err != nil:
	case word == string(dispatcher.WhyOrder):
		d.WaitingBehind = int(n)
	default:
		d.WaitingUntil = conn.FromMillis(n)
	}
	switch d.Status {
	case dispatcher.StatusDelivered:
		d.Ended, d.Delivered = f.at, f.at
		if f.progress == "" {
			d.Attempts, d.Climbed, d.LastStatus = 1, 1, firstStatus(f.at) // the most common end has no entry
		}
	case dispatcher.StatusDead:
		d.Ended, d.Reason = f.at, p.Reason
	case dispatcher.StatusCancelled:
		d.Ended = f.at
	case dispatcher.StatusScheduled, dispatcher.StatusRetrying, dispatcher.StatusReady:
		d.Due = f.at
		if word == "due" || word == "rung" || word == string(dispatcher.WhySealed) && d.Status != dispatcher.StatusReady {
			d.WaitingUntil = f.at
		}
	}
	for i := len(f.history) - 1; i >= 0; i-- {
		if attempt, err := conn.ParseAttempt(f.history[i]); err == nil {
			d.History = append(d.History, attempt)
		}
	}
	if !p.Delivered.IsZero() {
		d.Delivered = p.Delivered
		d.History = withSuccess(d.History, p)
	}
	withoutStatus(&d)
	if n := len(d.History); n > 0 {
		d.LastError = d.History[n-1].Error
	}
	if d.Reason == dispatcher.ReasonPoison && p.Deaths > 0 { // the attempts that would report it are gone
		d.LastError = fmt.Sprintf("the last %d instances that held it died before they had an answer", p.Deaths)
	}
	if m == nil {
		d.LastError = conn.ErrRecord.Error()
	}
	return d
}

// firstStatus returns the response to the only attempt of a delivery without an entry in
// :progress. The part of its end below a ms is that status, if it is not 200.
func firstStatus(end time.Time) int {
	status := end.Nanosecond() / int(time.Microsecond) % 1000
	if status < conn.LeastPlain || status > conn.MostPlain {
		return 200
	}
	return status
}

// withoutStatus removes the status of a delivery of a queue, because queues have none. A
// success is stored there as the most common end.
func withoutStatus(d *dispatcher.Delivery) {
	if !d.ID.Lane.IsQueue() {
		return
	}
	d.LastStatus = 0
	for i := range d.History {
		d.History[i].Status = 0
	}
}

// withSuccess adds the first success to the history of a delivery that was sent again, in the
// order of time, if the history does not have it. A first attempt that succeeded is not kept.
// Its result may be reported late: after its lease was lost, and another instance failed with
// the same attempt number.
func withSuccess(history []dispatcher.Attempt, p conn.Progress) []dispatcher.Attempt {
	if slices.ContainsFunc(history, func(a dispatcher.Attempt) bool {
		return a.Number == p.Number && a.Verdict == dispatcher.Delivered
	}) {
		return history
	}
	first := dispatcher.Attempt{Number: p.Number, At: p.Delivered, Status: p.Answered, Verdict: dispatcher.Delivered}
	at := slices.IndexFunc(history, func(a dispatcher.Attempt) bool { return a.Number > p.Number || a.At.After(p.Delivered) })
	if at < 0 {
		at = len(history)
	}
	return slices.Insert(history, at, first)
}

// Package explain writes one sentence about the state of a delivery, with a cure. The
// commands, the console and a merchant's pages have the same sentences. Only the cure differs:
// a command, or a button.
package explain

import (
	"cmp"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

// Facts are the input for the sentence of one delivery.
type Facts struct {
	Delivery  wire.Delivery
	Lane      *wire.LaneState // of the delivery; nil: not known
	Queue     string          // of its message; empty: another destination
	Expires   wire.Time       // of its message; zero: it does not expire
	Instances []wire.Instance // needed only if the delivery waits for a permit
	Content   string          // the content type of its message; empty: not known
	Secret    string          // the fingerprint of the secret that its receiver needs; empty: not known
	Now       time.Time       // times of the same day have no date; all are in its zone
	For       Reader
}

// Reader is the audience of a sentence.
type Reader uint8

// The readers.
const (
	Terminal Reader = iota // the cure is a command
	Console                // the cure is a button
	Merchant               // likewise; nothing about our own settings or other tenants
)

// Sentence returns the state of the delivery and, after a semicolon, the cure.
func Sentence(f Facts) string {
	how, cure := Standing(f)
	if cure != "" {
		how += "; " + cure
	}
	return f.Delivery.ID + " " + how
}

// Standing returns the state of the delivery, without its name, and the cure; empty: not needed,
// or there is none.
func Standing(f Facts) (how, cure string) {
	if f.Lane == nil {
		f.Lane = &wire.LaneState{}
	}
	if f.For == Merchant {
		f.mask()
	}
	return f.stands()
}

func (f Facts) stands() (how, cure string) {
	d := f.Delivery
	switch d.Status {
	case "in_flight":
		if f.pull() {
			return fmt.Sprintf("is under way: it was taken from %s, for attempt %d", f.place(), d.Attempts+1), ""
		}
		return fmt.Sprintf("is under way: attempt %d at %s waits for its answer", d.Attempts+1, f.place()), ""
	case "delivered":
		return "was delivered to " + f.place() + f.success(), f.enabled(f.retry("sends it again"))
	case "cancelled":
		return "was cancelled" + f.ended(), f.enabled(f.retry("starts a new ladder"))
	case "dead":
		how, cure = f.died()
		if f.Lane.State == "deleted" || f.Lane.State == "disabled" && d.DeadReason != "expired" {
			cure = f.enabled(f.retry("starts a new ladder"))
		}
		return how, cure
	case "scheduled", "ready", "retrying":
		return f.waits()
	}
	return "is " + d.Status, ""
}

// place returns the name of the destination for people.
func (f Facts) place() string {
	host := cmp.Or(hostOf(f.Delivery.URL), hostOf(f.Lane.URL))
	switch {
	case f.Queue != "":
		return "queue " + f.Queue
	case f.Lane.UID != "" && host != "":
		return f.Lane.UID + " (" + host + ")"
	default:
		return cmp.Or(f.Lane.UID, host, f.Delivery.Destination)
	}
}

// pull reports whether a consumer takes the delivery, so no URL is called.
func (f Facts) pull() bool { return f.Queue != "" || f.Lane.Kind == "pull" }

// hostOf returns a URL without the parts that may contain a token.
func hostOf(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return u.Host
}

// at returns a space, a word and a time to the second. It omits the date of today; empty: the
// time is not known.
func (f Facts) at(word string, t wire.Time) string {
	if t.IsZero() {
		return ""
	}
	local, now, zone := t.In(f.Now.Location()), f.Now, ""
	if f.For != Terminal {
		zone = local.Format(" MST") // a page is read in other zones than ours
	}
	if local.YearDay() == now.YearDay() && local.Year() == now.Year() {
		return " " + word + " " + local.Format("15:04:05") + zone
	}
	return " " + word + " " + local.Format("2006-01-02 15:04:05") + zone
}

func (f Facts) until(t wire.Time) string { return f.at("until", t) }
func (f Facts) ended() string            { return f.at("at", f.Delivery.EndedAt) }

// since returns the caller and the time of the pause.
func (f Facts) since() string {
	text := ""
	if f.Lane.By != "" {
		text = " by " + f.Lane.By
	}
	return text + f.at("since", f.Lane.Since)
}

// answer returns the error or status of the last attempt; empty: not known.
func (f Facts) answer() string {
	d := f.Delivery
	switch {
	case d.LastError != "":
		return " (" + d.LastError + ")"
	case d.LastStatusCode != 0:
		return fmt.Sprintf(" (status %d)", d.LastStatusCode)
	}
	return ""
}

// success returns the time, the attempt and the status of the delivery. All three are of one
// attempt, because a delivery that was sent again has two times.
func (f Facts) success() string {
	d := f.Delivery
	text, number, status := f.at("at", d.DeliveredAt), max(d.Attempts, 1), d.LastStatusCode
	short := false
	resent := d.EndedAt.After(d.DeliveredAt.Time) // only the history has this outcome
	for _, a := range d.History {
		if a.Outcome != "delivered" {
			continue
		}
		short = a.ShortHello
		if number, status = a.Attempt, a.StatusCode; a.At.After(d.DeliveredAt.Time) {
			text = f.at("at", d.DeliveredAt) + f.at("and again at", wire.Time{Time: a.At.Add(time.Duration(a.DurationMS) * time.Millisecond)})
		}
		resent = false
	}
	if resent {
		return text
	}
	text += ", at attempt " + fmt.Sprint(number)
	if status != 0 {
		text += fmt.Sprintf(", and answered with status %d", status)
	}
	if short {
		text += " (its TLS did not answer until it got a ClientHello of one packet)"
	}
	return text
}

// bare reports whether the delivery goes to a URL without an endpoint.
func (f Facts) bare() bool { return !strings.HasPrefix(f.Delivery.Destination, "ep_") }

// message returns the id of the delivery's message.
func (f Facts) message() string {
	_, id, _ := strings.Cut(f.Delivery.ID, ":")
	return id
}

// times returns a count with its noun.
func times(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

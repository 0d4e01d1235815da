package api

import (
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// HideResponses replaces the receiver's responses with their sizes, for a key without the
// scope bodies.
func HideResponses(w *wire.Delivery, d *dispatcher.Delivery) {
	for k := range w.History {
		w.History[k].ResponseExcerpt, w.History[k].ResponseBytes = "", len(d.History[k].Excerpt)
	}
}

// Listed returns a delivery in the form of lists.
func Listed(d *dispatcher.Delivery) wire.Delivery {
	w := Delivery(d)
	w.History = nil
	return w
}

// Delivery returns a delivery in the form of its message.
func Delivery(d *dispatcher.Delivery) wire.Delivery {
	w := wire.Delivery{
		DeliveryRef: wire.DeliveryRef{
			ID: d.ID.String(), Destination: string(d.ID.Lane), URL: d.URL,
			Status: string(d.Status), NextAttemptAt: wire.Time{Time: d.Due}, EndedAt: wholeMillis(d.Ended),
		},
		MessageID: d.ID.Message, CreatedAt: wire.Time{Time: d.Created}, Topic: d.Topic, Tenant: d.Tenant, Subject: d.Subject,
		Attempts:       d.Attempts,
		LastStatusCode: d.LastStatus,
		LastError:      strings.ToValidUTF8(d.LastError, "�"),
		Rung:           d.Rung(), LadderFrom: d.LadderFrom, Ladder: d.Ladder,
		WaitingFor:    d.WaitingFor,
		WaitingUntil:  wire.Time{Time: d.WaitingUntil},
		WaitingBehind: d.WaitingBehind,
		DeliveredAt:   wholeMillis(d.Delivered),
	}
	switch d.Status {
	case dispatcher.StatusDead:
		w.DeadReason = string(d.Reason)
	case dispatcher.StatusReady:
		w.NextAttemptAt = wire.Time{} // only some lists know when it became due
	}
	if len(d.History) > 0 {
		w.History = Convert(d.History, Attempt)
	}
	return w
}

// wholeMillis returns a time without its part below a ms, which only orders ends.
func wholeMillis(t time.Time) wire.Time {
	return wire.Time{Time: t.Truncate(time.Millisecond)}
}

// Attempt returns an attempt in the form of its delivery.
func Attempt(a *dispatcher.Attempt) wire.Attempt {
	return wire.Attempt{
		Attempt: a.Number, At: wire.Time{Time: a.At}, DurationMS: a.Duration.Milliseconds(),
		StatusCode: a.Status, Outcome: a.Verdict.String(), Class: string(a.Class),
		URL: a.URL, Address: a.Address, Resend: a.Resend, ShortHello: a.ShortHello,
		Error:           strings.ToValidUTF8(a.Error, "�"),
		ResponseExcerpt: strings.ToValidUTF8(string(a.Excerpt), "�"),
		NextAttemptAt:   wire.Time{Time: a.Next},
	}
}

package wire

import "encoding/json"

// Take is a request for deliveries of a queue, or of an endpoint of kind pull.
type Take struct {
	Max   int      `json:"max,omitzero" minimum:"1" maximum:"100" doc:"Deliveries. Default: 10."`
	Lease Duration `json:"lease,omitzero" doc:"How long they are leased, 1s to 1h: one that is not settled by then is a failed attempt. Default: 30s."`
	Wait  Duration `json:"wait,omitzero" doc:"How long the call waits for one, at most 30s. Default: 0s."`
}

// Taken has the leased deliveries; none: there was nothing to take.
type Taken struct {
	Data []TakenDelivery `json:"data"`
}

// TakenDelivery is a delivery that a caller leased. It has one of the bodies.
type TakenDelivery struct {
	ID            string            `json:"id" doc:"Of the delivery: <destination>:<message id>."`
	Lease         string            `json:"lease" doc:"Names this lease to settle. It is for the key that took."`
	LeaseUntil    Time              `json:"lease_until"`
	Attempt       int               `json:"attempt" doc:"Counted from 1."`
	Message       TakenMessage      `json:"message"`
	Headers       map[string]string `json:"headers" doc:"As a call would have, their names in lower case; with a signature where there is a secret: of a queue SIGNING_SECRET."`
	Body          json.RawMessage   `json:"body,omitzero" doc:"A body of JSON, byte for byte."`
	RawBodyBase64 []byte            `json:"raw_body_base64,omitzero" doc:"Any other body."`
}

// Bytes returns the body from the field that has it.
func (d *TakenDelivery) Bytes() []byte {
	if d.Body != nil {
		return d.Body
	}
	return d.RawBodyBase64
}

// Append appends the delivery as JSON to b, with its body byte for byte.
func (d *TakenDelivery) Append(b []byte) ([]byte, error) {
	plain := *d
	plain.Body = nil
	return appendWithBody(b, plain, d.Body)
}

// TakenMessage describes the message of a leased delivery.
type TakenMessage struct {
	ID          string `json:"id"`
	Topic       string `json:"topic"`
	Tenant      string `json:"tenant,omitzero"`
	Subject     string `json:"subject,omitzero"`
	ContentType string `json:"content_type"`
	CreatedAt   Time   `json:"created_at"`
	ExpiresAt   Time   `json:"expires_at,omitzero"`
}

// Settle is a request that reports the results of leased deliveries.
type Settle struct {
	Results []Settlement `json:"results" minItems:"1" maxItems:"1000"`
}

// Settlement is the result of one delivery.
type Settlement struct {
	ID      string    `json:"id" doc:"Of the delivery."`
	Lease   string    `json:"lease,omitzero" doc:"As take answered it. Left out: the newest lease of this delivery and key. Leave it out only where one process takes."`
	Outcome string    `json:"outcome" words:"settle-outcome" doc:"retry: it failed, and is tried again after the next wait of its ladder. dead: it is not to be tried again. extend: the lease ends after from now."`
	After   *Duration `json:"after,omitzero" nullable:"false" doc:"retry: in place of the wait of the ladder, at most 24h. extend: needed, 1s to 1h."`
	Error   string    `json:"error,omitzero" doc:"Why it failed, for its history. 4 KiB of it are kept. Control characters other than ends of lines and tabs are escaped."`
}

// Settled is the response to each reported result, in their order.
type Settled struct {
	Results []SettledDelivery `json:"results"`
}

// SettledDelivery is the response to one reported result.
type SettledDelivery struct {
	ID         string `json:"id"`
	Result     string `json:"result" words:"settle-result" doc:"late: the lease had ended. delivered counts all the same, if the delivery has not ended; nothing else does. unknown: it is no lease of this key and queue, or without lease the last one is another key's or more than a day old."`
	Status     string `json:"status,omitzero" words:"status" doc:"Of the delivery. Left out: it is unknown, or no longer kept."`
	LeaseUntil Time   `json:"lease_until,omitzero" doc:"Of an extended lease."`
}

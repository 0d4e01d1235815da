package console

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/explain"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/signer"
)

const (
	// deliveriesAtOnce is how many deliveries of a message a page draws. With ladders of
	// ten rungs they are some 200 KiB.
	deliveriesAtOnce = 20
	// schemesAtOnce limits for how many endpoints a page shows their signature schemes.
	schemesAtOnce = 5
)

// messagePage is the data of a message with its deliveries.
type messagePage struct {
	Missing    missing // parts: lanes, instances, schemes
	ID         string
	Message    wire.Message
	CreatedAt  wire.Time
	Body       Body
	Hidden     bool // there is a body, but the visitor may not see it
	Headers    []BodyField
	Signed     signed
	Deliveries []deliveryCard
	Tally      []statusCount // of all deliveries, if there are many
	Count      int           // how many there are
	From       int           // index of the first one on the page
	Rest       int           // number of those after the page
	Older      string        // the URL of those
	Retry      string        // the word of the button for all; empty: no button
	Cancel     bool          // some can be cancelled
	Incomplete bool          // the archive did not answer
	Share      string        // a sentence for a ticket, with the URL of the page
}

// statusCount is the number of deliveries with a status.
type statusCount struct {
	Status string
	N      int
}

// deliveryCard is one delivery on a message's page.
type deliveryCard struct {
	ID       string // of the HTML element
	Delivery wire.Delivery
	Name     string // its destination's name for people
	How      string
	Cure     string
	Steps    []TimelineStep
	Retry    string // the word of its button; empty: no button
	Cancel   bool
	Endpoint string // its id, if it has a page
	Open     bool
}

// signed shows how receivers verify the message.
type signed struct {
	Message string // id
	Body    string // its beginning, as sent
	Cut     bool
	Schemes []scheme
}

// scheme is a signature scheme and its endpoints.
type scheme struct{ Word, Header, Value, Of string }

// message serves GET /messages/{id}.
func message(v *visit) (pageAnswer, error) {
	id := v.r.PathValue("id")
	m, err := v.Message(v.ctx, id)
	var p *client.Problem
	switch {
	case errors.As(err, &p) && (p.Status == http.StatusNotFound || p.Status == http.StatusUnprocessableEntity):
		return pageAnswer{template: "missing", title: "No such message", section: "deliveries", status: http.StatusNotFound, body: id}, nil
	case err != nil:
		return pageAnswer{}, err
	}
	page := messagePage{ID: m.ID, Message: m.Message, CreatedAt: m.CreatedAt, Body: BodyOf(&m), Count: len(m.Deliveries), Incomplete: m.Incomplete}
	page.Hidden = m.BodySHA256 != "" && v.Link == nil && !v.Key.Bodies
	for _, name := range slices.Sorted(maps.Keys(m.Headers)) {
		page.Headers = append(page.Headers, BodyField{Name: name, Value: m.Headers[name]})
	}
	if m.DeliverAt.Sub(m.CreatedAt.Time) < time.Second { // it was due at once
		page.Message.DeliverAt = wire.Time{}
	}
	page.summarise(v, m.Deliveries)
	shown := page.choose(v, m.Deliveries)
	if err := page.cards(v, &m, shown); err != nil {
		return pageAnswer{}, err
	}
	page.Share = page.share(v)
	page.Message.Body, page.Message.RawBody, page.Message.RawBodyBase64 = nil, nil, nil // Body has them, up to a limit
	return pageAnswer{template: "message", title: cmp.Or(m.Subject, m.ID), section: "deliveries", body: page}, nil
}

// summarise sets the buttons for all deliveries, and counts the deliveries if there are
// many.
func (p *messagePage) summarise(v *visit, list []wire.Delivery) {
	tally := map[string]int{}
	for _, d := range list {
		tally[d.Status]++
		p.Cancel = p.Cancel || !ended(d.Status)
	}
	for _, status := range statuses {
		if n := tally[status]; n > 0 && len(list) > 1 {
			p.Tally = append(p.Tally, statusCount{Status: status, N: n})
		}
	}
	switch waits := tally["scheduled"] + tally["ready"] + tally["retrying"]; {
	case len(list) == 1:
		p.Retry = retryWord(list[0].Status)
	case !v.May("cancel-message"):
	case waits+tally["dead"]+tally["cancelled"] > 0:
		p.Retry = "Attempt all now"
	case len(list) > 0:
		p.Retry = "Send all again"
	}
}

// choose returns the deliveries that the page draws: the requested one first, then those
// with problems.
func (p *messagePage) choose(v *visit, list []wire.Delivery) []wire.Delivery {
	to := v.r.FormValue("to")
	order := func(d wire.Delivery) int {
		if d.Destination == to {
			return -1
		}
		return slices.Index(urgency, d.Status)
	}
	slices.SortStableFunc(list, func(a, b wire.Delivery) int { return cmp.Compare(order(a), order(b)) })
	p.From = min(max(whole(v.r.FormValue("from")), 0), len(list))
	list = list[p.From:]
	if p.Rest = len(list) - deliveriesAtOnce; p.Rest > 0 {
		list = list[:deliveriesAtOnce]
		q := url.Values{"from": {fmt.Sprint(p.From + deliveriesAtOnce)}}
		if to != "" {
			q.Set("to", to)
		}
		p.Older = "?" + q.Encode()
	}
	return list
}

// cards draws deliveries with the state of their lanes.
func (p *messagePage) cards(v *visit, m *wire.MessageView, list []wire.Delivery) error {
	if len(list) == 0 {
		return nil
	}
	var lanes []string
	for _, d := range list {
		lanes = append(lanes, d.Destination)
	}
	var states wire.LanePage
	var instances wire.InstancePage
	schemes := make([]wire.EndpointView, min(len(list), schemesAtOnce))
	read := parts{v: v}
	read.add("message", func() error { return nil }) // it is there
	read.add("lanes", func() (err error) { states, err = v.LanesOf(v.ctx, "", lanes...); return err })
	if v.May("stats") && slices.ContainsFunc(list, func(d wire.Delivery) bool { return d.WaitingFor == "permits" }) {
		read.add("instances", func() (err error) { instances, err = v.Instances(v.ctx, 0, ""); return err })
	}
	for i := range schemes {
		if d := list[i]; strings.HasPrefix(d.Destination, "ep_") {
			read.add("schemes", func() (err error) {
				if schemes[i], err = v.Endpoint(v.ctx, d.Destination); errors.Is(err, client.ErrNotFound) {
					return nil // it was deleted
				}
				return err
			})
		}
	}
	var err error
	if p.Missing, err = read.wait(); err != nil {
		return err
	}
	byLane := map[string]*wire.LaneState{}
	for i := range states.Data {
		byLane[states.Data[i].Lane] = &states.Data[i]
	}
	facts := explain.Facts{Queue: m.Queue, Expires: m.ExpiresAt, Instances: instances.Data, Now: v.srv.Now().UTC(), For: explain.Console}
	if v.Link != nil {
		facts.For = explain.Merchant
	}
	for i, d := range list {
		facts.Delivery, facts.Lane = d, byLane[d.Destination]
		p.Deliveries = append(p.Deliveries, card(m, facts, len(list) <= 3 || i == 0 && p.From == 0))
	}
	p.sign(m, list, schemes)
	return nil
}

func card(m *wire.MessageView, facts explain.Facts, open bool) deliveryCard {
	d := facts.Delivery
	c := deliveryCard{ID: "d-" + d.Destination, Delivery: d, Name: cmp.Or(hostOf(d.URL), d.Destination), Open: open}
	if lane := facts.Lane; lane != nil {
		c.Name = cmp.Or(hostOf(d.URL), hostOf(lane.URL), lane.UID, d.Destination)
		c.Endpoint = lane.Endpoint
	}
	if m.Queue != "" {
		c.Name = "queue " + m.Queue
	}
	c.How, c.Cure = explain.Standing(facts)
	c.How, c.Cure = capital(c.How), capital(c.Cure)
	c.Steps = TimelineSteps(TimelineDelivery{Delivery: d, Accepted: m.CreatedAt, Now: facts.Now, Masked: facts.For == explain.Merchant})
	c.Retry, c.Cancel = retryWord(d.Status), !ended(d.Status)
	c.Delivery.History = nil // it is in Steps
	return c
}

// sign sets the signed data and the schemes.
func (p *messagePage) sign(m *wire.MessageView, list []wire.Delivery, of []wire.EndpointView) {
	p.Signed.Message = m.ID
	if p.Body.SHA256 == "" && !p.Body.Dumped {
		p.Signed.Body = p.Body.Sent
		if p.Signed.Cut = len(p.Signed.Body) > 200; p.Signed.Cut {
			p.Signed.Body = strings.ToValidUTF8(p.Signed.Body[:200], "")
		}
	}
	add := func(s scheme) {
		if !slices.Contains(p.Signed.Schemes, s) {
			p.Signed.Schemes = append(p.Signed.Schemes, s)
		}
	}
	for i, d := range list {
		switch {
		case !strings.HasPrefix(d.Destination, "ep_"):
			add(scheme{Word: "standard"})
		case i < len(of) && of[i].ID != "":
			add(scheme{
				Word: cmp.Or(of[i].Signature, "standard"), Header: of[i].SignatureHeader, Value: hmacValue(SignatureForm(of[i])),
				Of: cmp.Or(of[i].UID, hostOf(of[i].URL), of[i].ID),
			})
		}
	}
	if len(p.Signed.Schemes) == 1 {
		p.Signed.Schemes[0].Of = ""
	}
}

// hmacValue describes the header of the signature hmac.
func hmacValue(f signer.Form) string {
	text := fmt.Sprintf("the %s HMAC-%s of ", cmp.Or(f.Encoding, signer.Hex), strings.ToUpper(string(cmp.Or(f.Hash, signer.SHA256))))
	switch {
	case f.Content == signer.TimeDotBody:
		return "t=timestamp,v1= and " + text + "timestamp.body, without the id"
	case f.Content == signer.TimeCommaBody:
		return "t=timestamp,v1= and " + text + "timestamp,body, without the id"
	case f.Prefix != "":
		text = f.Prefix + " and " + text
	}
	return text + "the body alone"
}

// statuses are in the order of a delivery's life, and urgency is in the order of importance
// for an operator.
var (
	statuses = dispatcher.Texts(dispatcher.Statuses())
	urgency  = []string{"dead", "retrying", "in_flight", "ready", "scheduled", "cancelled", "delivered"}
)

func ended(status string) bool {
	return dispatcher.Status(status).Ended()
}

// retryWord returns the word of a delivery's button; empty: no button.
func retryWord(status string) string {
	switch {
	case ended(status):
		return "Send again"
	case status == "in_flight":
		return ""
	}
	return "Attempt now"
}

// body serves GET /messages/{id}/body: its bytes as sent.
func body(v *visit) (pageAnswer, error) {
	m, err := v.Message(v.ctx, v.r.PathValue("id"))
	if err != nil {
		return pageAnswer{}, err
	}
	if m.BodySHA256 != "" {
		return pageAnswer{}, ErrForbidden
	}
	h := v.w.Header()
	h.Set("Content-Type", "application/octet-stream") // a download, so that it never opens as a page of this origin
	h.Set("Content-Disposition", `attachment; filename="`+m.ID+`.body"`)
	_, err = v.w.Write(BodyBytes(&m))
	return pageAnswer{}, err
}

// retry serves POST /messages/{id}/retry, for one delivery or for all.
func retry(v *visit) (pageAnswer, error) {
	id, to := v.r.PathValue("id"), v.r.PostFormValue("to")
	back := pageAnswer{to: v.base + "/messages/" + url.PathEscape(id) + anchor(to)}
	var list []wire.RetriedDelivery
	var err error
	if to == "" && v.r.PostFormValue("all") != "" {
		list, err = v.Resend(v.ctx, id)
	} else {
		list, err = v.Retry(v.ctx, id, to)
	}
	var p *client.Problem
	if errors.As(err, &p) && p.Status == http.StatusConflict && len(p.Deliveries) > 0 {
		list, err = p.Deliveries, nil
	}
	if err != nil {
		return pageAnswer{}, err
	}
	back.result = retriedWord(list)
	return back, nil
}

// retriedWord returns the word of results for the result of a retry.
func retriedWord(list []wire.RetriedDelivery) string {
	done, why := 0, ""
	for _, d := range list {
		if d.Retried {
			done++
		} else {
			why = cmp.Or(why, d.Why)
		}
	}
	switch {
	case done == len(list) && done > 1:
		return "retried-all"
	case done > 1:
		return "retried-some"
	case done == 1:
		return "retried"
	}
	return "left-" + why
}

// cancel serves POST /messages/{id}/cancel, for one delivery or for all.
func cancel(v *visit) (pageAnswer, error) {
	id, to := v.r.PathValue("id"), v.r.PostFormValue("to")
	if _, err := v.Cancel(v.ctx, id, to); err != nil {
		return pageAnswer{}, err
	}
	return pageAnswer{to: v.base + "/messages/" + url.PathEscape(id) + anchor(to), result: "cancelled"}, nil
}

// anchor returns the URL that shows one delivery first.
func anchor(to string) string {
	if to == "" {
		return ""
	}
	return "?" + url.Values{"to": {to}}.Encode()
}

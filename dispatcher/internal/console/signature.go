package console

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/signer"
	"github.com/hookladder/hookladder/signer/diagnose"
)

const (
	// mostChecked bounds the search for mistakes of one check, in bytes that are hashed: some tenths
	// of a second.
	mostChecked = 64 << 20
	// mostComputed bounds a signature that a person typed. A list of 32 is shorter.
	mostComputed = 4 << 10
)

// freshSignature stands for a signature that a receiver would still accept. A visitor who may not manage the
// endpoint could replay it.
const freshSignature = "*** (shown when it is 5 minutes old, because until then it could be replayed)"

// signaturePage is the data of the page that finds out why a receiver's signature differs.
type signaturePage struct {
	ID, To, Name string
	Choices      []signatureTo // the endpoints that the message goes to, if there are several
	Without      string        // why nothing can be checked; empty: it can
	Scheme       string
	Signs        string // what the scheme signs, in words
	Attempt      int    // 0: none was made
	At           wire.Time
	Headers      []BodyField    // those that are signed, as sent with that attempt
	Secrets      []signedSecret // that sign at that time, newest first
	Timestamp    string         // as typed
	Wrong        string
	Right        bool // what was typed is right
	Checked      bool
	Findings     []diagnose.Finding
}

// signatureTo is one of several endpoints of a message.
type signatureTo struct{ To, Name string }

// signedSecret is a secret without its text.
type signedSecret struct {
	Fingerprint string    // empty: a person may have chosen it, so it has none
	Since       wire.Time // zero: it is not known
	Until       wire.Time // zero: it is the newest
}

// signature serves GET and POST /messages/{id}/signature: the signed headers of an attempt, and what
// the receiver's own code did in another way. The secrets stay here. What was typed is neither shown
// again nor logged.
func signature(v *visit) (pageAnswer, error) {
	m, err := v.Message(v.ctx, v.r.PathValue("id"))
	if err != nil {
		return pageAnswer{}, err
	}
	p := signaturePage{ID: m.ID}
	a := pageAnswer{template: "signature", title: "Why does my signature fail?", section: "deliveries"}
	d := p.choose(v, m.Deliveries)
	switch {
	case d == nil:
		p.Without = "It goes to no endpoint. What is sent to a bare URL or a queue is checked with hookladder verify."
	case m.BodySHA256 != "":
		p.Without = "Its body is not kept any more, or your key lacks the scope bodies, so nothing can be compared."
	}
	if p.Without == "" {
		e, err := v.srv.Signing(v.ctx, d.Destination)
		if err == nil {
			p.Name = signingName(v, e)
			err = p.check(v, e, &m, d)
		} else if errors.Is(err, dispatcher.ErrNoEndpoint) {
			p.Without, err = "Its endpoint was deleted, and the secret with it, so nothing can be compared.", nil
		}
		if err != nil {
			return pageAnswer{}, err
		}
	}
	if p.Wrong != "" {
		a.status = http.StatusUnprocessableEntity
	}
	a.body = p
	return a, nil
}

// signingName returns the name of an endpoint as the visitor knows it. A link is not shown uids.
func signingName(v *visit, e *dispatcher.Endpoint) string {
	view := wire.EndpointView{ID: e.ID, Endpoint: wire.Endpoint{URL: e.URL, Description: e.Description}}
	if v.Link == nil {
		view.UID = e.UID
	}
	return EndpointName(view)
}

// choose returns the delivery that the visitor means: the named one, or the first to an endpoint.
func (p *signaturePage) choose(v *visit, list []wire.Delivery) (chosen *wire.Delivery) {
	to := v.r.FormValue("to")
	for i := range list {
		d := &list[i]
		if !dispatcher.Lane(d.Destination).IsEndpoint() {
			continue
		}
		if len(p.Choices) < deliveriesAtOnce {
			p.Choices = append(p.Choices, signatureTo{To: d.Destination, Name: cmp.Or(hostOf(d.URL), d.Destination)})
		}
		if chosen == nil || d.Destination == to {
			chosen = d
		}
	}
	if len(p.Choices) < 2 {
		p.Choices = nil
	}
	if chosen != nil {
		p.To, p.Name = chosen.Destination, cmp.Or(hostOf(chosen.URL), chosen.Destination)
	}
	return chosen
}

// check shows what was signed, and checks what was typed.
func (p *signaturePage) check(v *visit, e *dispatcher.Endpoint, m *wire.MessageView, d *wire.Delivery) error {
	p.At = wire.Time{Time: v.srv.Now()}
	if n := len(d.History); n > 0 {
		p.At, p.Attempt = d.History[n-1].At, d.History[n-1].Attempt
	}
	p.Scheme = string(cmp.Or(e.Signature, signer.Standard))
	var live []signer.Secret
	for _, s := range e.Secrets {
		if !s.Since.After(p.At.Time) && (s.Until.IsZero() || s.Until.After(p.At.Time)) {
			live = append(live, s.Secret)
			p.Secrets = append(p.Secrets, signedSecret{Fingerprint: s.Secret.Fingerprint(), Since: wire.Time{Time: s.Since}, Until: wire.Time{Time: s.Until}})
		}
	}
	if len(live) == 0 && len(e.Secrets) > 0 {
		p.Without = "The secret of its endpoint was rotated after this attempt, and the one that signed it has ended, so nothing can be compared."
		return nil
	}
	if len(live) == 0 {
		p.Without = "The secrets of its endpoint can't be opened here."
		return nil
	}
	s, err := e.NewSigner(live...)
	if err != nil {
		return err
	}
	raw := BodyBytes(m)
	header := func(at time.Time) http.Header {
		h := http.Header{}
		h.Set(signer.HeaderID, m.ID)
		h.Set(signer.HeaderTimestamp, strconv.FormatInt(at.Unix(), 10))
		h.Set(s.Header(), s.Sign(m.ID, at, raw))
		return h
	}
	sent := header(p.At.Time)
	if fresh := p.Attempt == 0 || v.srv.Now().Sub(p.At.Time) <= signer.DefaultTolerance; fresh && !v.May("patch-endpoint") {
		sent.Set(s.Header(), freshSignature)
	}
	for _, name := range []string{signer.HeaderID, signer.HeaderTimestamp, s.Header()} {
		p.Headers = append(p.Headers, BodyField{Name: strings.ToLower(name), Value: sent.Get(name)})
	}
	if v.r.Method != http.MethodPost {
		return nil
	}
	computed := strings.TrimSpace(v.r.PostFormValue("computed"))
	p.Timestamp = strings.TrimSpace(v.r.PostFormValue("timestamp"))
	times, wrong := p.times()
	switch {
	case wrong != "":
		p.Wrong = wrong
	case computed == "" || len(computed) > mostComputed:
		p.Wrong = "Paste the signature that your code computed."
	case strings.HasPrefix(computed, signer.SecretPrefix) || strings.HasPrefix(computed, signer.PrivatePrefix):
		p.Wrong = "This is a secret, and not a signature. Nobody but your receiver needs it: do not paste it anywhere, and rotate it if others have seen it."
	}
	if p.Wrong != "" {
		return nil
	}
	if v.Link != nil { // a check needs some tenths of a second of a processor
		wait, err := v.srv.Meter.Spend(v.ctx, v.Link.ID)
		switch {
		case err != nil:
			return err
		case wait > 0:
			return &SpentError{Wait: wait}
		}
	}
	q := diagnose.Question{Body: raw, Scheme: e.Signature, Form: e.Form, Computed: computed, Hashed: mostChecked}
	for _, one := range live {
		text := one.Reveal()
		if public, ok := one.PublicKey(); ok {
			text = public
		}
		q.Secrets = append(q.Secrets, text)
	}
	p.Checked = true
	for _, at := range times {
		q.Header, q.At = header(at), at
		found := diagnose.Inspect(q).Findings
		for i := range found {
			found[i].Says = capital(found[i].Says)
		}
		p.Right = slices.ContainsFunc(found, func(f diagnose.Finding) bool { return f.Cause == diagnose.ComputedRight })
		unknown := slices.ContainsFunc(found, func(f diagnose.Finding) bool { return f.Cause == diagnose.OtherSecret })
		if p.Findings == nil || !unknown {
			p.Findings = found
		}
		if p.Right || !unknown {
			return nil
		}
	}
	return nil
}

// times returns the seconds that the attempt may have signed. The history has the time of an attempt by
// the queue's clock, which can be a second later than the signed one.
func (p *signaturePage) times() (all []time.Time, wrong string) {
	if p.Timestamp == "" {
		return []time.Time{p.At.Time, p.At.Add(-time.Second), p.At.Add(time.Second)}, ""
	}
	n, err := strconv.ParseInt(p.Timestamp, 10, 64)
	if err != nil || n <= 0 || n > 1<<36 {
		return nil, "The timestamp is the text of the header webhook-timestamp: whole seconds, such as 1767225600."
	}
	return []time.Time{time.Unix(n, 0)}, ""
}

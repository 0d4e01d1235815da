package home

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/seal"
	"github.com/hookladder/hookladder/dispatcher/success"
	"github.com/hookladder/hookladder/ladder"
	"github.com/hookladder/hookladder/signer"
)

// record is the format of an endpoint in :endpoints, after its version. A missing field has
// its zero value, and an unknown field is ignored. The scripts read uid, tenant and created.
type record struct {
	UID             string            `json:"uid,omitzero"`
	Tenant          string            `json:"tenant,omitzero"`
	Pull            bool              `json:"pull,omitzero"` // its kind; missing: push
	URL             string            `json:"url"`
	Linked          bool              `json:"linked,omitzero"` // a link set it
	Topics          []string          `json:"topics,omitzero"`
	TopicsAllowed   []string          `json:"topics_allowed,omitzero"`
	TopicsGiven     []string          `json:"topics_given,omitzero"`
	Description     string            `json:"about,omitzero"`
	Metadata        map[string]string `json:"meta,omitzero"`
	Signature       signer.Scheme     `json:"sig,omitzero"`
	SignatureHeader string            `json:"sig_header,omitzero"`
	SignatureHash   signer.Hash       `json:"sig_hash,omitzero"`
	SignatureText   signer.Encoding   `json:"sig_text,omitzero"`
	SignaturePrefix string            `json:"sig_prefix,omitzero"`
	SignatureOf     signer.Content    `json:"sig_of,omitzero"`
	Secrets         []secretRecord    `json:"secrets,omitzero"`
	Ladder          *string           `json:"ladder,omitzero"`  // empty: no rung, which is not the default
	Timeout         int64             `json:"timeout,omitzero"` // ns
	MaxInFlight     int               `json:"max,omitzero"`
	Rate            string            `json:"rate,omitzero"`
	Headers         []headerRecord    `json:"headers,omitzero"`
	HeadersFor      map[string]string `json:"held_for,omitzero"`    // URLs
	AllHeadersFor   string            `json:"headers_for,omitzero"` // URL: all headers are held, for 0.2.0, which knows only this field
	Success         string            `json:"success,omitzero"`
	Ordered         bool              `json:"ordered,omitzero"`
	Trace           bool              `json:"trace,omitzero"`
	Paused          bool              `json:"paused,omitzero"`
	Disabled        bool              `json:"disabled,omitzero"`
	Gone            bool              `json:"gone,omitzero"`
	Failing         bool              `json:"failing,omitzero"`       // it is disabled because it was failing
	DisableAfter    *int64            `json:"disable_after,omitzero"` // ms
	StoppedBy       string            `json:"held_by,omitzero"`
	StoppedAt       int64             `json:"held_at,omitzero"` // ms
	Unverified      bool              `json:"unverified,omitzero"`
	Since           int64             `json:"since,omitzero"` // version
	Created         int64             `json:"created"`        // ms
	Updated         int64             `json:"updated"`        // ms
}

// hidden is a text that a reader of the store must not see. Exactly one of its fields is set,
// and none for an empty text.
type hidden struct {
	Plain  string `json:"p,omitzero"`
	Bytes  []byte `json:"b,omitzero"` // also plain: a header's value may be any bytes, not only UTF-8
	Sealed string `json:"x,omitzero"`
}

type secretRecord struct {
	hidden
	Since int64 `json:"since,omitzero"` // ms
	Until int64 `json:"until,omitzero"` // ms
}

type headerRecord struct {
	Name string `json:"n"`
	hidden
}

var errEndpoint = errors.New("broken endpoint record")

// encode returns an endpoint's record. If there is a box, the secrets and the headers' values
// are encrypted.
func encode(e *dispatcher.Endpoint, box *seal.Box) ([]byte, error) {
	r := record{
		UID: e.UID, Tenant: e.Tenant, Pull: e.Pull, URL: e.URL, Topics: e.Topics, Description: e.Description, Metadata: e.Metadata,
		Linked: e.Linked, TopicsAllowed: e.TopicsAllowed, TopicsGiven: e.TopicsGiven, HeadersFor: e.HeadersFor, AllHeadersFor: forAll(e.HeadersFor),
		Signature: e.Signature, Timeout: int64(e.Timeout), MaxInFlight: e.MaxInFlight, Rate: e.Rate.String(),
		Ordered: e.Ordered, Trace: e.Trace, Paused: e.Paused, Disabled: e.Disabled, Unverified: e.Unverified, Since: e.Since,
		Gone: e.Cause == dispatcher.WhyGone, Failing: e.Cause == dispatcher.WhyFailing, StoppedBy: e.StoppedBy, StoppedAt: conn.ToMillis(e.StoppedAt),
		Created: conn.ToMillis(e.CreatedAt), Updated: conn.ToMillis(e.UpdatedAt),
	}
	r.SignatureHeader, r.SignatureHash, r.SignatureText, r.SignaturePrefix, r.SignatureOf = e.Form.Header, e.Form.Hash, e.Form.Encoding, e.Form.Prefix, e.Form.Content
	if !e.Rate.IsZero() && r.Rate == "" {
		return nil, fmt.Errorf("%w: a rate per %s has no text", errEndpoint, ladder.FormatDuration(e.Rate.Per))
	}
	if e.DisableAfter != nil {
		ms := e.DisableAfter.Milliseconds()
		r.DisableAfter = &ms
	}
	if e.Ladder != nil {
		text := e.Ladder.String()
		r.Ladder = &text
	}
	if e.Success != nil {
		r.Success = e.Success.String()
	}
	for _, s := range e.Secrets {
		r.Secrets = append(r.Secrets, secretRecord{hidden: hide(box, s.Secret.Reveal(), secretPlace(e.ID)), Since: conn.ToMillis(s.Since), Until: conn.ToMillis(s.Until)})
	}
	if e.Headers != nil {
		r.Headers = make([]headerRecord, len(e.Headers))
	}
	for i, h := range e.Headers {
		r.Headers[i] = headerRecord{Name: h.Name, hidden: hide(box, h.Value, headerPlace(e.ID, h.Name))}
	}
	out, err := json.Marshal(&r, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errEndpoint, err)
	}
	if box != nil {
		out = prove(box, out, recordPlace(e.ID, e.Version))
	}
	return out, nil
}

// decode parses the stored endpoint. If it returns an error, it also returns the parts that it
// could read, without secrets and headers' values. If the record itself can't be read, these
// are only id and version. With a box, a record needs a valid MAC.
func decode(id, stored string, box *seal.Box) (*dispatcher.Endpoint, error) {
	return decodeStored(id, stored, box, false)
}

// decodeStored is decode. With trust, the record needs no MAC.
func decodeStored(id, stored string, box *seal.Box, trust bool) (*dispatcher.Endpoint, error) {
	number, text, _ := strings.Cut(stored, " ")
	version, err := strconv.ParseInt(number, 10, 64)
	broken := &dispatcher.Endpoint{ID: id, Version: version}
	if err != nil {
		return broken, errEndpoint // its own error would repeat the record's text
	}
	var r record
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return broken, errEndpoint
	}
	e := &dispatcher.Endpoint{
		ID: id, Version: version, UID: r.UID, Tenant: r.Tenant, Pull: r.Pull, URL: r.URL, Topics: r.Topics,
		Linked: r.Linked, TopicsAllowed: r.TopicsAllowed, TopicsGiven: r.TopicsGiven, HeadersFor: r.HeadersFor,
		Description: r.Description, Metadata: r.Metadata, Signature: r.Signature, Timeout: time.Duration(r.Timeout),
		Form: signer.Form{Header: r.SignatureHeader, Hash: r.SignatureHash, Encoding: r.SignatureText, Prefix: r.SignaturePrefix, Content: r.SignatureOf},

		MaxInFlight: r.MaxInFlight, Ordered: r.Ordered, Trace: r.Trace, Paused: r.Paused, Disabled: r.Disabled, Unverified: r.Unverified, Since: r.Since,
		StoppedBy: r.StoppedBy, StoppedAt: conn.FromMillis(r.StoppedAt),
		CreatedAt: conn.FromMillis(r.Created), UpdatedAt: conn.FromMillis(r.Updated),
	}
	switch {
	case r.Gone:
		e.Cause = dispatcher.WhyGone
	case r.Failing:
		e.Cause = dispatcher.WhyFailing
	}
	if r.DisableAfter != nil {
		after := time.Duration(*r.DisableAfter) * time.Millisecond
		e.DisableAfter = &after
	}
	if r.HeadersFor == nil && r.AllHeadersFor != "" { // as 0.2.0 wrote it
		e.HeadersFor = make(map[string]string, len(r.Headers))
		for _, h := range r.Headers {
			e.HeadersFor[strings.ToLower(h.Name)] = r.AllHeadersFor
		}
	}
	if err := r.rules(e); err != nil {
		return broken, fmt.Errorf("%w: %w", errEndpoint, err)
	}
	if !trust {
		err = proved(box, text, recordPlace(id, version))
	}
	if opened := r.open(e, box); err == nil {
		err = opened
	}
	if err != nil {
		e.Secrets = nil
		for i := range e.Headers {
			e.Headers[i].Value = ""
		}
		return e, err
	}
	return e, nil
}

// forAll returns the URL for which 0.2.0 holds all headers while any is held. If they do not have
// the same one, it is no URL, so that none releases them.
func forAll(held map[string]string) (url string) {
	for _, one := range held {
		if one == "" || url != "" && one != url {
			return "-"
		}
		url = one
	}
	return url
}

// rules parses the fields that have their own text form.
func (r *record) rules(e *dispatcher.Endpoint) (err error) {
	if r.Ladder != nil {
		l, err := ladder.Parse(*r.Ladder)
		if err != nil {
			return err
		}
		e.Ladder = &l
	}
	if r.Rate != "" {
		if e.Rate, err = dispatcher.ParseRate(r.Rate); err != nil {
			return fmt.Errorf("rate %w", err)
		}
	}
	if r.Success != "" {
		if !jsontext.Value(r.Success).IsValid() {
			return errors.New("success is not JSON")
		}
		e.Success = success.Stored(r.Success) // parsed when a response is evaluated
	}
	return err
}

// open decrypts the fields that may be encrypted.
func (r *record) open(e *dispatcher.Endpoint, box *seal.Box) (err error) {
	if r.Headers != nil {
		e.Headers = make([]dispatcher.Header, len(r.Headers))
	}
	for i, h := range r.Headers {
		e.Headers[i].Name = h.Name // set all names first: they are returned in any case
	}
	for i, h := range r.Headers {
		if e.Headers[i].Value, err = h.show(box, headerPlace(e.ID, h.Name)); err != nil {
			return fmt.Errorf("header %s: %w", h.Name, err)
		}
	}
	for i, s := range r.Secrets {
		text, err := s.show(box, secretPlace(e.ID))
		if err != nil {
			return fmt.Errorf("secret %d: %w", i+1, err)
		}
		secret, err := e.Signature.ParseSecret(text)
		if err != nil {
			return fmt.Errorf("secret %d: %w", i+1, err)
		}
		e.Secrets = append(e.Secrets, dispatcher.EndpointSecret{Secret: secret, Since: conn.FromMillis(s.Since), Until: conn.FromMillis(s.Until)})
	}
	return nil
}

func secretPlace(id string) seal.Place { return seal.Place{Owner: id, Field: "secret"} }

func headerPlace(id, name string) seal.Place { return seal.Place{Owner: id, Field: "header " + name} }

func hide(box *seal.Box, text string, at seal.Place) hidden {
	switch {
	case box != nil:
		return hidden{Sealed: box.Seal(text, at)}
	case !utf8.ValidString(text):
		return hidden{Bytes: []byte(text)}
	default:
		return hidden{Plain: text}
	}
}

// show decrypts a text, or returns ErrSealed.
func (h hidden) show(box *seal.Box, at seal.Place) (string, error) {
	switch {
	case h.Sealed != "":
		text, err := box.Open(h.Sealed, at)
		if err != nil {
			return "", fmt.Errorf("%w: %w", dispatcher.ErrSealed, err)
		}
		return text, nil
	case h.Bytes != nil:
		return string(h.Bytes), nil
	default:
		return h.Plain, nil
	}
}

// EndpointCreatedAt returns the time of creation of an endpoint in ms, also if the rest of its record
// can't be read. It returns 0 if nothing can be read.
func EndpointCreatedAt(text string) int64 {
	var r record
	_ = json.Unmarshal([]byte(text), &r) // readable fields are set in spite of an error
	return max(r.Created, 0)
}

// Decode parses the stored endpoint from the hash.
func (s *Endpoints) Decode(id, stored string) (*dispatcher.Endpoint, error) {
	return decode(id, stored, s.seal.Load())
}

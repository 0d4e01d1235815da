package endpoints

import (
	"fmt"
	"net/textproto"
	"net/url"
	"slices"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/signer"
)

// Destination is an endpoint that is parsed and ready for attempts, or for takes if it is
// of kind pull. It is parsed once and used by each attempt until the endpoint changes.
type Destination struct {
	Endpoint *dispatcher.Endpoint
	URL      *url.URL            // nil: the endpoint is of kind pull, or see Fault
	Headers  []dispatcher.Header // names in canonical form; without those that are held
	phases   []phase             // ordered by until; the last one has none
	Fault    error               // why the endpoint can't be used; nil: it can
}

// phase is a period in which the same secrets sign.
type phase struct {
	until  time.Time // exclusive; zero: no end
	signer *signer.Signer
}

// NewDestination parses an endpoint. It returns a parse error in Fault.
func NewDestination(e *dispatcher.Endpoint) *Destination {
	d := &Destination{Endpoint: e}
	if !e.Pull {
		if d.URL, d.Fault = dispatcher.ParseURL(e.URL); d.Fault != nil {
			return d
		}
	}
	if len(e.Secrets) == 0 {
		d.Fault = dispatcher.ErrSealed // each endpoint is stored with a secret, so this one could not be decrypted
		return d
	}
	for _, h := range e.SentHeaders() {
		d.Headers = append(d.Headers, dispatcher.Header{Name: textproto.CanonicalMIMEHeaderKey(h.Name), Value: h.Value})
	}
	d.phases, d.Fault = phases(e)
	return d
}

// phases returns the periods between the ends of an endpoint's secrets.
func phases(e *dispatcher.Endpoint) ([]phase, error) {
	ends := []time.Time{{}}
	for _, s := range e.Secrets {
		if !s.Until.IsZero() {
			ends = append(ends, s.Until)
		}
	}
	slices.SortFunc(ends, func(a, b time.Time) int {
		switch {
		case a.IsZero() == b.IsZero():
			return a.Compare(b)
		case a.IsZero():
			return 1
		}
		return -1
	})
	var list []phase
	for _, end := range slices.Compact(ends) {
		var live []signer.Secret
		for _, s := range e.Secrets {
			if s.Until.IsZero() || !end.IsZero() && !s.Until.Before(end) {
				live = append(live, s.Secret)
			}
		}
		sign, err := e.NewSigner(live...)
		if err != nil {
			return nil, fmt.Errorf("sign for %s: %w", e.ID, err)
		}
		list = append(list, phase{until: end, signer: sign})
	}
	return list, nil
}

// Signer returns the signer for a time, and the header of its signature in canonical
// form.
func (d *Destination) Signer(at time.Time) (sign *signer.Signer, header string) {
	for _, p := range d.phases {
		if p.until.IsZero() || at.Before(p.until) {
			return p.signer, p.signer.Header()
		}
	}
	return nil, ""
}

// Origin returns the scheme and the host of the URL, because the rest may contain a
// secret.
func (d *Destination) Origin() string {
	if d.URL == nil {
		return ""
	}
	return d.URL.Scheme + "://" + d.URL.Host
}

package dispatcher

import (
	"fmt"
	"net/textproto"
	"net/url"
	"slices"
	"time"

	"github.com/hookladder/hookladder/signer"
)

// destination is an endpoint made ready to be called: parsed once, and used by
// each attempt until the endpoint changes.
type destination struct {
	endpoint *Endpoint
	url      *url.URL
	headers  []Header // names in canonical form
	phases   []phase  // by end; the last one has none
	fault    error    // why nothing can be sent; nil: it can
}

// phase is a time in which the same secrets sign.
type phase struct {
	until  time.Time // exclusive; zero: for ever
	signer *signer.Signer
}

func newDestination(e *Endpoint) *destination {
	d := &destination{endpoint: e}
	if d.url, d.fault = ParseURL(e.URL); d.fault != nil {
		return d
	}
	if len(e.Secrets) == 0 {
		d.fault = ErrSealed // one that was stored without a secret could not have been
		return d
	}
	for _, h := range e.Headers {
		d.headers = append(d.headers, Header{Name: textproto.CanonicalMIMEHeaderKey(h.Name), Value: h.Value})
	}
	d.phases, d.fault = phases(e)
	return d
}

// phases are the times between the ends of an endpoint's secrets.
func phases(e *Endpoint) ([]phase, error) {
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
		sign, err := e.Signature.NewSigner(live...)
		if err != nil {
			return nil, fmt.Errorf("sign for %s: %w", e.ID, err)
		}
		list = append(list, phase{until: end, signer: sign})
	}
	return list, nil
}

// signer is what signs at a time.
func (d *destination) signer(at time.Time) *signer.Signer {
	for _, p := range d.phases {
		if p.until.IsZero() || at.Before(p.until) {
			return p.signer
		}
	}
	return nil
}

// origin is the part of the URL that holds no secret.
func (d *destination) origin() string {
	if d.url == nil {
		return ""
	}
	return d.url.Scheme + "://" + d.url.Host
}

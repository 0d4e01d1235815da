package explain

import (
	"cmp"
	"net/http"
	"net/url"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// advised returns a cure behind what has to be mended before. If that is not known, it is the
// cure behind otherwise.
func (f Facts) advised(otherwise, cure string) string {
	if first := f.advice(); first != "" {
		return first + "; then " + cure
	}
	return otherwise + cure
}

// advice returns what a receiver has to mend, by its last response; empty: that does not say it.
func (f Facts) advice() string {
	if f.pull() {
		return ""
	}
	switch f.Delivery.LastStatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		text := "its receiver has to verify with " + f.secret()
		if f.For != Merchant {
			text += ", and `hookladder verify` explains a request that it saved"
		}
		return text
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return "its receiver takes no POST at " + f.called() + ": correct the URL or the receiver"
	case http.StatusRequestEntityTooLarge:
		return "its receiver, or a proxy before it, has to take a body of this size"
	case http.StatusUnsupportedMediaType:
		return "its receiver has to take the content type " + cmp.Or(f.Content, "of the message")
	case 0:
	default:
		return ""
	}
	switch last := f.latest(); dispatcher.Class(last.Class) {
	case dispatcher.ClassTLS:
		return "the TLS of its server has to be mended"
	case dispatcher.ClassTimeout:
		limit := (time.Duration(last.DurationMS) * time.Millisecond).Round(time.Second)
		return "its receiver has to respond within its time limit of " + limit.String() + ": store the message, respond, and do the work later"
	}
	return ""
}

// latest returns the last attempt that is known.
func (f Facts) latest() (last wire.Attempt) {
	for _, a := range f.Delivery.History {
		if a.Attempt >= last.Attempt {
			last = a
		}
	}
	return last
}

// called returns the URL of the delivery without the parts that are mostly secret.
func (f Facts) called() string {
	u, err := url.Parse(f.Delivery.URL)
	if err != nil || u.Host == "" {
		return "its URL"
	}
	return u.Scheme + "://" + u.Host + u.EscapedPath()
}

// secret names the secret that signs for the destination.
func (f Facts) secret() string {
	mark := ""
	if f.Secret != "" {
		mark = " (fingerprint " + f.Secret + ")"
	}
	switch {
	case f.For == Terminal && f.Lane.Endpoint != "":
		return "the secret" + mark + " that `hookladder endpoints secret " + cmp.Or(f.Lane.UID, f.Lane.Endpoint) + "` shows"
	case f.For == Terminal && f.Lane.Tenant != "":
		return "SIGNING_SECRET (with SIGNING_DERIVE: what `hookladder secret --tenant " + f.Lane.Tenant + "` prints)"
	case f.For == Terminal:
		return "SIGNING_SECRET"
	case f.Lane.Endpoint != "":
		return "its endpoint's secret" + mark
	}
	return "the right secret"
}

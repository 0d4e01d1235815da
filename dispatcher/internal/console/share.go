package console

import (
	"cmp"
	"fmt"
	"net/url"
	"strings"
)

// address returns a path of this server as a URL for other people.
func (v *visit) address(path string) string {
	u := url.URL{Scheme: "http", Host: v.r.Host}
	if v.r.TLS != nil {
		u.Scheme = "https"
	}
	if public := v.srv.PublicURL; public != nil {
		u.Scheme, u.Host = public.Scheme, public.Host
	}
	return u.String() + path
}

// share returns a sentence about a message for a ticket, with the URL of its page.
func (p *messagePage) share(v *visit) string {
	text := cmp.Or(p.Message.Subject, p.ID)
	if p.Message.Subject != "" {
		text += " (" + p.ID + ")"
	}
	for i, c := range p.Deliveries {
		if i == deliveriesShared {
			text += fmt.Sprintf("; and to %d more", p.Count-i)
			break
		}
		d := &c.Delivery
		text += fmt.Sprintf("%s to %s: %s, %s", map[bool]string{true: ",", false: ";"}[i == 0], c.Name, strings.ReplaceAll(d.Status, "_", " "), manyThings(d.Attempts, "attempt"))
		if d.LastError != "" {
			text += ", the last failed: " + d.LastError
		}
	}
	return text + ". " + v.address(v.base+"/messages/"+url.PathEscape(p.ID))
}

// deliveriesShared is how many deliveries the sentence about a message names.
const deliveriesShared = 3

// share returns a sentence about an endpoint for a ticket, with the URL of its page.
func (p *endpointPage) share(v *visit) string {
	text := fmt.Sprintf("%s: %s, %d waiting", p.Name, p.State(), p.Waiting)
	if p.Cause != nil && p.Cause.Last != nil {
		text += ", the last attempt failed: " + p.Cause.Last.Error
	}
	return text + ". " + v.address(v.base+"/endpoints/"+url.PathEscape(p.ID))
}

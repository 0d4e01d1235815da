package desk

import (
	"errors"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// What follows takes out of answers what a merchant's people have no use for: the
// operator's notes and names, its proxy, and cures that name its settings.

// told is an error of the API as the visitor is told it. To a link, what is not there and
// what is another's are the same.
func (d *Desk) told(err error) error {
	var p *client.Problem
	if d.Link == nil || !errors.As(err, &p) {
		return err
	}
	if p.Status == http.StatusNotFound {
		return ErrHidden
	}
	said := *p
	said.Detail, said.Errors = outward(p.Detail), slices.Clone(p.Errors)
	for i := range said.Errors {
		said.Errors[i].Detail = outward(said.Errors[i].Detail)
	}
	said.Deliveries = d.retried(p.Deliveries)
	return &said
}

// retried are deliveries of a retry that attempted none.
func (d *Desk) retried(all []wire.RetriedDelivery) []wire.RetriedDelivery {
	all = slices.Clone(all)
	for i := range all {
		d.delivery(&all[i].Delivery)
	}
	return all
}

// endpoint takes the operator's notes out of an endpoint.
func (d *Desk) endpoint(e *wire.EndpointView) {
	if d.Link != nil {
		e.UID, e.Metadata, e.Headers, e.TopicsAllowed = "", nil, nil, nil
	}
}

// lane takes out of a lane who holds it.
func (d *Desk) lane(l *wire.LaneState) {
	if d.Link != nil {
		l.UID, l.By = "", ""
	}
}

// tenantOf is the tenant of a delivery in a list.
func (d *Desk) tenantOf(one wire.Delivery) string { return one.Tenant }

// deliveries are those of a list that are the visitor's.
func (d *Desk) deliveries(all []wire.Delivery, tenant func(wire.Delivery) string) []wire.Delivery {
	all = slices.DeleteFunc(all, func(one wire.Delivery) bool { return !d.Owns(tenant(one), one.Destination) })
	for i := range all {
		d.delivery(&all[i])
	}
	return all
}

// inner are the words of waiting_for that tell of the operator's machines.
var inner = []string{"sealed", "missing", "permits", "limit"}

// delivery takes out of a delivery what tells of the operator's machines.
func (d *Desk) delivery(one *wire.Delivery) {
	if d.Link == nil {
		return
	}
	one.LastError = outward(one.LastError)
	if slices.Contains(inner, one.WaitingFor) {
		one.WaitingFor = ""
	}
	for i := range one.History {
		a := &one.History[i]
		a.Address, a.Error = "", outward(a.Error)
	}
}

// setting is a name such as ALLOW_NETS.
var setting = regexp.MustCompile(`\b[A-Z]{2,}_[A-Z_]{2,}\b`)

// What an address looks like in an error: with its port, and within brackets or a URL. Of
// the first kind some are no addresses, such as times.
var (
	sixLike  = regexp.MustCompile(`(^|[^0-9A-Za-z:.])(\[?(?:[0-9A-Fa-f]{0,4}:){2,8}(?:\d{1,3}(?:\.\d{1,3}){3}|[0-9A-Fa-f]{0,4})(?:%\w+)?\]?(?::\d+)?)`)
	fourLike = regexp.MustCompile(`\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?`)
)

// itsAddress stands for an address, which a merchant's people must not learn: it would tell
// how the operator's network is built.
const itsAddress = "its address"

// withoutAddresses is a text without network addresses.
func withoutAddresses(text string) string {
	text = sixLike.ReplaceAllStringFunc(text, func(found string) string {
		parts := sixLike.FindStringSubmatch(found)
		address := strings.TrimSuffix(parts[2], ":")
		_, err := netip.ParseAddr(strings.Trim(address, "[]"))
		if err != nil {
			_, err = netip.ParseAddrPort(address)
		}
		if err != nil {
			return found
		}
		return parts[1] + itsAddress + parts[2][len(address):]
	})
	return fourLike.ReplaceAllString(text, itsAddress)
}

// outward is an error in the words for a merchant: without a cure that is the operator's,
// and without addresses.
func outward(text string) string {
	if strings.Contains(text, "; allow it with ") {
		return itsAddress + " may not be called"
	}
	text = withoutAddresses(text)
	if setting.MatchString(text) || strings.Contains(strings.ToLower(text), "proxy") {
		return "it could not be called; ask the operator"
	}
	return text
}

package console

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

// The functions below remove the operator's internals from responses to a merchant: notes and names,
// its proxy, and fixes that name its settings.

// reported returns an error of the API for the visitor. To a link, an unknown name and another
// tenant's name give the same error.
func (c *VisitorClient) reported(err error) error {
	var p *client.Problem
	if c.Link == nil || !errors.As(err, &p) {
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
	said.Deliveries = c.retried(p.Deliveries)
	return &said
}

// retried removes the deliveries of other tenants from the result of a retry.
func (c *VisitorClient) retried(all []wire.RetriedDelivery) []wire.RetriedDelivery {
	all = slices.Clone(all)
	for i := range all {
		c.delivery(&all[i].Delivery)
	}
	return all
}

// endpoint removes the operator's notes from an endpoint.
func (c *VisitorClient) endpoint(e *wire.EndpointView) {
	if c.Link != nil {
		e.UID, e.Metadata, e.Headers, e.HeldHeaders, e.ReleasedHeaders, e.TopicsAllowed = "", nil, nil, nil, nil, nil
	}
}

// lane removes the name of the operator that paused a lane.
func (c *VisitorClient) lane(l *wire.LaneState) {
	if c.Link != nil {
		l.UID, l.By = "", ""
	}
}

// tenantOf returns the tenant of a delivery in a list.
func (c *VisitorClient) tenantOf(one wire.Delivery) string { return one.Tenant }

// deliveries returns the deliveries that belong to the visitor.
func (c *VisitorClient) deliveries(all []wire.Delivery, tenant func(wire.Delivery) string) []wire.Delivery {
	all = slices.DeleteFunc(all, func(one wire.Delivery) bool { return !c.Owns(tenant(one), one.Destination) })
	for i := range all {
		c.delivery(&all[i])
	}
	return all
}

// inner are the values of waiting_for that reveal the operator's infrastructure.
var inner = []string{"sealed", "missing", "permits", "limit"}

// delivery removes the operator's infrastructure from a delivery.
func (c *VisitorClient) delivery(one *wire.Delivery) {
	if c.Link == nil {
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

// settingWord matches a name such as ALLOW_NETS.
var settingWord = regexp.MustCompile(`\b[A-Z]{2,}_[A-Z_]{2,}\b`)

// Network addresses in an error: with a port, in brackets or in a URL. Some matches of the first
// form are not addresses, such as times.
var (
	sixLike  = regexp.MustCompile(`(^|[^0-9A-Za-z:.])(\[?(?:[0-9A-Fa-f]{0,4}:){2,8}(?:\d{1,3}(?:\.\d{1,3}){3}|[0-9A-Fa-f]{0,4})(?:%\w+)?\]?(?::\d+)?)`)
	fourLike = regexp.MustCompile(`\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?`)
)

// itsAddress replaces an address. A merchant must not learn it, because it reveals the
// operator's network.
const itsAddress = "its address"

// withoutAddresses returns a text without network addresses.
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

// outward returns an error in words for a merchant, without fixes that only the operator
// can make and without addresses.
func outward(text string) string {
	if strings.Contains(text, "; allow it with ") || strings.Contains(text, "our own listener") {
		return itsAddress + " may not be called"
	}
	text = withoutAddresses(text)
	if settingWord.MatchString(text) || strings.Contains(strings.ToLower(text), "proxy") {
		return "it could not be called; ask the operator"
	}
	return text
}

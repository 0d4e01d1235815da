package httpapi

import (
	"context"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/api"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// This file narrows the calls of links. The column Link of an operation says which links may call
// it. A link then gets only what its tenant has, without the operator's infrastructure. What is
// not its own is answered as if it did not exist.

// narrow limits a link's call to its view, before the handler runs. It returns an error if the
// thing in the path is not the link's.
func (s *server) narrow(ctx context.Context, q *api.Request) error {
	if slices.ContainsFunc(q.Operation.Query, func(p *api.Param) bool { return p.Name == "tenant" }) {
		if q.Query == nil {
			q.Query = url.Values{}
		}
		q.Query.Set("tenant", q.View.Tenant)
	}
	switch q.Operation.Subject {
	case nil:
		return nil
	case endpointSubject:
		return s.ownEndpoint(ctx, q, q.ID())
	case messageSubject:
		tenant, err := s.o.MessageLanes.MessageTenant(ctx, q.ID())
		if err == nil && tenant != q.View.Tenant {
			err = dispatcher.ErrNotFound
		}
		return err
	case jobSubject:
		return s.ownJob(ctx, q)
	}
	return dispatcher.ErrNotFound // it is not known whose anything else is
}

// ownJob returns dispatcher.ErrNoJob unless a job is about one endpoint of the caller alone.
func (s *server) ownJob(ctx context.Context, q *api.Request) error {
	number, ok := dispatcher.ParseJobID(q.ID())
	if !ok {
		return dispatcher.ErrNoJob
	}
	j, err := s.o.Jobs.Job(ctx, number)
	if err != nil {
		return err
	}
	if len(j.Filter.Lanes) != 1 || !j.Filter.Lanes[0].IsEndpoint() || s.ownEndpoint(ctx, q, string(j.Filter.Lanes[0])) != nil {
		return dispatcher.ErrNoJob
	}
	return nil
}

// outwardJob removes the operator's names and infrastructure from a job.
func outwardJob(q *api.Request, w wire.Job) wire.Job {
	if q.Linked() {
		w.By, w.Error = "", outward(w.Error)
	}
	return w
}

// ownEndpoint returns dispatcher.ErrNoEndpoint if a name is of no endpoint of the caller.
func (s *server) ownEndpoint(ctx context.Context, q *api.Request, name string) error {
	e, err := s.o.Endpoints.Endpoint(ctx, name)
	if err == nil && !q.Owns(e.Tenant, e.Lane()) {
		err = dispatcher.ErrNoEndpoint
	}
	return err
}

// ownDestinations returns the destinations of a list. A link for one endpoint lists only what goes
// there. Other links must own the endpoints that they name.
func (s *server) ownDestinations(ctx context.Context, q *api.Request) ([]string, error) {
	all := q.All("destination")
	switch {
	case !q.Linked():
		return all, nil
	case q.View.Endpoint != "":
		return []string{q.View.Endpoint}, nil
	}
	for _, to := range all {
		if !api.IsURL(to) && (dispatcher.Lane(to).IsEndpoint() || !dispatcher.NamesLane(to)) {
			if err := s.ownEndpoint(ctx, q, to); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// own returns those of a list that the caller owns, by their tenants and lanes.
func own[T any](q *api.Request, all []T, of func(*T) (tenant string, lane dispatcher.Lane)) []T {
	if !q.Linked() {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(one T) bool { return !q.Owns(of(&one)) })
}

// inner are the values of waiting_for that reveal the operator's infrastructure.
var inner = []string{"sealed", "missing", "permits", "limit"}

// outwardDelivery removes the operator's infrastructure from a delivery.
func outwardDelivery(q *api.Request, w *wire.Delivery) {
	if !q.Linked() {
		return
	}
	w.LastError = outward(w.LastError)
	if slices.Contains(inner, w.WaitingFor) {
		w.WaitingFor = ""
	}
	for i := range w.History {
		a := &w.History[i]
		a.Address, a.Error = "", outward(a.Error)
	}
}

// outwardEndpoint removes the operator's notes and names from an endpoint.
func outwardEndpoint(q *api.Request, w wire.EndpointView) wire.EndpointView {
	if q.Linked() {
		w.UID, w.Metadata, w.Headers, w.HeldHeaders, w.ReleasedHeaders, w.TopicsAllowed = "", nil, nil, nil, nil, nil
	}
	outwardFailure(q, w.LastFailure)
	return w
}

// outwardProblem returns a problem in words for a merchant. The problems of a name that does not
// exist and of one that belongs to another tenant are the same.
func outwardProblem(p *api.Problem) *api.Problem {
	if p.Kind.Status == http.StatusNotFound {
		return &api.Problem{Kind: api.NotFound}
	}
	said := *p
	said.Detail, said.Fields = outward(p.Detail), slices.Clone(p.Fields)
	for i := range said.Fields {
		said.Fields[i].Detail = outward(said.Fields[i].Detail)
	}
	return &said
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

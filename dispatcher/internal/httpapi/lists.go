package httpapi

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// Entries in a page of a list, as the contract says.
const (
	defaultLimit = 50
	maxLimit     = 500
)

// maxValues bounds the values of one filter: each entry of the list is compared
// with all of them.
const maxValues = 100

// deliveries serves GET /v1/deliveries.
func (s *server) deliveries(ctx context.Context, q *request) (*response, error) {
	f, destinations, wrong := parseFilter(q.query)
	err := wrongFields(wrong)
	if err != nil {
		return nil, err
	}
	if f.Lanes, err = s.lanesOf(ctx, destinations, f.Tenants); err != nil {
		return nil, err
	}
	page, err := s.svc.Deliveries(ctx, f)
	if err != nil {
		return nil, err
	}
	w := wire.Page{Data: wireDeliveries(page.Deliveries), LookedAt: page.LookedAt}
	for i := range w.Data {
		w.Data[i].History = nil // lists have no history
	}
	w.NextCursor = nextCursor(page.Next)
	return answerJSON(http.StatusOK, w)
}

// filterParser reads filters from a query and collects what is wrong.
type filterParser struct {
	q     url.Values
	wrong []dispatcher.FieldError
}

// parseFilter reads the filter of a list of deliveries. The lanes of destinations
// are still to be looked up.
func parseFilter(q url.Values) (f dispatcher.Filter, destinations []string, wrong []dispatcher.FieldError) {
	p := filterParser{q: q}
	p.each("status", func(v string) string {
		f.Statuses = append(f.Statuses, dispatcher.Status(v))
		return unless(slices.Contains(dispatcher.Statuses, dispatcher.Status(v)), "must be one of scheduled, ready, in_flight, retrying, delivered, dead, cancelled")
	})
	p.each("dead_reason", func(v string) string {
		f.Reasons = append(f.Reasons, dispatcher.DeadReason(v))
		return unless(slices.Contains(dispatcher.DeadReasons, dispatcher.DeadReason(v)), "must be one of exhausted, gone, expired, refused, disabled, overflow, poison")
	})
	p.each("topic", func(v string) string {
		f.Topics = append(f.Topics, v)
		return unless(dispatcher.ValidTopic(v), "must be a topic")
	})
	p.each("tenant", func(v string) string {
		f.Tenants = append(f.Tenants, v)
		return unless(dispatcher.ValidTenant(v), "must be a tenant")
	})
	p.each("destination", func(v string) string {
		destinations = append(destinations, v)
		return checkDestination(v)
	})
	p.once("since", func(v string) string { return filterTime(&f.Since, v) })
	p.once("until", func(v string) string { return filterTime(&f.Until, v) })
	f.Limit, f.Cursor = p.page(maxLimit)
	return f, destinations, p.wrong
}

// page reads the limit, of at most so many entries, and the cursor.
func (p *filterParser) page(most int) (limit int, cursor string) {
	limit = defaultLimit
	p.once("limit", func(v string) string {
		n, err := strconv.Atoi(v)
		limit = n
		return unless(err == nil && n >= 1 && n <= most, "must be 1 to "+strconv.Itoa(most))
	})
	p.once("cursor", func(v string) string { cursor = v; return "" })
	return limit, cursor
}

// nextCursor is the cursor of the next page as lists answer it.
func nextCursor(next string) *string {
	if next == "" {
		return nil
	}
	return &next
}

func unless(ok bool, detail string) string {
	if ok {
		return ""
	}
	return detail
}

// filterTime reads a time. A plus sign that was not encoded arrives as a space.
func filterTime(to *time.Time, v string) string {
	t, err := time.Parse(time.RFC3339, v)
	*to = t
	return unless(err == nil, "must be a time as in 2026-01-31T12:00:00Z (a + of its offset is written %2B)")
}

// each reads a filter that may be repeated.
func (p *filterParser) each(name string, set func(v string) (wrong string)) {
	if len(p.q[name]) > maxValues {
		p.fault(name, "is given more than 100 times")
		return
	}
	for _, v := range p.q[name] {
		if wrong := set(v); wrong != "" {
			p.fault(name, wrong)
			return
		}
	}
}

// once reads a parameter that may stand once.
func (p *filterParser) once(name string, set func(v string) (wrong string)) {
	switch values := p.q[name]; {
	case len(values) == 0:
	case len(values) > 1:
		p.fault(name, "may be given once")
	case values[0] == "":
		p.fault(name, "is empty")
	default:
		if wrong := set(values[0]); wrong != "" {
			p.fault(name, wrong)
		}
	}
}

func (p *filterParser) fault(name, detail string) {
	p.wrong = append(p.wrong, dispatcher.FieldError{Path: "query." + name, Detail: detail})
}

// answerJSON makes a response of a value of package wire.
func answerJSON(status int, v any) (*response, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return &response{status: status, contentType: mediaJSON, body: b}, nil
}

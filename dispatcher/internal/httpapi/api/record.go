package api

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/hookladder/hookladder/dispatcher"
)

// Record adds the entry of a call to the audit, once.
func (q *Request) Record(ctx context.Context, e dispatcher.AuditEntry) {
	if q.Operation.Audit == "" || q.recorded != nil || q.Idle {
		return
	}
	_, person := dispatcher.BrowserOf(q.HTTP.Context())
	e.By, e.What, e.Person = q.Writer.By, q.Operation.Audit, person
	q.recorded = &e
	if !person {
		q.Audit.Record(ctx, e)
	}
}

// recordAct records an act of a person when its result is known. A refused act costs a link
// nothing, so it may come in a loop. It is therefore counted in the same way as calls.
func (q *Request) recordAct(ctx context.Context, p *Problem) {
	c, person := dispatcher.BrowserOf(q.HTTP.Context())
	if q.recorded == nil || !person {
		return
	}
	e := *q.recorded
	if p != nil && !e.Failed {
		e.Failed, e.Detail = true, strings.TrimPrefix(e.Detail+", "+failure(p), ", ")
	}
	e.Person = !e.Failed || !c.Linked()
	q.Audit.Record(context.WithoutCancel(ctx), e)
	e.Failed = true // it has its entry
	q.recorded = &e
}

// RecordMade is like Record, for a new thing with the name e.Target. The entry of a failed
// call has no target.
func (q *Request) RecordMade(ctx context.Context, e dispatcher.AuditEntry, err error) {
	if err != nil {
		p, _ := ProblemFor(err)
		e.Target, e.Failed, e.Detail = "", true, strings.TrimPrefix(e.Detail+", "+failure(p), ", ")
	}
	q.Record(context.WithoutCancel(ctx), e)
}

// failure returns the detail of a call that failed.
func failure(p *Problem) string { return fmt.Sprintf("failed: %d %s", p.Kind.Status, p.Kind.Word) }

// Named returns the entry for the names in path and query.
func (q *Request) Named() (e dispatcher.AuditEntry) {
	if q.Operation.Subject != nil {
		e.Target = WithoutSecrets(q.ID())
	}
	var detail []string
	for _, name := range []string{"destination", "all", "all_tenants"} {
		if value := q.One(name); value != "" {
			detail = append(detail, name+"="+WithoutSecrets(value))
		}
	}
	e.Tenant, e.Detail = q.One("tenant"), strings.Join(detail, " ")
	return e
}

// WithoutSecrets returns the origin of a URL, because its path and query may contain a token.
// It returns any other name unchanged.
func WithoutSecrets(name string) string {
	if !IsURL(name) {
		return name
	}
	u, err := dispatcher.ParseURL(name)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

// RecordResult records a failed call, unless its handler recorded it before the change.
func (q *Request) RecordResult(ctx context.Context, answer *Response, err error) {
	p := q.Writer.Refusal
	if err != nil {
		p, _ = ProblemFor(err)
	}
	failed := err != nil || answer != nil && answer.Status >= http.StatusBadRequest
	if q.Operation.Audit == "" {
		return
	}
	if q.recorded == nil && !failed {
		q.Record(ctx, q.Named())
	}
	if !failed {
		p = nil
	}
	q.recordAct(ctx, p)
	if p != nil && q.recorded != nil && !q.recorded.Failed {
		e := *q.recorded
		e.Failed, e.Detail = true, failure(p)
		q.Audit.Record(context.WithoutCancel(ctx), e)
	}
}

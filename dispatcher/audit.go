package dispatcher

import (
	"context"
	"strings"
	"time"
)

// AuditEntry is one change that an API key, a link or Hookladder itself asked for. It contains no
// secret, header value or body. URLs are cut to scheme, host and port.
type AuditEntry struct {
	At     time.Time // by the store's clock
	By     string    // key:<name>, link:<id>, System or Local
	What   string    // one of AuditWords
	Target string    // the id of an endpoint, a message, a job or a link, a lane, the origin of a URL, or * for all lanes
	Tenant string    // empty: not known
	Detail string    // the names of changed fields, the parameters of the call, or the error

	// These are not stored. Person: a person acted in the console or by a link, so each action is
	// its own entry. Other calls are only counted, because there are thousands. Failed: the
	// change failed.
	Person, Failed bool
}

// ByLink reports whether a link made the change.
func (e AuditEntry) ByLink() bool { return strings.HasPrefix(e.By, "link:") }

// AuditWords lists the values of AuditEntry.What: a noun and a verb each.
func AuditWords() []string {
	return []string{
		"endpoint.create", "endpoint.update", "endpoint.delete", "endpoint.pause", "endpoint.resume", "endpoint.retry", "endpoint.confirm", "endpoint.test", "endpoint.disable",
		"secret.read", "secret.rotate", "lane.pause", "lane.resume", "message.cancel", "message.retry",
		"deliveries.retry", "deliveries.cancel", "deliveries.purge", "job.stop", "job.resume", "link.create", "link.revoke",
		"doctor.fix", "doctor.seal", "repartition", "forget",
	}
}

// AuditFilter selects entries. An empty field matches all of them, and a field with several
// values matches any of these.
type AuditFilter struct {
	By, What, Targets, Tenants []string
	Since, Until               time.Time `json:"-"` // Since is included, Until is not
	Limit                      int       `json:"-"`
	Cursor                     string    `json:"-"` // of the page before; empty for the first
	View                       View
}

// AuditPage is a page of the audit, newest first.
type AuditPage struct {
	Entries []AuditEntry
	Next    string // the cursor of the next page; empty: there is none
}

// Audit stores each change with its caller.
type Audit interface {
	// Record adds an entry before the change. If the store can't be reached, the entry goes to
	// the log, and the change continues.
	Record(ctx context.Context, e AuditEntry)
	// ReadAudit returns a page, newest first. It returns ErrCursor for a foreign cursor.
	ReadAudit(ctx context.Context, f AuditFilter) (AuditPage, error)
}

type callerKey struct{}

// WithCaller stores the caller in ctx: key:<name>, link:<id> or Local. Pauses, disabled endpoints
// and jobs keep it, because people ask later for the caller.
func WithCaller(ctx context.Context, by string) context.Context {
	return context.WithValue(ctx, callerKey{}, by)
}

// CallerOf returns the caller from WithCaller; empty: ctx belongs to no call.
func CallerOf(ctx context.Context) string {
	by, _ := ctx.Value(callerKey{}).(string)
	return by
}

package dispatcher

import (
	"context"
	"strings"
	"time"
)

// AuditEntry is one change that an API key, a link or Hookladder itself asked for. It holds
// no secret, no header value, no body, and of a URL only scheme, host and port.
type AuditEntry struct {
	At     time.Time // by the store's clock
	By     string    // key:<name>, link:<id>, System or Local
	What   string    // one of AuditWords
	Target string    // the id of an endpoint, a message, a job or a link, a lane, the origin of a URL, or * for all lanes
	Tenant string    // where it is known
	Detail string    // the names of changed fields, the parameters of the call, or why it failed

	// Not kept. Person: one acted in the console or by a link, so it has an entry of its own;
	// calls come in thousands, and are counted. Failed: the change failed.
	Person, Failed bool
}

// ByLink reports whether a link made the change.
func (e AuditEntry) ByLink() bool { return strings.HasPrefix(e.By, "link:") }

// AuditWords are the words of AuditEntry.What: a noun and a verb each.
var AuditWords = []string{
	"endpoint.create", "endpoint.update", "endpoint.delete", "endpoint.pause", "endpoint.resume", "endpoint.confirm", "endpoint.test", "endpoint.disable",
	"secret.read", "secret.rotate", "lane.pause", "lane.resume", "message.cancel", "message.retry",
	"deliveries.retry", "deliveries.cancel", "deliveries.purge", "job.stop", "job.resume", "link.create", "link.revoke",
	"doctor.fix", "doctor.seal", "repartition", "forget",
}

// AuditFilter selects entries. An empty field matches all of them, and one with several
// values any of these.
type AuditFilter struct {
	By, What, Targets, Tenants []string
	Since, Until               time.Time `json:"-"` // Since is included, Until is not
	Limit                      int       `json:"-"`
	Cursor                     string    `json:"-"` // of the page before; empty for the first
	View                       View
}

// AuditPage is a part of the audit, newest first.
type AuditPage struct {
	Entries []AuditEntry
	Next    string // the cursor of the next page; empty: there is none
}

// Audit keeps each change, with its caller.
type Audit interface {
	// Record adds an entry, before the change. Without the store the log has it, and
	// the change goes on.
	Record(ctx context.Context, e AuditEntry)
	// ReadAudit reads a page, newest first; ErrCursor for a foreign cursor.
	ReadAudit(ctx context.Context, f AuditFilter) (AuditPage, error)
}

type callerKey struct{}

// WithCaller notes in ctx whose call this is: key:<name>, link:<id> or Local. Pauses, disabled
// endpoints and jobs keep it, because people ask later for the caller.
func WithCaller(ctx context.Context, by string) context.Context {
	return context.WithValue(ctx, callerKey{}, by)
}

// CallerOf is the caller of WithCaller; empty: it is no call.
func CallerOf(ctx context.Context) string {
	by, _ := ctx.Value(callerKey{}).(string)
	return by
}

package archive

import (
	"context"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// Found is a message in the archive.
type Found struct {
	Message dispatcher.Message // Body is nil if HasBody is false
	HasBody bool
	Size    int // of the body, even if the body is not kept
	Head    []byte

	Deliveries []FoundDelivery // by lane
}

// FoundDelivery is a delivery and its events.
type FoundDelivery struct {
	ID     dispatcher.DeliveryID
	Events []Event // oldest first
	Open   *Open   // nil after it finished
}

// Finder queries an archive for the API. It fails fast: an archive that is away or slow is
// an ErrUnavailable.
type Finder interface {
	// Find reads a message and its events, or returns dispatcher.ErrNotFound.
	Find(ctx context.Context, id string) (*Found, error)
	// Ends reads a page of ends.
	Ends(ctx context.Context, f Filter) (EndPage, error)
	// Since returns the time from which the archive is complete. A delivery that ended
	// later is in the archive or still in the store.
	Since(ctx context.Context) (time.Time, error)
}

// Filter selects ends of deliveries. At least one of Tenants, Subjects, SubjectLike and
// Lanes is set, because only these have an index. A field matches if one of its values
// does.
type Filter struct {
	Tenants  []string
	Subjects []string
	Lanes    []dispatcher.Lane
	Topics   []string // patterns, see dispatcher.MatchTopic
	Statuses []dispatcher.Status
	Reasons  []dispatcher.DeadReason
	Since    time.Time // inclusive; the time of the end, or of the acceptance if Accepted
	Until    time.Time // exclusive; zero if there is no limit
	Oldest   bool      // oldest first, else newest first
	Accepted bool      // ordered by acceptance, newest first
	Limit    int
	After    *dispatcher.EndPlace // the page begins after it; nil for the first page

	SubjectLike []string // see dispatcher.SubjectToken
}

// End is the newest end of a delivery, for lists.
type End struct {
	Event
	Created time.Time // of its message; zero if unknown
	Head    []byte    // of its record; nil if the record is gone

	Base       int       // attempts before its last ladder began
	Delivered  time.Time // when it was first delivered; zero if never
	LastStatus int       // of its last attempt
	LastError  string    // of its last attempt
}

// Place returns the end's place in the order of ends.
func (e *End) Place() dispatcher.EndPlace { return dispatcher.EndPlace{At: e.At, ID: e.ID.String()} }

// EndPage is a page of a list of ends. Deliveries that were resent later are not in it.
type EndPage struct {
	Ends     []End
	LookedAt int                  // ends that were read to find these
	Reached  *dispatcher.EndPlace // all ends up to and including this place were read; nil if all were
}

// Selection selects messages to erase or export. At least one field is set.
type Selection struct {
	Tenant  string
	Subject string
	Since   time.Time // inclusive; when the message was accepted
	Before  time.Time // exclusive
}

// Chosen is a message of a Selection.
type Chosen struct {
	ID      string
	Created time.Time
}

// Erased counts the erased rows.
type Erased struct {
	Messages int64 `json:"messages"`
	Events   int64 `json:"events"`
	Open     int64 `json:"open"`   // unfinished deliveries of the messages
	Months   int   `json:"months"` // tables that were dropped as a whole; their events are not counted
}

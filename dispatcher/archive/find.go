package archive

import (
	"context"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// Found is a message as the archive has it.
type Found struct {
	Message dispatcher.Message // Body is nil where HasBody is false
	HasBody bool
	Size    int // of the body, also where that is not kept
	Head    []byte

	Deliveries []FoundDelivery // by lane
}

// FoundDelivery is a delivery with all that happened to it.
type FoundDelivery struct {
	ID     dispatcher.DeliveryID
	Events []Event // oldest first
	Open   *Open   // as long as it has not finished
}

// Finder looks up what an archive keeps. It answers soon: an archive that is away, or
// does not answer in time, is an ErrUnavailable.
type Finder interface {
	// Find reads a message with all that happened to it, or answers dispatcher.ErrNotFound.
	Find(ctx context.Context, id string) (*Found, error)
	// Ends reads a page of ends.
	Ends(ctx context.Context, f Filter) (EndPage, error)
	// Since is from when on the archive is whole: what ended later is in it, or still in
	// the store.
	Since(ctx context.Context) (time.Time, error)
}

// Filter selects ends of deliveries. At least one of Tenants, Subjects, SubjectLike and Lanes is
// given, since only those are indexed. Of several values of one field any matches.
type Filter struct {
	Tenants  []string
	Subjects []string
	Lanes    []dispatcher.Lane
	Topics   []string // patterns, see dispatcher.MatchTopic
	Statuses []dispatcher.Status
	Reasons  []dispatcher.DeadReason
	Since    time.Time // inclusive; of the end, or of the acceptance
	Until    time.Time // exclusive; zero: there is none
	Oldest   bool      // the oldest first, else the newest
	Accepted bool      // in the order of the acceptance, the newest first
	Limit    int
	After    *dispatcher.EndPlace // the page begins behind it; nil: at the first

	SubjectLike []string // see dispatcher.SubjectToken
}

// End is the newest end of a delivery, as lists have it.
type End struct {
	Event
	Created time.Time // of its message; zero: that is not known
	Head    []byte    // of its record; nil: that had gone

	Base       int       // attempts before its last ladder began
	Delivered  time.Time // when it was delivered first; zero: it was not
	LastStatus int       // of its last attempt
	LastError  string    // likewise
}

// Place is where the end is in the order of ends.
func (e *End) Place() dispatcher.EndPlace { return dispatcher.EndPlace{At: e.At, ID: e.ID.String()} }

// EndPage is a part of a list of ends. Deliveries that are resent since are not in it.
type EndPage struct {
	Ends     []End
	LookedAt int                  // ends that were looked at, of which these match
	Reached  *dispatcher.EndPlace // what stands before it was looked at, and it too; nil: all was
}

// Selection says what to forget, or to export: at least one field is given.
type Selection struct {
	Tenant  string
	Subject string
	Since   time.Time // inclusive; when the message was accepted
	Before  time.Time // exclusive
}

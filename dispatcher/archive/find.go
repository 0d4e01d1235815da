package archive

import (
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

// Filter selects ends of deliveries. At least one of Tenants, Subjects and Lanes is
// given, since only those are indexed. Of several values of one field any matches.
type Filter struct {
	Tenants  []string
	Subjects []string
	Lanes    []dispatcher.Lane
	Topics   []string // patterns, see dispatcher.MatchTopic
	Statuses []dispatcher.Status
	Reasons  []dispatcher.DeadReason
	Since    time.Time // inclusive; of the end
	Until    time.Time // exclusive; zero: there is none
	Oldest   bool      // the oldest first, else the newest
	Limit    int
	After    *Place // the last one of the page before; nil: the first page
}

// Place is where an end stands in a list.
type Place struct {
	At        time.Time
	Partition int
	Pos       int64
}

// End is the end of a delivery, as lists have it.
type End struct {
	Event
	Partition int
	Created   time.Time // of its message; zero: that is not known
}

// Place is where the end stands.
func (e *End) Place() Place { return Place{At: e.At, Partition: e.Partition, Pos: e.Pos} }

// EndPage is a part of a list of ends. Deliveries that are resent since are not in it.
type EndPage struct {
	Ends []End
	More bool // there are more behind the last one
}

// Selection says what to forget, or to export: at least one field is given.
type Selection struct {
	Tenant  string
	Subject string
	Since   time.Time // inclusive; when the message was accepted
	Before  time.Time // exclusive
}

package keys

import (
	"slices"
	"strings"
)

// An Owner is the kind of object that an entry of a key belongs to.
type Owner int

// The owners, with the form of an entry.
const (
	OfMessage  Owner = iota + 1 // <id>, of a body with its digest behind it
	OfDelivery                  // <lane>:<id>
	OfLane                      // <lane>
	OfLanes                     // <lane>, or * for all lanes of the partition, or Epoch
	OfReason                    // <lane> <reason>
	OfInstance                  // its name
	OfEndpoint                  // its id, or another text that identifies it
	OfNone                      // an entry of the partition or of the project itself
)

// A Kind is one kind of key.
type Kind struct {
	Name string // after the tag; if it ends with a colon, the name of the owner comes after it
	Lua  string // name in the scripts
	Type string // type in Redis
	Of   Owner

	// Writer is a script, or a Go file below redisq, that writes entries. Reader is one that reads
	// them. Tests check both, because an entry without a reader need not be kept.
	Writer, Reader string
}

// Kinds lists all keys of a partition, except for the tests' clock.
var Kinds = []Kind{
	{Messages, "MESSAGES", "hash", OfMessage, "schedule.lua", "order.lua"},
	{Bodies, "BODIES", "hash", OfMessage, "schedule.lua", "bodies.go"},
	{Subjects, "SUBJECTS", "hash", OfMessage, "subject.lua", "subject.lua"},
	{Subject, "SUBJECT", "zset", OfMessage, "subject.lua", "subjects.lua"},
	{Digits, "DIGITS", "list", OfMessage, "subject.lua", "subjects.lua"},
	{Staged, "STAGED", "zset", OfMessage, "bodies.go", "trim.lua"},
	{Fan, "FAN", "hash", OfMessage, "schedule.lua", "common.lua"},
	{Seen, "SEEN", "zset", OfMessage, "cut.lua", "trim.lua"},

	{Due, "DUE", "zset", OfDelivery, "schedule.lua", "move.lua"},
	{Ready, "READY", "list", OfDelivery, "schedule.lua", "turns.lua"},
	{Shelf, "SHELF", "zset", OfDelivery, "schedule.lua", "shelf.lua"},
	{Behind, "BEHIND", "zset", OfDelivery, "order.lua", "order.lua"},
	{Leases, "LEASES", "zset", OfDelivery, "leases.lua", "settle.lua"},
	{Taken, "TAKEN", "zset", OfDelivery, "taken.lua", "taken.lua"},
	{Tokens, "TOKENS", "hash", OfDelivery, "taken.lua", "adopt.lua"},
	{Expiring, "EXPIRING", "zset", OfDelivery, "expiry.lua", "expiry.lua"},
	{Unopened, "UNOPENED", "zset", OfDelivery, "settle.lua", "read.lua"},
	{Done, "DONE", "zset", OfDelivery, "ends.lua", "verdict.lua"},
	{Dead, "DEAD", "zset", OfDelivery, "ends.lua", "verdict.lua"},
	{Cancelled, "CANCELLED", "zset", OfDelivery, "ends.lua", "verdict.lua"},
	{Marks, "MARKS", "hash", OfDelivery, "settle.lua", "reap.lua"},
	{Progress, "PROGRESS", "hash", OfDelivery, "ends.lua", "look.lua"},
	{History, "HISTORY", "list", OfDelivery, "verdict.lua", "look.lua"},

	{Lanes, "LANES", "zset", OfLane, "finish.lua", "claim.lua"},
	{Parked, "PARKED", "zset", OfLane, "finish.lua", "move.lua"},
	{Pulls, "PULLS", "zset", OfLane, "finish.lua", "take.lua"},
	{Known, "KNOWN", "zset", OfLane, "finish.lua", "trim.lua"},
	{In, "IN", "hash", OfLane, "finish.lua", "lane_state.lua"},
	{Lane, "LANE", "hash", OfLane, "finish.lua", "lane_state.lua"},
	{LaneNames, "NAMES", "hash", OfLane, "finish.lua", "read/lanes.go"},
	{Failures, "FAILURES", "hash", OfLane, "settle.lua", "lanes.lua"},
	{Tenant, "TENANT", "zset", OfLane, "tenant.lua", "read/shelf.go"},
	{Owners, "OWNERS", "hash", OfLane, "tenant.lua", "doctor_shelves.lua"},
	{Limits, "LIMITS", "hash", OfLanes, "lane.lua", "lane_state.lua"},
	{Held, "HELD", "hash", OfLanes, "lane.lua", "read/lanes_stopped.go"},
	{Buried, "BURIED", "hash", OfReason, "finish.lua", "read/dead.go"},

	{Counts, "COUNTS", "hash", OfNone, "finish.lua", "read/stats.go"},
	{Ends, "ENDS", "hash", OfNone, "finish.lua", "read/stats.go"},
	{Jobs, "JOBS", "hash", OfNone, "job_turn.lua", "job.lua"},
	{Fenced, "FENCED", "zset", OfInstance, "reap.lua", "claim.lua"},
	{Attempts, "ATTEMPTS", "stream", OfNone, "common.lua", "read/log_read.go"},
	{Archive, "ARCHIVE", "hash", OfNone, "trim.lua", "read/log_read.go"},
	{Health, "HEALTH", "hash", OfLanes, "health.lua", "home/health.go"},
	{Added, "ADDED", "zset", OfInstance, "health.lua", "health.lua"},
}

// HomeKinds lists the project's own keys, after Home.
var HomeKinds = []Kind{
	{Meta, "META", "hash", OfNone, "conn/meta.go", "conn/meta.go"},
	{Instances, "INSTANCES", "hash", OfInstance, "reap.go", "reap.go"},
	{About, "ABOUT", "hash", OfInstance, "shares.go", "read/instances.go"},
	{Departed, "DEPARTED", "zset", OfInstance, "reap.go", "reap.go"},
	{Audit, "AUDIT", "stream", OfNone, "audit.lua", "home/audit.go"},
	{AuditLinks, "ACTS", "stream", OfNone, "audit.lua", "home/audit.go"},
	{Session, "SESSION", "hash", OfNone, "session_open.lua", "session_read.lua"},
	{Shown, "SHOWN", "hash", OfNone, "shown_put.lua", "shown_read.lua"},
	{Links, "LINKS", "hash", OfNone, "link_create.lua", "access_common.lua"},
	{Linked, "LINKED", "zset", OfNone, "link_create.lua", "link_list.lua"},
	{Lapse, "LAPSE", "zset", OfNone, "link_create.lua", "link_create.lua"},
	{Health, "HEALTH", "hash", OfNone, "health.lua", "home/health.go"},
	{Added, "ADDED", "zset", OfInstance, "health.lua", "health.lua"},

	{Endpoints, "ENDPOINTS", "hash", OfEndpoint, "endpoint_create.lua", "home/endpoints_read.go"},
	{UIDs, "UIDS", "hash", OfEndpoint, "endpoint_create.lua", "home/endpoints_read.go"},
	{Tenant, "TENANT", "zset", OfEndpoint, "endpoint_create.lua", "home/endpoints_read.go"},
	{All, "ALL", "zset", OfEndpoint, "endpoint_create.lua", "home/endpoints_read.go"},
	{Public, "PUBLIC", "zset", OfEndpoint, "endpoint_create.lua", "home/endpoints_read.go"},
	{Gone, "GONE", "hash", OfEndpoint, "endpoint_delete.lua", "home/endpoints.go"},
	{Sealed, "SEALED", "hash", OfEndpoint, "endpoint_common.lua", "home/endpoints_sealed.go"},

	{Jobs, "JOBS", "hash", OfNone, "job_put.lua", "admin/jobs.go"},
}

// Named reports whether keys of the kind are named after something.
func (k Kind) Named() bool { return strings.HasSuffix(k.Name, ":") }

// Explain returns the kind of a partition's key by its name after the tag, and the owner in the
// name. The tests' clock has no kind.
func Explain(name string) (k Kind, of string, ok bool) {
	for _, k := range Kinds {
		if of, ok := strings.CutPrefix(name, k.Name); ok && (of == "" || k.Named()) {
			return k, of, true
		}
	}
	return Kind{}, "", name == Clock
}

// Find returns the kind of a name of this package. If a partition and the project both have the
// name, it returns the kind of the partition's key.
func Find(name string) Kind {
	all := slices.Concat(Kinds, HomeKinds)
	return all[slices.IndexFunc(all, func(k Kind) bool { return k.Name == name })]
}

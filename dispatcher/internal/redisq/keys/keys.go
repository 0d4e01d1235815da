// Package keys names the keys of a project in Redis, their types, and the
// partition in which a lane's keys lie. lua/common.lua of package script makes
// the same names.
package keys

import (
	"strconv"
)

// Names of a partition's keys, put behind its tag. common.lua makes the same
// ones and says what each holds; a test keeps the two equal.
const (
	Messages  = ":messages"
	Fan       = ":fan"
	Bodies    = ":bodies"
	Subjects  = ":subjects"
	Subject   = ":subject:" // and the hash of a token
	Staged    = ":staged"
	Due       = ":due"
	Ready     = ":ready:" // and the lane
	Shelf     = ":of:"    // and the lane, of a queue also with ~ and the hash of a tenant
	Owners    = ":owners"
	Leases    = ":leases:" // and the instance
	Marks     = ":marks"
	Progress  = ":progress"
	History   = ":history:" // and the delivery
	Done      = ":done"
	Cancelled = ":cancelled"
	Dead      = ":dead"
	Seen      = ":seen"
	Behind    = ":behind:" // and the lane, :, and the key's hash in hex, or *
	Lanes     = ":lanes"
	Parked    = ":parked"
	Pulls     = ":pulls"
	Taken     = ":taken"
	Tokens    = ":tokens"
	Expiring  = ":expiring"
	In        = ":in"
	Lane      = ":lane"
	Limits    = ":limits"
	Held      = ":held"
	Known     = ":known"
	LaneNames = ":names"
	Counts    = ":counts"
	Buried    = ":buried"
	Ends      = ":ends"
	Jobs      = ":jobs" // also behind Home
	Fenced    = ":fenced"
	Attempts  = ":attempts"
	Archive   = ":archive"
	Health    = ":health:" // and the number of the half hour since 1970; behind Home of the day
	Added     = ":added"   // also behind Home
)

// Timer stands in Parked among the lanes, of which none has such a name: it says
// when the first lease of Taken ends.
const Timer = "~taken"

// Expiry stands there too: it says when the first delivery of Expiring is looked at.
const Expiry = "~expiring"

// Epoch stands in Limits among the lanes, of which none has such a name: a random text
// that a partition's data begin with. Data that were lost take it with them.
const Epoch = "~epoch"

// Readied stands in Limits too. It has the ms at which a delivery that had been accepted before
// last became ready. A list compares it with its own begin, because ready deliveries have no time.
const Readied = "~readied"

// IsNoLane reports whether a field or member among lanes is one of these, or * for all lanes.
func IsNoLane(name string) bool {
	return name == "*" || name == Timer || name == Expiry || name == Epoch || name == Readied
}

// Clock holds the time, in microseconds, that scripts read instead of Redis'
// own where a test sets the clock.
const Clock = ":clock"

// Names of the project's own keys, put behind {<project>}.
const (
	Meta        = ":meta"
	Instances   = ":instances"
	About       = ":about"
	Departed    = ":departed"
	Audit       = ":audit"
	AuditLinks  = ":acts"
	Session     = ":session:" // and the owner text of an API key
	Shown       = ":shown:"   // and the hash of its owner
	Links       = ":links"
	Linked      = ":linked"
	Lapse       = ":lapse"
	WakeChannel = ":wake"
)

// Names of the endpoints' keys, put behind {<project>} too.
// lua/endpoint_common.lua makes the same ones and says what each holds.
const (
	Endpoints        = ":endpoints"
	UIDs             = ":uids"
	Tenant           = ":tenant:" // and the tenant; of a partition and the hash of the tenant
	All              = ":all"
	Public           = ":public"
	Gone             = ":gone"
	Sealed           = ":sealed"
	EndpointsChannel = Endpoints
)

// Turn is the factor of the weight in a lane's score; lua/common.lua says why.
const Turn = 1 << 41

// WholeWeight is what a lane weighs that has all permits of all instances. An
// instance may claim from one while it weighs less than the same part of its own
// permits is free.
const WholeWeight = 2048

// MostWeight is what a weight is clamped to, here and in lua/common.lua.
const MostWeight = 2*WholeWeight - 1

// Home is the tag of what belongs to no partition.
func Home(project string) string { return "{" + project + "}" }

// Tag is the hash tag of partition n of a project: all its keys begin with it.
func Tag(project string, n int) string {
	return "{" + project + ":" + strconv.Itoa(n) + "}"
}

// Partition is where a lane lies among so many partitions.
func Partition(lane string, of int) int { return int(CRC16(lane)) % of }

// CRC16 is the checksum of the Redis Cluster specification (CRC-16/XMODEM:
// polynomial 0x1021, start 0), by which lanes are spread over partitions.
func CRC16(s string) uint16 {
	var crc uint16
	for i := 0; i < len(s); i++ {
		crc ^= uint16(s[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return crc
}

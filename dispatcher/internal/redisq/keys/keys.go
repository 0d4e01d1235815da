// Package keys defines the names and types of a project's keys in Redis, and the partition of a
// lane's keys. The file lua/common.lua of package conn defines the same names.
package keys

import (
	"strconv"
)

// Names of a partition's keys, after its tag. The script common.lua has the same names and
// describes the content of each key. A test checks that both are equal.
const (
	Messages  = ":messages"
	Fan       = ":fan"
	Bodies    = ":bodies"
	Subjects  = ":subjects"
	Subject   = ":subject:" // and the hash of a token
	Digits    = ":digits:"  // and three digits
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
	Unopened  = ":unopened"
	In        = ":in"
	Lane      = ":lane"
	Limits    = ":limits"
	Held      = ":held"
	Known     = ":known"
	LaneNames = ":names"
	Failures  = ":failures"
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

// Timer is a member of Parked and not the name of a lane. Its score is the time when the first
// lease of Taken ends.
const Timer = "~taken"

// Expiry is a member of Parked too. Its score is the time when the first delivery of Expiring is
// checked.
const Expiry = "~expiring"

// Epoch is a field of Limits and not the name of a lane. It has a random text that is created with
// a partition's data. If the data are lost, the text is lost too.
const Epoch = "~epoch"

// Readied is a field of Limits too. It has the ms at which a delivery last became ready after it
// had been accepted before. A list compares it with its own begin, because ready deliveries have no
// time.
const Readied = "~readied"

// IsNoLane reports whether a field or member is one of these names, or * for all lanes.
func IsNoLane(name string) bool {
	return name == "*" || name == Timer || name == Expiry || name == Epoch || name == Readied
}

// Clock has the time in microseconds that scripts read instead of the time of Redis, if a test sets
// the clock.
const Clock = ":clock"

// Names of the project's own keys, after {<project>}.
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

// Names of the endpoints' keys, after {<project>}. The script lua/endpoint_common.lua has the same
// names and describes the content of each key.
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

// Turn is the factor of the weight in a lane's score. The reason is in lua/common.lua.
const Turn = 1 << 41

// WholeWeight is the weight of a lane that uses all permits of all instances. An instance may claim
// from a lane if the lane's weight is less than the free part of the instance's own permits.
const WholeWeight = 2048

// MostWeight is the maximum of a weight, here and in lua/common.lua.
const MostWeight = 2*WholeWeight - 1

// Home returns the tag of keys that belong to no partition.
func Home(project string) string { return "{" + project + "}" }

// Tag returns the hash tag of partition n of a project. All keys of the partition begin with it.
func Tag(project string, n int) string {
	return "{" + project + ":" + strconv.Itoa(n) + "}"
}

// Partitions returns the numbers of all partitions, out of a total.
func Partitions(of int) []int {
	all := make([]int, of)
	for n := range all {
		all[n] = n
	}
	return all
}

// Partition returns the number of a lane's partition, out of a total.
func Partition(lane string, of int) int { return int(CRC16(lane)) % of }

// CRC16 returns the checksum of the Redis Cluster specification (CRC-16/XMODEM: polynomial 0x1021,
// start 0). It spreads the lanes over the partitions.
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

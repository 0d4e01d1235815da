package redisq

import (
	"strconv"

	"github.com/hookladder/hookladder/dispatcher"
)

// Names of a partition's keys, put behind its tag. lua/common.lua makes the
// same ones and says what each holds; a test keeps the two equal.
const (
	keyMessages  = ":messages"
	keyFan       = ":fan"
	keyBodies    = ":bodies"
	keyStaged    = ":staged"
	keyDue       = ":due"
	keyReady     = ":ready:"  // and the lane
	keyLeases    = ":leases:" // and the instance
	keyMarks     = ":marks"
	keyProgress  = ":progress"
	keyHistory   = ":history:" // and the delivery
	keyDone      = ":done"
	keyCancelled = ":cancelled"
	keyDead      = ":dead"
	keySeen      = ":seen"
	keyBehind    = ":behind:" // and the lane, :, and the key's hash in hex, or *
	keyLanes     = ":lanes"
	keyParked    = ":parked"
	keyIn        = ":in"
	keyLane      = ":lane"
	keyLimits    = ":limits"
	keyHeld      = ":held"
	keyKnown     = ":known"
	keyLaneNames = ":names"
	keyCounts    = ":counts"
	keyBuried    = ":buried"
	keyEnds      = ":ends"
	keyFenced    = ":fenced"
	keyAttempts  = ":attempts"
)

// keyClock holds the time, in microseconds, that scripts read instead of
// Redis' own when Options.TestClock asks for it.
const keyClock = ":clock"

// Names of the project's own keys, put behind {<project>}.
const (
	keyMeta      = ":meta"
	keyInstances = ":instances"
	keyAbout     = ":about"
	keyDeparted  = ":departed"
	channelWake  = ":wake"
)

// Names of the endpoints' keys, put behind {<project>} too.
// lua/endpoint_create.lua makes the same ones and says what each holds.
const (
	keyEndpoints     = ":endpoints"
	keyUIDs          = ":uids"
	keyTenant        = ":tenant:" // and the tenant
	keyAll           = ":all"
	keyPublic        = ":public"
	keyGone          = ":gone"
	keySealed        = ":sealed"
	channelEndpoints = keyEndpoints
)

// turn is the factor of the weight in a lane's score; lua/common.lua says why.
const turn = 1 << 41

// mostWeight is what a weight is clamped to, here and in lua/common.lua.
const mostWeight = 2*dispatcher.WholeWeight - 1

// tag is the hash tag of partition n of a project: all its keys begin with it.
func tag(project string, n int) string {
	return "{" + project + ":" + strconv.Itoa(n) + "}"
}

// crc16 is the checksum of the Redis Cluster specification (CRC-16/XMODEM:
// polynomial 0x1021, start 0), by which lanes are spread over partitions.
func crc16(s string) uint16 {
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

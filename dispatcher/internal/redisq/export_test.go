package redisq

import (
	"time"
)

// What the tests of this package look at from outside.
var (
	CommonSrc    = commonSrc
	EncodeRecord = encodeRecord
	DecodeRecord = decodeRecord
	CRC16        = crc16
	MeaningOf    = meaningOf
	ParseHint    = parseHint
	ParseChange  = parseChange
	ParseLimits  = parseLimits
	Turn         = float64(turn)
)

// Names are the constants of keys.go by the names that common.lua gives them.
var Names = map[string]string{
	"MESSAGES": keyMessages, "FAN": keyFan, "DUE": keyDue, "READY": keyReady, "LEASES": keyLeases,
	"MARKS": keyMarks, "PROGRESS": keyProgress, "HISTORY": keyHistory, "DONE": keyDone,
	"CANCELLED": keyCancelled, "DEAD": keyDead, "SEEN": keySeen, "LANES": keyLanes, "IN": keyIn,
	"PARKED": keyParked, "BEHIND": keyBehind, "LIMITS": keyLimits,
	"LANE": keyLane, "KNOWN": keyKnown, "COUNTS": keyCounts, "BURIED": keyBuried,
	"FENCED": keyFenced, "ATTEMPTS": keyAttempts,
}

// Codes are the verdicts as settle.lua spells them.
var Codes = verdicts

// ReadTime is readTime of a record's 6 bytes.
func ReadTime(s string) time.Time { return readTime(s) }

// ParseCursor reads a cursor and writes it again.
func ParseCursor(text string) (string, error) {
	c, err := parseCursor(text)
	return c.String(), err
}

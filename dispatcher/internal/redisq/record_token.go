package redisq

import (
	"encoding/binary"
	"slices"
)

// WithToken has a record, or its head, say what its subject is found by. One of another store
// has the hash of that store's key. Without a subject it is a copy.
func WithToken(record []byte, token string) []byte {
	meta := atLane + 1 + int(record[atLane])
	at := meta + 3 // behind the size and the version
	size := int(binary.BigEndian.Uint16(record[meta:]))
	if size > 2 && record[at] == metaBody {
		at += 2 + int(record[at+1])
	}
	out, old := slices.Clone(record), 0
	if at < meta+2+size && record[at] == metaToken {
		old = 2 + int(record[at+1])
	}
	fresh := appendField(nil, metaToken, token)
	out = slices.Replace(out, at, at+old, fresh...)
	binary.BigEndian.PutUint16(out[meta:], uint16(size+len(fresh)-old))
	return out
}

package codec

import (
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/seal"
)

// Encode writes a record whose body does not lie apart.
func Encode(e dispatcher.Entry, deliver time.Time) []byte {
	record, _ := EncodeRecord(e, deliver, Hiding{Token: (&conn.Client{}).SubjectHash(e.Message.Subject)})
	return record
}

// EncodeSealed writes such a record with the values of headers sealed.
func EncodeSealed(e dispatcher.Entry, box *seal.Box) string {
	record, _ := EncodeRecord(e, time.Time{}, Hiding{Box: box})
	return string(record)
}

// OpenSealed is openHeaders.
var OpenSealed = openHeaders

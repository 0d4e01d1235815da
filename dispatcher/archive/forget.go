package archive

import "time"

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

package archive

import "time"

// Chosen is a message that a Selection has.
type Chosen struct {
	ID      string
	Created time.Time
}

// Erased counts what is gone from an archive.
type Erased struct {
	Messages int64 `json:"messages"`
	Events   int64 `json:"events"`
	Open     int64 `json:"open"`   // of the messages' deliveries, those that had not finished
	Months   int   `json:"months"` // tables that went whole: the events in them are not counted
}

package archive

import "time"

// Status is the state of archiving on one instance.
type Status struct {
	Up         bool      // the last write succeeded
	Since      time.Time // when Up changed last, by this host's clock
	Err        error     // the cause if it is not up
	Partitions int       // partitions that this instance archives
	Orphans    int64     // unfinished deliveries of emptied stores, in the partitions of this instance

	// Comparing is the share of its partitions' deliveries that this instance has not
	// compared yet; 0 if all are compared.
	Comparing float64

	// Counts since the instance started. Changed rows have a replaced text. Passed rows
	// were rejected by the archive, and Lost ones were cut by the store.
	Messages, Events, Changed, Passed, Lost int64
}

// Figures are a Status and the progress of archiving.
type Figures struct {
	Status
	Lag     time.Duration // age of the oldest event that is not archived; 0 if all are
	Backlog int64         // bytes that the store keeps because they are not archived
	Dropped int64         // lines that the store ever cut before they were archived
}

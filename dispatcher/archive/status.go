package archive

import "time"

// Status is how an archive does, as one instance knows.
type Status struct {
	Up      bool      // it took what it was given last
	Since   time.Time // when Up became so, by this host's clock
	Err     error     // why it is not up
	Holds   int       // partitions that this instance archives
	Orphans int64     // unfinished deliveries of stores that were emptied, as far as this instance holds them

	// Comparing is the share of its partitions' deliveries that this instance has still to
	// compare with the archive; 0: all are compared.
	Comparing float64

	// What this instance kept since its start. Of Changed rows a text was replaced. Passed
	// and Lost could not be kept: the archive did not take them, or the store cut them.
	Messages, Events, Changed, Passed, Lost int64
}

// Figures are a Status, and how far the store is archived.
type Figures struct {
	Status
	Lag     time.Duration // since the oldest of what happened and is not archived; 0: all is
	Backlog int64         // bytes that the store keeps since they are not archived
	Dropped int64         // lines that the store ever cut before they were archived
}

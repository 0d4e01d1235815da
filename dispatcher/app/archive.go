package app

import "time"

// ArchiveBodies are the words for which bodies of messages an archive keeps.
var ArchiveBodies = []string{"all", "failed", "none"}

// ArchiveOptions say where what happened is kept beyond the store, and how long.
type ArchiveOptions struct {
	URL       string        // of a PostgreSQL; empty: there is no archive
	Bodies    string        // one of ArchiveBodies
	Backlog   int64         // bytes that the store keeps while the archive is away
	Retention time.Duration // 0: for ever
}

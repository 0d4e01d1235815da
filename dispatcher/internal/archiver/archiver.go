// Package archiver brings what the store's log tells into the archive. It is never in
// the way of a delivery. While the archive is away, the store keeps what is not archived
// as long as it may. Then the archiver goes on where it was.
package archiver

import (
	"log/slog"

	"github.com/hookladder/hookladder/dispatcher/archive"
)

// Options say what is archived, and where.
type Options struct {
	Source  archive.Source
	Archive archive.Archive
	Log     *slog.Logger
}

// Archiver brings a store's log into an archive.
type Archiver struct {
	source  archive.Source
	archive archive.Archive
	log     *slog.Logger
}

// New makes an Archiver.
func New(o Options) *Archiver {
	return &Archiver{source: o.Source, archive: o.Archive, log: o.Log}
}

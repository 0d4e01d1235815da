package app

import (
	"fmt"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/archiver"
	"github.com/hookladder/hookladder/dispatcher/internal/engine"
	"github.com/hookladder/hookladder/dispatcher/internal/postgres"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/feed"
)

// ArchiveBodies are the options for the bodies that an archive keeps.
var ArchiveBodies = []string{"all", "failed", "none"}

// ArchiveOptions configure the archive, which keeps the log longer than the store.
type ArchiveOptions struct {
	URL          string        // of a PostgreSQL; empty: no archive
	Bodies       string        // one of ArchiveBodies
	Backlog      int64         // bytes that the store keeps while the archive does not respond
	Retention    time.Duration // 0: for ever
	QueryTimeout time.Duration // timeout of a caller's lookup; 0: 800 ms
}

// newArchiver returns the archiver, which copies the store's log into the archive.
func newArchiver(store *redisq.Store, e *engine.Engine, notify func(dispatcher.News), o Options) (*archiver.Archiver, error) {
	a, err := postgres.Open(archiveOptions(o))
	if err != nil {
		return nil, fmt.Errorf("ARCHIVE_URL: %w", err)
	}
	return archiver.New(archiver.Options{
		Source: feed.New(store), Archive: a, Name: e.Name(), Retention: o.Archive.Retention, Now: e.Now, Notify: notify, Log: o.Log,
	}), nil
}

func archiveOptions(o Options) postgres.Options {
	return postgres.Options{URL: o.Archive.URL, Project: o.Project, Bodies: o.Archive.Bodies, Log: o.Log}
}

package app

import (
	"context"
	"fmt"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
	"github.com/hookladder/hookladder/dispatcher/internal/engine"
	"github.com/hookladder/hookladder/dispatcher/internal/postgres"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/admin"
)

// ArchiveBodies are the options for the bodies that an archive keeps.
func ArchiveBodies() []string {
	return []string{"all", "failed", "none"}
}

// ArchiveOptions configure the archive, which keeps the log longer than the store.
type ArchiveOptions struct {
	URL          string        // of a PostgreSQL; empty: no archive
	Bodies       string        // one of ArchiveBodies
	Backlog      int64         // bytes that the store keeps while the archive does not respond
	Retention    time.Duration // 0: for ever
	QueryTimeout time.Duration // timeout of a caller's lookup; 0: 800 ms
}

// newArchiver returns the archiver, which copies the store's log into the archive.
func newArchiver(store *redisq.Store, e *engine.Engine, notify func(dispatcher.News), o Options) (*archive.Archiver, error) {
	a, err := postgres.Open(archiveOptions(o))
	if err != nil {
		return nil, fmt.Errorf("ARCHIVE_URL: %w", err)
	}
	return archive.NewArchiver(archive.ArchiverOptions{
		Source: admin.NewFeed(store), Archive: a, Name: e.Name(), Retention: o.Archive.Retention, Now: e.Now, Notify: notify, Log: o.Log,
	}), nil
}

func archiveOptions(o Options) postgres.Options {
	return postgres.Options{URL: o.Archive.URL, Project: o.Project, Bodies: o.Archive.Bodies, Log: o.Log}
}

// Timeouts of the archive for reading the store's log.
const (
	archivedWithin    = 2 * time.Minute
	archivedPollEvery = 200 * time.Millisecond
	archivedAsk       = 5 * time.Second // interval of the requests to instances
)

// awaitArchive waits until the archive has everything that the store has logged so far. It reports
// whether it has, and calls progress while it waits. Without an archive there is nothing to wait for.
func awaitArchive(ctx context.Context, store *redisq.Store, progress func()) (all bool, err error) {
	source := admin.NewFeed(store)
	if !store.Conn().Archives() {
		return true, nil // no instance has ever archived this store
	}
	in := source.All()
	states, err := source.States(ctx, in)
	if err != nil {
		return false, err
	}
	until := map[int]archive.Position{}
	for _, s := range states {
		until[s.Partition] = s.Last
	}
	within := archivedWithin
	if store.Polls() { // instances can't be notified
		within += archive.PollEvery(len(in))
	}
	asked := time.Time{}
	for began := time.Now(); ; {
		behind := false
		for _, s := range states {
			behind = behind || until[s.Partition].After(s.At)
		}
		if !behind {
			return true, nil
		}
		if time.Since(began) > within {
			return false, nil
		}
		progress()
		if time.Since(asked) > archivedAsk {
			if err := source.Ask(ctx); err != nil {
				return false, err
			}
			asked = time.Now()
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-time.After(archivedPollEvery):
		}
		if states, err = source.States(ctx, in); err != nil {
			return false, err
		}
	}
}

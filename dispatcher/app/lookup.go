package app

import (
	"fmt"

	"github.com/hookladder/hookladder/dispatcher/internal/engine"
	"github.com/hookladder/hookladder/dispatcher/internal/lookup"
	"github.com/hookladder/hookladder/dispatcher/internal/postgres"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
)

// openLookup makes what looks into store and archive; nil where there is no archive. It
// connects to nothing, since the archive may be away. end ends its connections.
func openLookup(e *engine.Engine, store *redisq.Store, o Options) (look *lookup.Lookup, end func(), err error) {
	if o.Archive.URL == "" {
		return nil, func() {}, nil
	}
	reader, err := postgres.OpenReader(postgres.Options{URL: o.Archive.URL, Project: o.Project, Log: o.Log})
	if err != nil {
		return nil, nil, fmt.Errorf("ARCHIVE_URL: %w", err)
	}
	look = lookup.New(lookup.Options{
		Live: e, Lanes: e.Registry(), Store: store, Archive: reader, Decode: redisq.DecodeHead, Log: o.Log,
	})
	return look, reader.Close, nil
}

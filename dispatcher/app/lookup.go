package app

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
	"github.com/hookladder/hookladder/dispatcher/internal/engine"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/api"
	"github.com/hookladder/hookladder/dispatcher/internal/lookup"
	"github.com/hookladder/hookladder/dispatcher/internal/postgres"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/codec"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// openLookup makes what looks into store and archive; nil where there is no archive. It
// connects to nothing, since the archive may be away. end ends its connections.
func openLookup(e *engine.Engine, store *redisq.Store, o Options) (look *lookup.Lookup, end func(), err error) {
	if o.Archive.URL == "" {
		return nil, func() {}, nil
	}
	reader, err := postgres.OpenReader(postgres.Options{URL: o.Archive.URL, Project: o.Project, Log: o.Log, QueryTimeout: o.Archive.QueryTimeout})
	if err != nil {
		return nil, nil, fmt.Errorf("ARCHIVE_URL: %w", err)
	}
	look = lookup.New(lookup.Options{
		Live: e, Lanes: e.Registry(), Store: store.Deliveries, Cursors: store, Archive: reader, Decode: codec.DecodeHead, Log: o.Log,
		Comparing: func(ctx context.Context) (bool, error) {
			due, _, err := stillToCompare(ctx, store, reader)
			return due > 0, err
		},
	})
	return look, reader.Close, nil
}

// Export selects the part of an archive to read.
type Export struct {
	Of     archive.Selection
	Bodies bool                   // of messages, where they are kept
	Tell   func(done, months int) // called at the beginning of each month, and at the end
}

// Exported is a delivery that ended, as lists show it, but with the URL that was called last.
type Exported struct {
	wire.Delivery
	Last dispatcher.Attempt // At is zero if it ended without one
}

// ExportDeliveries calls each for the deliveries of a selection that ended in its time,
// each once with its newest end.
func ExportDeliveries(ctx context.Context, o Options, x Export, each func(*Exported) error) error {
	return withReader(o, func(r *postgres.Reader) error {
		return r.ExportEnds(ctx, x.Of, func(e *archive.End) error {
			d := lookup.Delivery(e, headOf(e.ID.Message, e.Head))
			d.URL = cmp.Or(e.Attempt.URL, d.URL)
			return each(&Exported{Delivery: api.Listed(&d), Last: e.Attempt})
		}, x.Tell)
	})
}

// ExportMessages calls each for the messages of a selection that were accepted in its time. size
// is the body's, even if the body is left out.
func ExportMessages(ctx context.Context, o Options, x Export, each func(m *dispatcher.Message, size int) error) error {
	return withReader(o, func(r *postgres.Reader) error {
		return r.ExportMessages(ctx, x.Of, x.Bodies, func(f *archive.Found) error {
			m := lookup.Message(f, headOf(f.Message.ID, f.Head))
			return each(&m, f.Size)
		}, x.Tell)
	})
}

// headOf reads the head of a record; nil: there is none, or it can't be read.
func headOf(id string, head []byte) *dispatcher.Message {
	if head == nil {
		return nil
	}
	m, err := codec.DecodeHead(id, head)
	if err != nil {
		return nil
	}
	return m
}

// exportTime bounds the queries of an export besides its rows: no caller waits for a response.
const exportTime = time.Minute

func withReader(o Options, do func(*postgres.Reader) error) error {
	r, err := postgres.OpenReader(postgres.Options{URL: o.Archive.URL, Project: o.Project, Log: o.Log, QueryTimeout: exportTime})
	if err != nil {
		return fmt.Errorf("ARCHIVE_URL: %w", err)
	}
	defer r.Close()
	return do(r)
}

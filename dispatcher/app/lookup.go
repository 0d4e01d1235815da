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
	"github.com/hookladder/hookladder/dispatcher/internal/postgres"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// openLookup returns the lookup in store and archive; nil if there is no archive. It opens no
// connection, because the archive may be down. end closes its connections.
func openLookup(e *engine.Engine, store *redisq.Store, o Options) (queries *archive.Lookup, end func(), err error) {
	if o.Archive.URL == "" {
		return nil, func() {}, nil
	}
	reader, err := postgres.OpenReader(postgres.Options{URL: o.Archive.URL, Project: o.Project, Log: o.Log, QueryTimeout: o.Archive.QueryTimeout})
	if err != nil {
		return nil, nil, fmt.Errorf("ARCHIVE_URL: %w", err)
	}
	queries = archive.NewLookup(archive.LookupOptions{
		Live: e, Lanes: e.Registry(), Store: store.Deliveries, Cursors: store, Archive: reader, Decode: conn.DecodeHead, Log: o.Log,
		Comparing: func(ctx context.Context) (bool, error) {
			due, _, err := stillToCompare(ctx, store, reader)
			return due > 0, err
		},
	})
	return queries, reader.Close, nil
}

// Export selects a part of an archive.
type Export struct {
	Of       archive.Selection
	Bodies   bool                   // of messages, if they are kept
	Progress func(done, months int) // called at the beginning of each month, and at the end
}

// Exported is a delivery that ended, as in lists, but with the URL of the last call.
type Exported struct {
	wire.Delivery
	Last dispatcher.Attempt // At is zero if it ended without an attempt
}

// ExportDeliveries calls each for the selected deliveries that ended in the time range. It
// calls it once for each delivery, with the newest end.
func ExportDeliveries(ctx context.Context, o Options, x Export, each func(*Exported) error) error {
	return withReader(o, func(r *postgres.Reader) error {
		return r.ExportEnds(ctx, x.Of, func(e *archive.End) error {
			d := archive.DeliveryOf(e, headOf(e.ID.Message, e.Head))
			d.URL = cmp.Or(e.Attempt.URL, d.URL)
			return each(&Exported{Delivery: api.Listed(&d), Last: e.Attempt})
		}, x.Progress)
	})
}

// ExportMessages calls each for the selected messages that were accepted in the time range.
// size is the body's, even if the body is left out.
func ExportMessages(ctx context.Context, o Options, x Export, each func(m *dispatcher.Message, size int) error) error {
	return withReader(o, func(r *postgres.Reader) error {
		return r.ExportMessages(ctx, x.Of, x.Bodies, func(f *archive.Found) error {
			m := archive.MessageOf(f, headOf(f.Message.ID, f.Head))
			return each(&m, f.Size)
		}, x.Progress)
	})
}

// headOf decodes the head of a record; nil: there is none, or it can't be read.
func headOf(id string, head []byte) *dispatcher.Message {
	if head == nil {
		return nil
	}
	m, err := conn.DecodeHead(id, head)
	if err != nil {
		return nil
	}
	return m
}

// exportTime is the timeout of the short queries of an export, because no caller waits for a
// response. It does not limit the query for its rows.
const exportTime = time.Minute

func withReader(o Options, do func(*postgres.Reader) error) error {
	r, err := postgres.OpenReader(postgres.Options{URL: o.Archive.URL, Project: o.Project, Log: o.Log, QueryTimeout: exportTime})
	if err != nil {
		return fmt.Errorf("ARCHIVE_URL: %w", err)
	}
	defer r.Close()
	return do(r)
}

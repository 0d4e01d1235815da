package client

import (
	"context"
	"iter"

	"github.com/hookladder/hookladder/dispatcher/internal/input"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// MaxPage is the largest number of entries on a page of a list.
const MaxPage = input.MaxPage

// maxKeysPage is the largest number of endpoints on a page of public keys.
const maxKeysPage = 50

// each iterates over the entries of all pages. It reads a page when it is needed, and
// yields an error as the last element.
func each[T any](limit int, cursor string, read func(limit int, cursor string) ([]T, *string, error)) iter.Seq2[T, error] {
	if limit == 0 {
		limit = MaxPage
	}
	return func(yield func(T, error) bool) {
		for next := &cursor; next != nil; {
			data, after, err := read(limit, *next)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, one := range data {
				if !yield(one, nil) {
					return
				}
			}
			next = after
		}
	}
}

// EachDelivery iterates over all deliveries that f selects, newest first, starting at
// f.Cursor. Here and below a page is read when it is needed, with f.Limit entries, or as
// many as the API allows. An error is yielded as the last element.
func (c *Client) EachDelivery(ctx context.Context, f Filter) iter.Seq2[wire.Delivery, error] {
	return each(f.Limit, f.Cursor, func(limit int, cursor string) ([]wire.Delivery, *string, error) {
		f := f
		f.Limit, f.Cursor = limit, cursor
		page, err := c.Deliveries(ctx, f)
		return page.Data, page.NextCursor, err
	})
}

// EachAttempt iterates over all attempts that f selects, newest first.
func (c *Client) EachAttempt(ctx context.Context, f AttemptFilter) iter.Seq2[wire.LoggedAttempt, error] {
	return each(f.Limit, f.Cursor, func(limit int, cursor string) ([]wire.LoggedAttempt, *string, error) {
		f := f
		f.Limit, f.Cursor = limit, cursor
		page, err := c.Attempts(ctx, f)
		return page.Data, page.NextCursor, err
	})
}

// EachDead iterates over all groups of dead deliveries that f selects, largest first.
func (c *Client) EachDead(ctx context.Context, f DeadFilter) iter.Seq2[wire.DeadGroup, error] {
	return each(f.Limit, f.Cursor, func(limit int, cursor string) ([]wire.DeadGroup, *string, error) {
		f := f
		f.Limit, f.Cursor = limit, cursor
		page, err := c.Dead(ctx, f)
		return page.Data, page.NextCursor, err
	})
}

// EachEndpoint iterates over all endpoints that f selects, newest first.
func (c *Client) EachEndpoint(ctx context.Context, f EndpointFilter) iter.Seq2[wire.EndpointView, error] {
	return each(f.Limit, f.Cursor, func(limit int, cursor string) ([]wire.EndpointView, *string, error) {
		f := f
		f.Limit, f.Cursor = limit, cursor
		page, err := c.Endpoints(ctx, f)
		return page.Data, page.NextCursor, err
	})
}

// EachEnded iterates over the finished deliveries of an endpoint, oldest first. To
// continue later, use EndpointDeliveries, whose pages have a ResumeCursor.
func (c *Client) EachEnded(ctx context.Context, name string, f EndedFilter) iter.Seq2[wire.Delivery, error] {
	return each(f.Limit, f.Cursor, func(limit int, cursor string) ([]wire.Delivery, *string, error) {
		f := f
		f.Limit, f.Cursor = limit, cursor
		page, err := c.EndpointDeliveries(ctx, name, f)
		return page.Data, page.NextCursor, err
	})
}

// EachLane iterates over all lanes, newest first.
func (c *Client) EachLane(ctx context.Context) iter.Seq2[wire.LaneState, error] {
	return each(0, "", func(limit int, cursor string) ([]wire.LaneState, *string, error) {
		page, err := c.Lanes(ctx, limit, cursor)
		return page.Data, page.NextCursor, err
	})
}

// EachJob iterates over all jobs, newest first.
func (c *Client) EachJob(ctx context.Context) iter.Seq2[wire.Job, error] {
	return each(0, "", func(limit int, cursor string) ([]wire.Job, *string, error) {
		page, err := c.Jobs(ctx, limit, cursor)
		return page.Data, page.NextCursor, err
	})
}

// EachInstance iterates over all instances, most recently started first.
func (c *Client) EachInstance(ctx context.Context) iter.Seq2[wire.Instance, error] {
	return each(0, "", func(limit int, cursor string) ([]wire.Instance, *string, error) {
		page, err := c.Instances(ctx, limit, cursor)
		return page.Data, page.NextCursor, err
	})
}

// EachAuditEntry iterates over the entries of the audit log that f selects, newest first.
func (c *Client) EachAuditEntry(ctx context.Context, f AuditFilter) iter.Seq2[wire.AuditEntry, error] {
	return each(f.Limit, f.Cursor, func(limit int, cursor string) ([]wire.AuditEntry, *string, error) {
		f := f
		f.Limit, f.Cursor = limit, cursor
		page, err := c.Audit(ctx, f)
		return page.Data, page.NextCursor, err
	})
}

// EachWebhookKey iterates over the public keys of all endpoints, or of one if name is not
// empty.
func (c *Client) EachWebhookKey(ctx context.Context, name string) iter.Seq2[wire.PublicKey, error] {
	return each(maxKeysPage, "", func(limit int, cursor string) ([]wire.PublicKey, *string, error) {
		page, err := c.WebhookKeys(ctx, name, limit, cursor)
		return page.Data, page.NextCursor, err
	})
}

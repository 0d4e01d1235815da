package client

import (
	"context"
	"iter"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

// The most entries of a page that the API gives.
const (
	mostOfAPage = 500
	mostKeys    = 50
)

// each goes through the pages of a list. A page is read when it is needed, and an error
// is the last element.
func each[T any](limit int, cursor string, read func(limit int, cursor string) ([]T, *string, error)) iter.Seq2[T, error] {
	if limit == 0 {
		limit = mostOfAPage
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

// EachDelivery goes through all deliveries that f selects, newest first, from f.Cursor
// on. Here and below pages are read as they are needed, with f.Limit entries each, or as
// many as the API allows; an error comes as the last element.
func (c *Client) EachDelivery(ctx context.Context, f Filter) iter.Seq2[wire.Delivery, error] {
	return each(f.Limit, f.Cursor, func(limit int, cursor string) ([]wire.Delivery, *string, error) {
		f := f
		f.Limit, f.Cursor = limit, cursor
		page, err := c.Deliveries(ctx, f)
		return page.Data, page.NextCursor, err
	})
}

// EachAttempt goes through all attempts that f selects, newest first.
func (c *Client) EachAttempt(ctx context.Context, f AttemptFilter) iter.Seq2[wire.LoggedAttempt, error] {
	return each(f.Limit, f.Cursor, func(limit int, cursor string) ([]wire.LoggedAttempt, *string, error) {
		f := f
		f.Limit, f.Cursor = limit, cursor
		page, err := c.Attempts(ctx, f)
		return page.Data, page.NextCursor, err
	})
}

// EachDead goes through all groups of dead deliveries that f selects, most first.
func (c *Client) EachDead(ctx context.Context, f DeadFilter) iter.Seq2[wire.DeadGroup, error] {
	return each(f.Limit, f.Cursor, func(limit int, cursor string) ([]wire.DeadGroup, *string, error) {
		f := f
		f.Limit, f.Cursor = limit, cursor
		page, err := c.Dead(ctx, f)
		return page.Data, page.NextCursor, err
	})
}

// EachEndpoint goes through all endpoints that f selects, newest first.
func (c *Client) EachEndpoint(ctx context.Context, f EndpointFilter) iter.Seq2[wire.EndpointView, error] {
	return each(f.Limit, f.Cursor, func(limit int, cursor string) ([]wire.EndpointView, *string, error) {
		f := f
		f.Limit, f.Cursor = limit, cursor
		page, err := c.Endpoints(ctx, f)
		return page.Data, page.NextCursor, err
	})
}

// EachEnded goes through all that ended of an endpoint by now, oldest first. To go on
// later, read pages with EndpointDeliveries, which have a ResumeCursor.
func (c *Client) EachEnded(ctx context.Context, name string, f EndedFilter) iter.Seq2[wire.Delivery, error] {
	return each(f.Limit, f.Cursor, func(limit int, cursor string) ([]wire.Delivery, *string, error) {
		f := f
		f.Limit, f.Cursor = limit, cursor
		page, err := c.EndpointDeliveries(ctx, name, f)
		return page.Data, page.NextCursor, err
	})
}

// EachLane goes through all lanes, newest first.
func (c *Client) EachLane(ctx context.Context) iter.Seq2[wire.LaneState, error] {
	return each(0, "", func(limit int, cursor string) ([]wire.LaneState, *string, error) {
		page, err := c.Lanes(ctx, limit, cursor)
		return page.Data, page.NextCursor, err
	})
}

// EachJob goes through all jobs, newest first.
func (c *Client) EachJob(ctx context.Context) iter.Seq2[wire.Job, error] {
	return each(0, "", func(limit int, cursor string) ([]wire.Job, *string, error) {
		page, err := c.Jobs(ctx, limit, cursor)
		return page.Data, page.NextCursor, err
	})
}

// EachInstance goes through all instances, those that started last first.
func (c *Client) EachInstance(ctx context.Context) iter.Seq2[wire.Instance, error] {
	return each(0, "", func(limit int, cursor string) ([]wire.Instance, *string, error) {
		page, err := c.Instances(ctx, limit, cursor)
		return page.Data, page.NextCursor, err
	})
}

// EachAuditEntry goes through what was changed and by whom, newest first.
func (c *Client) EachAuditEntry(ctx context.Context, f AuditFilter) iter.Seq2[wire.AuditEntry, error] {
	return each(f.Limit, f.Cursor, func(limit int, cursor string) ([]wire.AuditEntry, *string, error) {
		f := f
		f.Limit, f.Cursor = limit, cursor
		page, err := c.Audit(ctx, f)
		return page.Data, page.NextCursor, err
	})
}

// EachWebhookKey goes through the public keys of all endpoints, or of the one with this
// name.
func (c *Client) EachWebhookKey(ctx context.Context, name string) iter.Seq2[wire.PublicKey, error] {
	return each(mostKeys, "", func(limit int, cursor string) ([]wire.PublicKey, *string, error) {
		page, err := c.WebhookKeys(ctx, name, limit, cursor)
		return page.Data, page.NextCursor, err
	})
}

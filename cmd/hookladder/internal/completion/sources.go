package completion

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// Messages are the ids of the newest messages with deliveries of these statuses; no status
// means all.
func Messages(statuses ...string) Source {
	return deliveries(statuses, func(d wire.Delivery) Word {
		_, message, _ := strings.Cut(d.ID, ":")
		return Word{message, d.Topic + " " + d.Status}
	})
}

// Topics are the topics of the newest messages.
func Topics() Source {
	return deliveries(nil, func(d wire.Delivery) Word { return Word{Text: d.Topic} })
}

// Tenants are the tenants of the newest messages.
func Tenants() Source {
	return deliveries(nil, func(d wire.Delivery) Word { return Word{Text: d.Tenant} })
}

// Subjects are the subjects of the newest messages.
func Subjects() Source {
	return deliveries(nil, func(d wire.Delivery) Word { return Word{d.Subject, d.Topic + " " + d.Status} })
}

func deliveries(statuses []string, word func(wire.Delivery) Word) Source {
	return func(ctx context.Context, c *client.Client) ([]Word, error) {
		page, err := c.Deliveries(ctx, client.Filter{Statuses: statuses, Limit: most})
		if err != nil {
			return nil, err
		}
		var words []Word
		for _, d := range page.Data {
			words = append(words, word(d))
		}
		return words, nil
	}
}

// Endpoints are their ids and uids.
func Endpoints() Source {
	return func(ctx context.Context, c *client.Client) ([]Word, error) {
		page, err := c.Endpoints(ctx, client.EndpointFilter{Limit: most})
		if err != nil {
			return nil, err
		}
		return names(page.Data, func(e wire.EndpointView) (string, string, string) {
			return e.UID, e.ID, e.URL + " " + e.State
		}), nil
	}
}

// Destinations are the lanes, and the uids of endpoints.
func Destinations() Source {
	return func(ctx context.Context, c *client.Client) ([]Word, error) {
		page, err := c.Lanes(ctx, most, "")
		if err != nil {
			return nil, err
		}
		return names(page.Data, func(l wire.LaneState) (string, string, string) {
			return l.UID, l.Lane, cmp.Or(l.URL, "all") + " " + l.State + " " + l.Tenant
		}), nil
	}
}

// names are first the uids, then the ids.
func names[T any](list []T, of func(T) (uid, id, says string)) []Word {
	var uids, ids []Word
	for _, one := range list {
		uid, id, says := of(one)
		uids, ids = append(uids, Word{uid, says}), append(ids, Word{id, says})
	}
	return append(uids, ids...)
}

// Jobs are the jobs in one of these states; no state means all.
func Jobs(states ...string) Source {
	return func(ctx context.Context, c *client.Client) ([]Word, error) {
		page, err := c.Jobs(ctx, most, "")
		if err != nil {
			return nil, err
		}
		var words []Word
		for _, j := range page.Data {
			if len(states) == 0 || slices.Contains(states, j.State) {
				words = append(words, Word{j.ID, j.Kind + " " + j.State})
			}
		}
		return words, nil
	}
}

// Links are the links that have not expired.
func Links() Source {
	return func(ctx context.Context, c *client.Client) ([]Word, error) {
		page, err := c.Links(ctx, most, "")
		if err != nil {
			return nil, err
		}
		words := make([]Word, len(page.Data))
		for i, l := range page.Data {
			words[i] = Word{l.ID, strings.TrimSpace(l.Tenant + " " + l.Name)}
		}
		return words, nil
	}
}

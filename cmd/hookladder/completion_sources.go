package main

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// messageWords are the ids of the newest messages with deliveries of these statuses; no status
// means all.
func messageWords(statuses ...string) completionSource {
	return deliveryWords(statuses, func(d wire.Delivery) completionWord {
		_, message, _ := strings.Cut(d.ID, ":")
		return completionWord{message, d.Topic + " " + d.Status}
	})
}

// topicWords are the topics of the newest messages.
func topicWords() completionSource {
	return deliveryWords(nil, func(d wire.Delivery) completionWord { return completionWord{Text: d.Topic} })
}

// tenantWords are the tenants of the newest messages.
func tenantWords() completionSource {
	return deliveryWords(nil, func(d wire.Delivery) completionWord { return completionWord{Text: d.Tenant} })
}

// subjectWords are the subjects of the newest messages.
func subjectWords() completionSource {
	return deliveryWords(nil, func(d wire.Delivery) completionWord { return completionWord{d.Subject, d.Topic + " " + d.Status} })
}

func deliveryWords(statuses []string, word func(wire.Delivery) completionWord) completionSource {
	return func(ctx context.Context, c *client.Client) ([]completionWord, error) {
		page, err := c.Deliveries(ctx, client.Filter{Statuses: statuses, Limit: mostWords})
		if err != nil {
			return nil, err
		}
		var words []completionWord
		for _, d := range page.Data {
			words = append(words, word(d))
		}
		return words, nil
	}
}

// endpointWords are their ids and uids.
func endpointWords() completionSource {
	return func(ctx context.Context, c *client.Client) ([]completionWord, error) {
		page, err := c.Endpoints(ctx, client.EndpointFilter{Limit: mostWords})
		if err != nil {
			return nil, err
		}
		return namedWords(page.Data, func(e wire.EndpointView) (string, string, string) {
			return e.UID, e.ID, e.URL + " " + e.State
		}), nil
	}
}

// destinationWords are the lanes, and the uids of endpoints.
func destinationWords() completionSource {
	return func(ctx context.Context, c *client.Client) ([]completionWord, error) {
		page, err := c.Lanes(ctx, mostWords, "")
		if err != nil {
			return nil, err
		}
		return namedWords(page.Data, func(l wire.LaneState) (string, string, string) {
			return l.UID, l.Lane, cmp.Or(l.URL, "all") + " " + l.State + " " + l.Tenant
		}), nil
	}
}

// namedWords are first the uids, then the ids.
func namedWords[T any](list []T, of func(T) (uid, id, says string)) []completionWord {
	var uids, ids []completionWord
	for _, one := range list {
		uid, id, says := of(one)
		uids, ids = append(uids, completionWord{uid, says}), append(ids, completionWord{id, says})
	}
	return append(uids, ids...)
}

// jobWords are the jobs in one of these states; no state means all.
func jobWords(states ...string) completionSource {
	return func(ctx context.Context, c *client.Client) ([]completionWord, error) {
		page, err := c.Jobs(ctx, mostWords, "")
		if err != nil {
			return nil, err
		}
		var words []completionWord
		for _, j := range page.Data {
			if len(states) == 0 || slices.Contains(states, j.State) {
				words = append(words, completionWord{j.ID, j.Kind + " " + j.State})
			}
		}
		return words, nil
	}
}

// linkWords are the links that have not expired.
func linkWords() completionSource {
	return func(ctx context.Context, c *client.Client) ([]completionWord, error) {
		page, err := c.Links(ctx, mostWords, "")
		if err != nil {
			return nil, err
		}
		words := make([]completionWord, len(page.Data))
		for i, l := range page.Data {
			words[i] = completionWord{l.ID, strings.TrimSpace(l.Tenant + " " + l.Name)}
		}
		return words, nil
	}
}

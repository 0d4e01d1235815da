package client

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

// Take takes deliveries of a queue, or of the endpoint of kind pull with this id. None are
// answered where there is nothing to take within t.Wait. What is taken comes again once its
// lease ends, unless Settle says what became of it.
func (c *Client) Take(ctx context.Context, queue string, t wire.Take) ([]wire.TakenDelivery, error) {
	got, err := send[wire.Taken](ctx, c, apiRequest{verb: "take", method: http.MethodPost, path: queuePath(queue, "/take"), patience: patience + time.Duration(t.Wait)}, t)
	return got.Data, err
}

// Settle says what became of deliveries that were taken, at most 1000. It may be repeated
// where its results name their leases.
func (c *Client) Settle(ctx context.Context, queue string, results []wire.Settlement) ([]wire.SettledDelivery, error) {
	q := apiRequest{verb: "settle", method: http.MethodPost, path: queuePath(queue, "/settle"), repeats: safe}
	for _, r := range results {
		if r.Lease == "" { // a repeat could mean a lease that was taken since
			q.repeats = untaken
		}
	}
	out, err := send[wire.Settled](ctx, c, q, wire.Settle{Results: results})
	return out.Results, err
}

func queuePath(name, below string) string { return "/v1/queues/" + url.PathEscape(name) + below }

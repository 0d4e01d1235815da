package client

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

// Take takes deliveries of a queue, or of the endpoint of kind pull with this id. It
// returns none if there is none within t.Wait. A delivery comes again when its lease
// ends, unless Settle reports its outcome before.
func (c *Client) Take(ctx context.Context, queue string, t wire.Take) ([]wire.TakenDelivery, error) {
	got, err := send[wire.Taken](ctx, c, apiRequest{verb: "take", method: http.MethodPost, path: queuePath(queue, "/take"), patience: patience + time.Duration(t.Wait)}, t)
	return got.Data, err
}

// Settle reports the outcomes of at most 1000 taken deliveries. It is retried if all
// results name their leases.
func (c *Client) Settle(ctx context.Context, queue string, results []wire.Settlement) ([]wire.SettledDelivery, error) {
	q := apiRequest{verb: "settle", method: http.MethodPost, path: queuePath(queue, "/settle"), repeats: safe}
	for _, r := range results {
		if r.Lease == "" { // a retry could settle a lease that was taken since
			q.repeats = untaken
		}
	}
	out, err := send[wire.Settled](ctx, c, q, wire.Settle{Results: results})
	return out.Results, err
}

func queuePath(name, below string) string { return "/v1/queues/" + url.PathEscape(name) + below }

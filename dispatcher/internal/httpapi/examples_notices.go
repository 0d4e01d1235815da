package httpapi

import (
	"strings"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

// exampleCallbackBody is the body of a callback.
var exampleCallbackBody = map[string]any{"order": 4711, "amount": "12.50", "currency": "EUR"}

// exampleCSV returns a page of deliveries as CSV.
func exampleCSV() string {
	var b strings.Builder
	if err := wire.WriteDeliveries(&b, []wire.Delivery{dead}); err != nil {
		panic(err) // a strings.Builder can't fail
	}
	return b.String()
}

// exampleNotice returns the body of a notice.
func exampleNotice(topic string) wire.Notice {
	n := wire.Notice{Type: topic, At: at(800)}
	switch word := strings.TrimPrefix(topic, "hookladder."); word {
	case "store.unhealthy", "egress.unhealthy":
		n.State, n.Since, n.Reason = "unhealthy", at(790), map[string]string{"store.unhealthy": "unreachable", "egress.unhealthy": "resolver"}[word]
	case "store.healthy", "egress.healthy":
		n.State, n.Since = "healthy", at(790)
	case "instance.lost":
		n.State, n.Count = "lost", 12
	case "job.ended":
		n.State, n.Job, n.Kind, n.Done, n.Failed, n.Left = "done", "job_1", "retry", new(16), new(0), new(1)
	default:
		n.Tenant, n.Endpoint, n.UID, n.Destination, n.Origin, n.Waiting = tenant, endpoint, uid, endpoint, "https://shop.example", new(4)
		switch word {
		case "endpoint.failing":
			n.State, n.Since, n.LastStatusCode = "failing", at(-21600), 500
		case "endpoint.recovered":
			n.State, n.Reason = "active", "changed"
		case "endpoint.disabled":
			n.State, n.Reason, n.LastStatusCode = "disabled", "gone", 410
		case "lane.opened":
			n.State, n.Since, n.Reason, n.LastStatusCode = "open", at(780), "breaker", 500
		case "lane.closed":
			n.State, n.Since = "active", at(780)
		case "delivery.dead":
			n.Reason, n.Count, n.LastStatusCode = "exhausted", 1, 500
		}
	}
	return n
}

package archive_test

import (
	"fmt"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
)

// Fold computes from the log which deliveries are unfinished.
func ExampleFold() {
	noon := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	paid := dispatcher.DeliveryID{Lane: "ep_k3v9x2m7q", Message: "order_17"}
	sent := dispatcher.DeliveryID{Lane: "ep_k3v9x2m7q", Message: "order_18"}
	accepted := func(id dispatcher.DeliveryID, pos int64) archive.Accepted {
		return archive.Accepted{
			ID: id.Message, Lanes: []dispatcher.Lane{id.Lane}, Pos: pos, At: noon,
			Message: &dispatcher.Message{ID: id.Message, Topic: "order.paid"},
		}
	}
	part := archive.Part{
		Epoch:    "e1",
		Accepted: []archive.Accepted{accepted(paid, 1), accepted(sent, 2)},
		Events: []archive.Event{
			{ID: paid, Pos: 3, Kind: archive.Delivered, Attempt: dispatcher.Attempt{Number: 1, At: noon}},
			{ID: sent, Pos: 4, Kind: archive.Retry, Attempt: dispatcher.Attempt{Number: 1, At: noon}, At: noon, Wait: 15 * time.Second},
		},
	}
	for _, open := range archive.Fold([]archive.Part{part}, nil).Open {
		fmt.Println(open.ID, open.Attempts, open.Due.Format(time.TimeOnly))
	}
	// Output: ep_k3v9x2m7q:order_18 1 12:00:15
}

func ExampleParsePosition() {
	older, err := archive.ParsePosition("1764158400000-9")
	if err != nil {
		panic(err)
	}
	newer, err := archive.ParsePosition("1764158400000-10")
	if err != nil {
		panic(err)
	}
	fmt.Println(newer.After(older), newer)
	// Output: true 1764158400000-10
}

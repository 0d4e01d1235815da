package explain_test

import (
	"fmt"
	"time"

	"github.com/hookladder/hookladder/dispatcher/explain"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// exhausted is a delivery that died at the top of its ladder.
var exhausted = wire.Delivery{
	DeliveryRef: wire.DeliveryRef{
		ID: "ep_k3v9x2m7q:order_17", Destination: "ep_k3v9x2m7q", URL: "https://shop.example/hooks", Status: "dead",
	},
	Attempts: 10, DeadReason: "exhausted", LastError: "response 500",
}

func ExampleSentence() {
	fmt.Println(explain.Sentence(explain.Facts{
		Delivery: exhausted, For: explain.Merchant, Now: time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC),
	}))
	// Output: ep_k3v9x2m7q:order_17 died after 10 attempts, the last of its ladder (response 500); once shop.example answers again, “Send again” starts a new ladder
}

// The cure for a terminal is a command.
func ExampleStanding() {
	how, cure := explain.Standing(explain.Facts{
		Delivery: exhausted, For: explain.Terminal, Now: time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC),
	})
	fmt.Printf("%s.\n%s.\n", how, cure)
	// Output:
	// died after 10 attempts, the last of its ladder (response 500).
	// once shop.example answers again, `hookladder retry order_17 --destination ep_k3v9x2m7q` starts a new ladder.
}

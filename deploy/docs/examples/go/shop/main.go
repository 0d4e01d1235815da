// Command shop is a small shop that publishes each paid order through Hookladder.
//
//	HOOKLADDER_URL=http://127.0.0.1:8080 go run ./deploy/docs/examples/go/shop
//	curl -X POST http://127.0.0.1:7000/merchants/7/orders/17/paid
package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"

	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

func main() {
	hooks, err := client.New(os.Getenv("HOOKLADDER_URL"), os.Getenv("HOOKLADDER_KEY"))
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("POST /merchants/{merchant}/orders/{order}/paid", paid(hooks))
	listener, err := net.Listen("tcp", cmp.Or(os.Getenv("LISTEN"), "127.0.0.1:7000"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("listening on http://%s\n", listener.Addr())
	log.Fatal(http.Serve(listener, mux))
}

// paid records that an order was paid, and publishes it to the endpoints of its merchant.
func paid(hooks *client.Client) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		merchant, order := r.PathValue("merchant"), r.PathValue("order")
		body, err := json.Marshal(map[string]string{"order": order, "state": "paid"})
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		// A real shop updates its database first. If both must happen or none, it
		// publishes inside that transaction with package outbox.
		published, err := hooks.Publish(r.Context(), &wire.Message{
			ID:      "order_" + order + "_paid", // the same order is never announced twice
			Topic:   "order.paid",
			Tenant:  "merchant-" + merchant, // one without an endpoint is an error
			Subject: "order-" + order,
			Body:    body,
		})
		var problem *client.Problem
		switch {
		case errors.As(err, &problem) && problem.Status < http.StatusInternalServerError:
			http.Error(w, err.Error(), http.StatusUnprocessableEntity) // it will fail again
		case err != nil:
			http.Error(w, err.Error(), http.StatusServiceUnavailable) // call again later
		default:
			fmt.Fprintln(w, published.ID)
		}
	}
}

package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

func Example() {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusAccepted)
		fmt.Fprint(w, `{"id":"order-7-paid","matched":1}`)
	}))
	defer srv.Close()

	c, err := client.New(srv.URL, "")
	if err != nil {
		fmt.Println(err)
		return
	}
	answer, err := c.Publish(context.Background(), &wire.Message{
		ID:    "order-7-paid",
		Topic: "payment.paid",
		URL:   "https://shop.example/hooks",
		Body:  json.RawMessage(`{"amount":12345678901234567890}`),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(answer.ID, answer.Duplicate)
	// Output: order-7-paid false
}

func ExampleClient_CreateEndpoint() {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, `{"id":"ep_k3v9x2m7q","uid":"merchant-7","state":"active"}`)
	}))
	defer srv.Close()

	c, err := client.New(srv.URL, "")
	if err != nil {
		fmt.Println(err)
		return
	}
	endpoint, created, err := c.CreateEndpoint(context.Background(), &wire.Endpoint{
		UID:    "merchant-7",
		Tenant: "merchant-7",
		URL:    "https://shop.example/hooks",
		Topics: []string{"payment.*"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(endpoint.ID, endpoint.State, created)
	// Output: ep_k3v9x2m7q active true
}

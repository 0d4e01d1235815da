package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// ExampleClient_Publish shows a publish whose first answer is lost.
func ExampleClient_Publish() {
	var ids []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m wire.Message
		_ = json.NewDecoder(r.Body).Decode(&m)
		if ids = append(ids, m.ID); len(ids) == 1 {
			panic(http.ErrAbortHandler)
		}
		fmt.Fprintf(w, `{"id":%q,"matched":1}`, m.ID)
	}))
	defer srv.Close()

	c, err := client.New(srv.URL, "", client.WithRepeats(client.Repeats{Tries: 3, Within: 10 * time.Second}))
	if err != nil {
		fmt.Println(err)
		return
	}
	answer, err := c.Publish(context.Background(), &wire.Message{
		Topic: "payment.paid",
		URL:   "https://shop.example/hooks",
		Body:  json.RawMessage(`{"amount":100}`),
	})
	if err != nil {
		fmt.Println("publish it later with the ID", answer.ID, err)
		return
	}
	fmt.Println(len(ids), ids[0] == ids[1], answer.ID == ids[0])
	// Output: 2 true true
}

// ExampleClient_EachDelivery goes through all that is dead, page by page.
func ExampleClient_EachDelivery() {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("cursor") == "" {
			fmt.Fprint(w, `{"data":[{"id":"u_1:order-7","dead_reason":"exhausted"}],"next_cursor":"c1"}`)
			return
		}
		fmt.Fprint(w, `{"data":[{"id":"u_1:order-3","dead_reason":"gone"}],"next_cursor":null}`)
	}))
	defer srv.Close()

	c, err := client.New(srv.URL, "")
	if err != nil {
		fmt.Println(err)
		return
	}
	for d, err := range c.EachDelivery(context.Background(), client.Filter{Statuses: []string{"dead"}}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(d.ID, d.DeadReason)
	}
	// Output:
	// u_1:order-7 exhausted
	// u_1:order-3 gone
}

// ExampleProblem tells refusals apart.
func ExampleProblem() {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusUnprocessableEntity)
		fmt.Fprint(w, `{"type":"/problems/invalid","title":"Some fields are wrong","errors":[{"path":"$.topic","detail":"is missing"}]}`)
	}))
	defer srv.Close()

	c, err := client.New(srv.URL, "")
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = c.Publish(context.Background(), &wire.Message{URL: "https://shop.example/hooks"})
	var p *client.Problem
	switch {
	case errors.Is(err, client.ErrNotFound):
		fmt.Println("there is no such thing")
	case errors.As(err, &p):
		for _, field := range p.Errors {
			fmt.Println(p.Type, field.Path, field.Detail)
		}
	case errors.Is(err, client.ErrUnreachable):
		fmt.Println("it may have been taken")
	}
	// Output: /problems/invalid $.topic is missing
}

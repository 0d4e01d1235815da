// The program uses the client that is generated from the document, as a user would.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
)

func main() {
	if err := run(context.Background(), os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, url, key string) error {
	c, err := NewClientWithResponses(url, WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+key)
		return nil
	}))
	if err != nil {
		return err
	}
	id, tenant, to := "from-go", "m7", "https://shop.example/hooks"
	var body any = map[string]any{"order": 4711}
	published, err := c.PublishWithResponse(ctx, nil, PublishJSONRequestBody{Id: &id, Topic: "payment.paid", Tenant: &tenant, Url: &to, Body: &body})
	if err != nil {
		return err
	}
	if published.JSON202 == nil || published.JSON202.Id != id || len(published.JSON202.Deliveries) != 1 {
		return fmt.Errorf("publish: %s", published.Body)
	}
	read, err := c.GetMessageWithResponse(ctx, id)
	if err != nil {
		return err
	}
	if read.JSON200 == nil || read.JSON200.Topic != "payment.paid" {
		return fmt.Errorf("read: %s", read.Body)
	}
	missing, err := c.GetMessageWithResponse(ctx, "missing")
	if err != nil {
		return err
	}
	if p := missing.ApplicationproblemJSON404; p == nil || p.Type != ProblemsnotFound {
		return fmt.Errorf("a missing message was read: %s", missing.Body)
	}
	fmt.Println(published.JSON202.Id)
	return nil
}

package main

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// publishDemo publishes one message to each path of the receiver.
func (p playground) publishDemo(ctx context.Context, api, receiver string) error {
	c, err := client.New("http://"+api, p.flags.key)
	if err != nil {
		return err
	}
	for _, path := range demoPaths {
		name := strings.TrimPrefix(path, "/")
		_, err := c.Publish(ctx, &wire.Message{
			ID:    "demo_" + name,
			Topic: "demo." + name,
			URL:   "http://" + receiver + path,
			Body:  json.RawMessage(`{"amount":100}`),
		})
		if err != nil {
			return err
		}
	}
	return nil
}

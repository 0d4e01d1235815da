package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/signer"
)

// demoEndpoint is an endpoint of a merchant, at a path of the receiver.
type demoEndpoint struct {
	uid, tenant, path, description string
	topics                         []string
}

var demoEndpoints = []demoEndpoint{
	{"demo-acorn-orders", "acorn-books", "/ok", "Order system", []string{"payment.*", "refund.*"}},
	{"demo-acorn-books", "acorn-books", "/fail", "Bookkeeping", []string{"payment.*"}},
	{"demo-birch-till", "birch-coffee", "/flaky", "Till", []string{"payment.*"}},
}

// demoNotifications are published one after the other, every few seconds, so a person can
// watch them.
var demoNotifications = []struct {
	tenant, topic, subject string
	amount                 int
}{
	{"acorn-books", "payment.paid", "order-1001", 2490},
	{"birch-coffee", "payment.paid", "order-2001", 380},
	{"acorn-books", "payment.paid", "order-1002", 1250},
	{"birch-coffee", "payment.paid", "order-2002", 720},
	{"acorn-books", "refund.created", "order-1001", 2490},
	{"birch-coffee", "payment.paid", "order-2003", 460},
	{"acorn-books", "payment.paid", "order-1003", 6900},
}

// notifyEvery is the time between two notifications.
const notifyEvery = 4 * time.Second

// publishMerchants creates the endpoints of two merchants, and publishes to them. If the key is not
// allowed to create endpoints, it does nothing.
func publishMerchants(ctx context.Context, c *client.Client, receiver string, secret signer.Secret) error {
	for _, e := range demoEndpoints {
		err := registerDemo(ctx, c, e, receiver, secret)
		if errors.Is(err, client.ErrDenied) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	for i, n := range demoNotifications {
		body, err := json.Marshal(map[string]any{"order": n.subject, "amount": n.amount, "currency": "EUR"})
		if err != nil {
			return err
		}
		_, err = c.Publish(ctx, &wire.Message{
			ID:     fmt.Sprintf("%s_%s_%d", n.tenant, n.subject, i+1),
			Tenant: n.tenant, Topic: n.topic, Subject: n.subject, Body: body, Delay: wire.Duration(time.Duration(i) * notifyEvery),
		})
		if err != nil && !errors.Is(err, client.ErrConflict) { // a message of an earlier run, in DATA_DIR
			return err
		}
	}
	return nil
}

// registerDemo creates an endpoint. If it exists from an earlier run, it gets the new secret.
func registerDemo(ctx context.Context, c *client.Client, e demoEndpoint, receiver string, secret signer.Secret) error {
	_, _, err := c.CreateEndpoint(ctx, &wire.Endpoint{
		UID: e.uid, Tenant: e.tenant, Topics: e.topics, Description: e.description, URL: "http://" + receiver + e.path, Secret: secret.Reveal(),
	})
	if !errors.Is(err, client.ErrConflict) {
		return err
	}
	_, err = c.RotateSecret(ctx, e.uid, wire.Rotation{Secret: secret.Reveal(), Overlap: new(wire.Duration)})
	if errors.Is(err, client.ErrInvalid) { // it has this secret already
		return nil
	}
	return err
}

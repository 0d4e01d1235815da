// Package why asks the API how a message's deliveries stand, and what helps.
package why

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/explain"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// Answer are the sentences about a message's deliveries.
type Answer struct {
	ID         string     `json:"id"`
	Deliveries []Standing `json:"deliveries"`
}

// Standing is how one delivery stands.
type Standing struct {
	ID          string `json:"id"`
	Destination string `json:"destination"`
	Status      string `json:"status"`
	Why         string `json:"why"`
}

// lanesAtOnce is how many destinations the API takes in one call.
const lanesAtOnce = 100

// Ask reads a message and what its deliveries wait for, or only the one to destination
// where that is not empty. dispatcher.ErrNoDelivery says that it does not go there.
func Ask(ctx context.Context, c *client.Client, id, destination string) (Answer, error) {
	m, err := c.Message(ctx, id)
	if err != nil {
		return Answer{}, err
	}
	if destination != "" {
		if m.Deliveries, err = only(ctx, c, m, destination); err != nil {
			return Answer{}, err
		}
	}
	lanes, err := lanesOf(ctx, c, m.Deliveries)
	if err != nil {
		return Answer{}, err
	}
	var instances wire.InstancePage
	if slices.ContainsFunc(m.Deliveries, func(d wire.Delivery) bool { return d.WaitingFor == "permits" }) {
		if instances, err = c.Instances(ctx, 0, ""); err != nil {
			return Answer{}, err
		}
	}
	a := Answer{ID: m.ID, Deliveries: make([]Standing, len(m.Deliveries))}
	for i, d := range m.Deliveries {
		facts := explain.Facts{Delivery: d, Lane: lanes[d.Destination], Queue: m.Queue, Expires: m.ExpiresAt, Instances: instances.Data, Now: time.Now()}
		a.Deliveries[i] = Standing{ID: d.ID, Destination: d.Destination, Status: d.Status, Why: explain.Sentence(facts)}
	}
	return a, nil
}

// only is the delivery to a lane, an endpoint, or a URL of the message's tenant.
func only(ctx context.Context, c *client.Client, m wire.MessageView, destination string) ([]wire.Delivery, error) {
	to := []string{destination}
	if !slices.ContainsFunc(m.Deliveries, func(d wire.Delivery) bool { return d.Destination == destination }) {
		tenant := ""
		if strings.Contains(destination, "://") {
			tenant = m.Tenant
		}
		page, err := c.LanesOf(ctx, tenant, destination)
		if err != nil {
			return nil, err
		}
		for _, lane := range page.Data {
			to = append(to, lane.Lane)
		}
	}
	list := slices.DeleteFunc(m.Deliveries, func(d wire.Delivery) bool { return !slices.Contains(to, d.Destination) })
	if len(list) == 0 {
		return nil, fmt.Errorf("message %s: %w: `hookladder get %s` tells where it goes", m.ID, dispatcher.ErrNoDelivery, m.ID)
	}
	return list, nil
}

// lanesOf reads the lanes of the deliveries.
func lanesOf(ctx context.Context, c *client.Client, list []wire.Delivery) (map[string]*wire.LaneState, error) {
	var names []string
	for _, d := range list {
		names = append(names, d.Destination)
	}
	lanes := make(map[string]*wire.LaneState, len(names))
	for some := range slices.Chunk(names, lanesAtOnce) {
		page, err := c.LanesOf(ctx, "", some...)
		if err != nil {
			return nil, err
		}
		for i, lane := range page.Data {
			lanes[lane.Lane] = &page.Data[i]
		}
	}
	return lanes, nil
}

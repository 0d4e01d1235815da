package queueprom_test

import (
	"context"
	"fmt"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/hookladder/hookladder/dispatcher/queue"
	"github.com/hookladder/hookladder/dispatcher/queue/queueprom"
)

func ExampleRegister() {
	store := miniredis.NewMiniRedis() // a real Redis keeps what was published
	if err := store.Start(); err != nil {
		panic(err)
	}
	defer store.Close()
	ctx := context.Background()
	q, err := queue.Open(ctx, "redis://"+store.Addr(), queue.Options{Forgetful: true})
	if err != nil {
		panic(err)
	}
	defer q.Close()
	q.Handle("mail", func(context.Context, queue.Delivery) error { return nil })
	reg := prometheus.NewRegistry() // or prometheus.DefaultRegisterer
	if err := queueprom.Register(reg, q); err != nil {
		panic(err)
	}
	if _, err := q.Publish(ctx, queue.Task{Queue: "mail", Topic: "mail.welcome"}); err != nil {
		panic(err)
	}
	families, err := reg.Gather() // promhttp.HandlerFor(reg, …) serves them
	if err != nil {
		panic(err)
	}
	for _, f := range families {
		fmt.Println(f.GetName(), f.GetMetric()[0].GetGauge().GetValue())
	}
	// Output:
	// hookladder_queue_dead 0
	// hookladder_queue_in_flight 0
	// hookladder_queue_paused 0
	// hookladder_queue_up 1
	// hookladder_queue_waiting 1
}

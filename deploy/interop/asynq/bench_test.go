// Package asynq compares Hookladder's queues with github.com/hibiken/asynq.
package asynq

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/dispatcher/queue"
)

var (
	tasks   = flag.Int("tasks", 20_000, "tasks of one drain")
	pairs   = flag.Int("pairs", 5, "drains of each, by turns")
	workers = flag.Int("workers", 128, "handlers that run at once, in both")
	keep    = flag.Bool("keep", false, "have asynq keep what is done for a day, as Hookladder does")
)

// BenchmarkRatio drains as many tasks with a handler that does nothing through both, by turns,
// on one core and the same Redis. It prints the rate of each, and the median of the pairs'
// ratios. It fails if the median is below 2. Run it once, with -benchtime 1x.
func BenchmarkRatio(b *testing.B) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	redis, err := kit.StartRedis(b.Context(), kit.RedisOptions{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer redis.Process.Kill()
	var ratios []float64
	for i := range *pairs {
		ours := drainOurs(b, redis.URL(), fmt.Sprintf("p%d", i))
		theirs := drainAsynq(b, redis.URL(), fmt.Sprintf("q%d", i))
		ratios = append(ratios, ours/theirs)
		fmt.Fprintf(os.Stderr, "pair %d: hookladder %.0f/s, asynq %.0f/s, ratio %.2f\n", i+1, ours, theirs, ours/theirs)
	}
	slices.Sort(ratios)
	median := ratios[len(ratios)/2]
	b.ReportMetric(median, "median-ratio")
	if median < 2 {
		b.Errorf("the ratio is %.2f, at least 2 is promised", median)
	}
}

// counter ends a drain with its last task.
type counter struct {
	left atomic.Int64
	done chan struct{}
}

func newCounter() *counter {
	c := &counter{done: make(chan struct{})}
	c.left.Store(int64(*tasks))
	return c
}

func (c *counter) count() {
	if c.left.Add(-1) == 0 {
		close(c.done)
	}
}

// rate is how many a second were handled since began.
func (c *counter) rate(began time.Time) float64 {
	<-c.done
	return float64(*tasks) / time.Since(began).Seconds()
}

// publish calls one function for each task, from several goroutines.
func publish(t testing.TB, one func(n int) error) {
	t.Helper()
	var all sync.WaitGroup
	for k := range 64 {
		all.Go(func() {
			for n := k; n < *tasks; n += 64 {
				if err := one(n); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

var body = map[string]any{"order": 4711, "amount": 100}

func drainOurs(t testing.TB, url, project string) float64 {
	t.Helper()
	ctx := context.Background()
	q, err := queue.Open(ctx, url, queue.Options{Project: project, Workers: *workers})
	if err != nil {
		t.Fatal(err)
	}
	publish(t, func(int) error {
		_, err := q.Publish(ctx, queue.Task{Queue: "work", Topic: "test", Body: body})
		return err
	})
	c := newCounter()
	q.Handle("work", func(context.Context, queue.Delivery) error {
		c.count()
		return nil
	})
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	began := time.Now()
	go func() { ended <- q.Run(running) }()
	rate := c.rate(began)
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	return rate
}

// quiet logs nothing.
type quiet struct{}

func (quiet) Debug(...any) {}
func (quiet) Info(...any)  {}
func (quiet) Warn(...any)  {}
func (quiet) Error(...any) {}
func (quiet) Fatal(args ...any) {
	panic(fmt.Sprint(args...))
}

func drainAsynq(t testing.TB, url, name string) float64 {
	t.Helper()
	at, err := asynq.ParseRedisURI(url)
	if err != nil {
		t.Fatal(err)
	}
	client := asynq.NewClient(at)
	defer client.Close()
	options := []asynq.Option{asynq.Queue(name)}
	if *keep {
		options = append(options, asynq.Retention(24*time.Hour))
	}
	payload := []byte(`{"amount":100,"order":4711}`)
	publish(t, func(int) error {
		_, err := client.Enqueue(asynq.NewTask("work", payload), options...)
		return err
	})
	c := newCounter()
	server := asynq.NewServer(at, asynq.Config{Concurrency: *workers, Queues: map[string]int{name: 1}, Logger: quiet{}})
	mux := asynq.NewServeMux()
	mux.HandleFunc("work", func(context.Context, *asynq.Task) error {
		c.count()
		return nil
	})
	began := time.Now()
	if err := server.Start(mux); err != nil {
		t.Fatal(err)
	}
	rate := c.rate(began)
	server.Shutdown()
	return rate
}

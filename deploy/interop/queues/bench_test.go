// Package queues compares Hookladder's queues with github.com/hibiken/asynq,
// github.com/riverqueue/river and BullMQ.
package queues

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/deploy/kit/pgtest"
	"github.com/hookladder/hookladder/dispatcher/queue"
)

var (
	tasks   = flag.Int("tasks", 10_000, "tasks of one drain")
	rounds  = flag.Int("rounds", 5, "drains of each, by turns")
	workers = flag.Int("workers", 128, "handlers that run at once, in all")
	keep    = flag.Bool("keep", false, "have asynq keep what is done for a day, as the others do")
)

// batch is how many tasks are published at once where a row says so.
const batch = 100

// figures are of one drain: the tasks handled a second, and CPU µs for each task.
type figures struct{ rate, publish, handle, store float64 }

// BenchmarkRatio publishes as many tasks through each queue, and drains them with a handler
// that does nothing, by turns, on one core. Hookladder, asynq and BullMQ have the same Redis, and River a
// PostgreSQL that does not wait for its disk. It prints the medians, and fails if the median
// of the ratios of the rates of Hookladder and asynq is below 2. Run it once, with -benchtime 1x.
func BenchmarkRatio(b *testing.B) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	redis, err := kit.StartRedis(b.Context(), kit.RedisOptions{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer redis.Process.Kill()
	redisCPU := func() float64 {
		micros, _ := kit.CPU(redis.Process.Pid())
		return micros
	}
	kinds := []struct {
		name  string
		drain func(round int) figures
	}{
		{"hookladder", func(n int) figures { return drainOurs(b, redis.URL(), fmt.Sprintf("o%d", n), 1, redisCPU) }},
		{"asynq", func(n int) figures { return drainAsynq(b, redis.URL(), fmt.Sprintf("a%d", n), redisCPU) }},
		{"bullmq", func(n int) figures { return drainBullMQ(b, redis.Port, fmt.Sprintf("m%d", n), redisCPU) }},
		{"river", func(int) figures { return drainRiver(b, 1) }},
		{"hookladder, batches", func(n int) figures { return drainOurs(b, redis.URL(), fmt.Sprintf("b%d", n), batch, redisCPU) }},
		{"river, batches", func(int) figures { return drainRiver(b, batch) }},
	}
	all := make([][]figures, len(kinds))
	var ratios []float64
	for n := range *rounds {
		for i, kind := range kinds {
			f := kind.drain(n)
			all[i] = append(all[i], f)
			fmt.Fprintf(os.Stderr, "round %d: %-20s %6.0f/s, CPU of a task: publish %4.0f µs, handle %4.0f, store %4.0f\n", n+1, kind.name, f.rate, f.publish, f.handle, f.store)
		}
		ratios = append(ratios, all[0][n].rate/all[1][n].rate)
	}
	for i, kind := range kinds {
		of := func(get func(figures) float64) float64 {
			var values []float64
			for _, f := range all[i] {
				values = append(values, get(f))
			}
			return median(values)
		}
		fmt.Fprintf(os.Stderr, "median:  %-20s %6.0f/s, CPU of a task: publish %4.0f µs, handle %4.0f, store %4.0f, all %4.0f\n", kind.name,
			of(func(f figures) float64 { return f.rate }), of(func(f figures) float64 { return f.publish }), of(func(f figures) float64 { return f.handle }),
			of(func(f figures) float64 { return f.store }), of(func(f figures) float64 { return f.publish + f.handle + f.store }))
	}
	b.ReportMetric(median(ratios), "median-ratio")
	if median(ratios) < 2 {
		b.Errorf("the ratio is %.2f, at least 2 is promised", median(ratios))
	}
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

// meter measures a drain: the tasks are published between newMeter and published, and handled
// between published and end.
type meter struct {
	store        func() float64
	storeBegan   float64
	own, publish float64
	left         atomic.Int64
	done         chan struct{}
	began        time.Time
}

func newMeter(store func() float64) *meter {
	m := &meter{store: store, storeBegan: store(), done: make(chan struct{})}
	m.left.Store(int64(*tasks))
	m.own, _ = kit.CPU(0)
	return m
}

func (m *meter) published() {
	now, _ := kit.CPU(0)
	m.publish, m.own = now-m.own, now
	m.began = time.Now()
}

// count ends the drain with its last task.
func (m *meter) count() {
	if m.left.Add(-1) == 0 {
		close(m.done)
	}
}

func (m *meter) end() figures {
	<-m.done
	took := time.Since(m.began)
	now, _ := kit.CPU(0)
	n := float64(*tasks)
	return figures{rate: n / took.Seconds(), publish: m.publish / n, handle: (now - m.own) / n, store: (m.store() - m.storeBegan) / n}
}

// publish calls one function for each task, or for each batch of them, from several goroutines.
func publish(t testing.TB, each int, one func() error) {
	t.Helper()
	var all sync.WaitGroup
	for k := range 64 {
		all.Go(func() {
			for n := k; n < *tasks/each; n += 64 {
				if err := one(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

var body = map[string]any{"order": 4711, "amount": 100}

func drainOurs(t testing.TB, url, project string, each int, store func() float64) figures {
	t.Helper()
	ctx := context.Background()
	q, err := queue.Open(ctx, url, queue.Options{Project: project, Workers: *workers})
	if err != nil {
		t.Fatal(err)
	}
	m := newMeter(store)
	task := queue.Task{Queue: "work", Topic: "test", Body: body}
	publish(t, each, func() error {
		if each == 1 {
			_, err := q.Publish(ctx, task)
			return err
		}
		results, err := q.PublishBatch(ctx, slices.Repeat([]queue.Task{task}, each))
		for _, r := range results {
			if r.Err != nil {
				return r.Err
			}
		}
		return err
	})
	q.Handle("work", func(context.Context, queue.Delivery) error {
		m.count()
		return nil
	})
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	m.published()
	go func() { ended <- q.Run(running) }()
	f := m.end()
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	return f
}

func drainAsynq(t testing.TB, url, name string, store func() float64) figures {
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
	m := newMeter(store)
	publish(t, 1, func() error {
		_, err := client.Enqueue(asynq.NewTask("work", payload), options...)
		return err
	})
	server := asynq.NewServer(at, asynq.Config{Concurrency: *workers, Queues: map[string]int{name: 1}, LogLevel: asynq.FatalLevel})
	mux := asynq.NewServeMux()
	mux.HandleFunc("work", func(context.Context, *asynq.Task) error {
		m.count()
		return nil
	})
	m.published()
	if err := server.Start(mux); err != nil {
		t.Fatal(err)
	}
	f := m.end()
	server.Shutdown()
	return f
}

// drainBullMQ measures a program of its own, of which all runs in one thread. Its packages are there after npm ci.
func drainBullMQ(t testing.TB, port int, name string, store func() float64) figures {
	t.Helper()
	began := store()
	cmd := exec.CommandContext(t.Context(), "node", "bullmq.mjs", strconv.Itoa(port), name, strconv.Itoa(*tasks), strconv.Itoa(*workers))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var took struct {
		Publish, Handle struct{ Seconds, CPU float64 }
	}
	if err := json.Unmarshal(out, &took); err != nil {
		t.Fatal(err)
	}
	n := float64(*tasks)
	return figures{rate: n / took.Handle.Seconds, publish: took.Publish.CPU / n, handle: took.Handle.CPU / n, store: (store() - began) / n}
}

// orderArgs are the arguments of River's job.
type orderArgs struct {
	Order  int `json:"order"`
	Amount int `json:"amount"`
}

// Kind names the job.
func (orderArgs) Kind() string { return "work" }

func drainRiver(t testing.TB, each int) figures {
	t.Helper()
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, pgtest.New(t)+"&pool_max_conns=32")
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	driver := riverpgxv5.New(pool)
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		t.Fatal(err)
	}
	m := newMeter(postgresCPU(t, pool))
	workFuncs := river.NewWorkers()
	river.AddWorker(workFuncs, river.WorkFunc(func(context.Context, *river.Job[orderArgs]) error {
		m.count()
		return nil
	}))
	client, err := river.NewClient(driver, &river.Config{
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: *workers}}, Workers: workFuncs, Logger: slog.New(slog.DiscardHandler),
		FetchCooldown: time.Millisecond, // it would fetch ten times a second at most
	})
	if err != nil {
		t.Fatal(err)
	}
	args := orderArgs{Order: 4711, Amount: 100}
	publish(t, each, func() error {
		if each == 1 {
			_, err := client.Insert(ctx, args, nil)
			return err
		}
		_, err := client.InsertMany(ctx, slices.Repeat([]river.InsertManyParams{{Args: args}}, each))
		return err
	})
	m.published()
	if err := client.Start(ctx); err != nil {
		t.Fatal(err)
	}
	f := m.end()
	if err := client.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	return f
}

// postgresCPU returns the CPU time of all processes of the server.
func postgresCPU(t testing.TB, pool *pgxpool.Pool) func() float64 {
	t.Helper()
	var backend int
	if err := pool.QueryRow(context.Background(), "select pg_backend_pid()").Scan(&backend); err != nil {
		t.Fatal(err)
	}
	server := parent(backend)
	return func() (micros float64) {
		micros, _ = kit.Used(server) // and of those that have ended
		all, _ := filepath.Glob("/proc/[0-9]*")
		for _, dir := range all {
			if pid, _ := strconv.Atoi(filepath.Base(dir)); parent(pid) == server {
				used, _ := kit.Used(pid)
				micros += used
			}
		}
		return micros
	}
}

// parent returns the parent of a process; 0: it has ended.
func parent(pid int) int {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := bytes.Cut(text, []byte(") "))
	fields := bytes.Fields(rest)
	if len(fields) < 2 {
		return 0
	}
	of, _ := strconv.Atoi(string(fields[1]))
	return of
}

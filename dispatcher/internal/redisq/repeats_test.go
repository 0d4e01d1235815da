package redisq_test

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/engine"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
	"github.com/hookladder/hookladder/ladder"
	"github.com/hookladder/hookladder/signer"
)

// repeats publishes over many partitions, nothing of which is due.
type repeats struct {
	*trap
	dispatcher *engine.Engine
	calls      *scriptCalls
}

// scriptCalls counts the scripts that a publish calls; others go on beside it.
type scriptCalls struct {
	of    map[string]bool // by SHA-1
	calls atomic.Int64
}

func newScriptCalls() *scriptCalls {
	c := &scriptCalls{of: map[string]bool{}}
	for name, text := range redisq.ScriptTexts() {
		if slices.Contains([]string{"schedule", "digests", "look", "stand"}, name) {
			sum := sha1.Sum([]byte(text))
			c.of[hex.EncodeToString(sum[:])] = true
		}
	}
	return c
}

func (c *scriptCalls) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (c *scriptCalls) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (c *scriptCalls) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			if args := cmd.Args(); len(args) > 1 && cmd.Name() == "evalsha" && c.of[fmt.Sprint(args[1])] {
				c.calls.Add(1)
			}
		}
		return next(ctx, cmds)
	}
}

func newRepeats(t *testing.T, partitions int) *repeats {
	t.Helper()
	store := openTestStore(t, redisq.Options{
		URL: redisqtest.PatientURL(redistest.Start(t)), Project: "repeats", Partitions: partitions,
		LaneMaxInFlight: 128, Permits: 1024, Log: slog.New(slog.DiscardHandler),
	})
	calls := newScriptCalls()
	store.Client().AddHook(calls)
	queue := store.Queue()
	d, err := engine.New(engine.Queue{Deliveries: queue, Reads: queue.Deliveries, Instances: queue, Store: queue, Lanes: queue, LaneReads: queue.LaneReader}, nil, engine.Options{
		Instance: "one", Secrets: []signer.Secret{signer.NewSecret()}, Ladder: ladder.Default(), Timeout: time.Second,
		ClaimBatch: 64, PollEvery: time.Minute, Grace: time.Second,
		Keep:      dispatcher.Keep{Finished: time.Hour, FinishedMax: 1000, SeenMax: 1000, Dead: time.Hour, DeadMax: 1000},
		Endpoints: store, Log: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	r := &repeats{trap: &trap{TB: t, store: store}, dispatcher: d, calls: calls}
	one := dueLater("first") // afterwards Redis knows the scripts
	one.URL = "https://first.example/"
	r.publish(one)
	r.publish(one)
	return r
}

// publish answers what became of messages, and how many scripts that took.
func (r *repeats) publish(batch ...*dispatcher.Message) (out []dispatcher.Published, scripts int) {
	r.Helper()
	again := make([]*dispatcher.Message, len(batch))
	for i, m := range batch {
		own := *m
		again[i] = &own
	}
	before := r.calls.calls.Load()
	out, err := r.dispatcher.Publish(r.Context(), again)
	require.NoError(r, err)
	for _, p := range out {
		require.NoError(r, p.Err)
	}
	return out, int(r.calls.calls.Load() - before)
}

// mustAgree has what a repeat answered be what a look tells.
func (r *repeats) mustAgree(id string, p dispatcher.Published) {
	r.Helper()
	record, err := r.dispatcher.Message(r.Context(), id)
	require.NoError(r, err)
	require.Equal(r, dispatcher.Duplicate, p.Result)
	require.Equal(r, record.Message.CreatedAt, p.CreatedAt)
	require.Len(r, p.Deliveries, len(record.Deliveries))
	for i, d := range record.Deliveries {
		require.Equal(r, publicOf(d), publicOf(p.Deliveries[i]))
	}
}

// publicOf is what the answer to a publish says of a delivery.
func publicOf(d dispatcher.Delivery) dispatcher.Delivery {
	return dispatcher.Delivery{ID: d.ID, URL: d.URL, Status: d.Status, Due: d.Due}
}

func dueLater(id string) *dispatcher.Message {
	return &dispatcher.Message{ID: id, Topic: "a.b", Body: []byte("{}"), ContentType: "application/json", Delay: time.Hour}
}

func TestARepeatCostsAtMostThreeTimesThePublish(t *testing.T) {
	for _, partitions := range []int{1, 128} {
		t.Run(fmt.Sprintf("%d partitions", partitions), func(t *testing.T) {
			t.Parallel()
			r := newRepeats(t, partitions)
			batch := make([]*dispatcher.Message, 1000)
			for i := range batch {
				batch[i] = dueLater(fmt.Sprintf("m%04d", i))
				batch[i].URL = fmt.Sprintf("https://h%d.example/%d", i, i)
			}
			_, first := r.publish(batch...)
			for range 2 {
				out, scripts := r.publish(batch...)
				require.LessOrEqual(t, scripts, 3*first, "of a batch")
				t.Logf("a batch: %d scripts, repeated %d", first, scripts)
				for i := 0; i < len(out); i += 50 {
					r.mustAgree(batch[i].ID, out[i])
				}
			}

			first = 0
			again := 0
			for i := range 50 {
				one := dueLater(fmt.Sprintf("one%d", i))
				one.URL = "https://one.example/"
				_, scripts := r.publish(one)
				first += scripts
				out, scripts := r.publish(one)
				again += scripts
				r.mustAgree(one.ID, out[0])
			}
			require.LessOrEqual(t, again, 3*first, "of single messages")
			t.Logf("single: %d scripts, repeated %d", first, again)
		})
	}
}

func TestARepeatOfAFanOutCostsAtMostThreeTimesThePublish(t *testing.T) {
	for _, partitions := range []int{1, 128} {
		t.Run(fmt.Sprintf("%d partitions", partitions), func(t *testing.T) {
			t.Parallel()
			r := newRepeats(t, partitions)
			var endpoints []dispatcher.EndpointView
			for i := range 150 {
				tenant := "many"
				if i < 2 {
					tenant = "few"
				}
				e, _, err := r.dispatcher.Registry().CreateEndpoint(t.Context(), &dispatcher.Endpoint{
					Tenant: tenant, URL: fmt.Sprintf("https://h%d.example/", i), Topics: []string{"*"},
				})
				require.NoError(t, err)
				endpoints = append(endpoints, e)
			}
			var batch []*dispatcher.Message
			for i := range 20 {
				batch = append(batch, dueLater(fmt.Sprintf("many%d", i)))
				batch[i].Tenant = "many"
			}
			_, first := r.publish(batch...)
			out, again := r.publish(batch...)
			require.LessOrEqual(t, again, 3*first)
			t.Logf("to many: %d scripts, repeated %d", first, again)
			for i := range batch {
				require.Len(t, out[i].Deliveries, 148)
				r.mustAgree(batch[i].ID, out[i])
			}

			few := dueLater("few")
			few.Tenant = "few"
			_, first = r.publish(few)
			out, again = r.publish(few)
			require.LessOrEqual(t, again, 3*first)
			t.Logf("to few: %d scripts, repeated %d", first, again)
			require.Len(t, out[0].Deliveries, 2)
			r.mustAgree("few", out[0])

			_, err := r.dispatcher.Registry().DeleteEndpoint(t.Context(), endpoints[0].ID)
			require.NoError(t, err)
			out, _ = r.publish(few)
			require.Len(t, out[0].Deliveries, 2, "also where it went and would not go by now")
			r.mustAgree("few", out[0])
			_, err = r.dispatcher.Registry().DeleteEndpoint(t.Context(), endpoints[1].ID)
			require.NoError(t, err)
			out, _ = r.publish(few)
			require.Len(t, out[0].Deliveries, 2, "and where nothing matches any more")
			r.mustAgree("few", out[0])
			few.Body = []byte(`"other"`)
			out, _ = r.publish(few)
			require.Equal(t, dispatcher.Conflict, out[0].Result)
		})
	}
}

func TestWhatMatchesNothingIsLookedForWithoutScripts(t *testing.T) {
	t.Parallel()
	r := newRepeats(t, 128)
	var batch []*dispatcher.Message
	for i := range 100 {
		batch = append(batch, dueLater(fmt.Sprintf("m%d", i)))
	}
	out, scripts := r.publish(batch...)
	require.Zero(t, scripts)
	for _, p := range out {
		require.Equal(t, dispatcher.Accepted, p.Result)
		require.Empty(t, p.Deliveries)
	}
}

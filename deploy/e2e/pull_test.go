package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// longPoll waits as long as a take may. Where a test expects something it gives up
// before, since the last thing that a take does is to ask once more.
const longPoll, soon = wire.Duration(30 * time.Second), 20 * time.Second

type took struct {
	data []wire.TakenDelivery
	err  error
}

// taker waits for deliveries of a queue, and tells what its take answered.
func taker(ctx context.Context, i *instance, queue string) <-chan took {
	done := make(chan took, 1)
	go func() {
		data, err := i.Take(ctx, queue, wire.Take{Wait: longPoll})
		done <- took{data, err}
	}()
	return done
}

// Take goes on while the instance may lease nothing: before its first beat.
func (i *instance) Take(ctx context.Context, queue string, t wire.Take) ([]wire.TakenDelivery, error) {
	for {
		data, err := i.Client.Take(ctx, queue, t)
		var refused *client.Problem
		if !errors.As(err, &refused) || refused.Status != http.StatusServiceUnavailable || ctx.Err() != nil {
			return data, err
		}
	}
}

func (i *instance) takeAll(queue string, lease time.Duration) []wire.TakenDelivery {
	i.t.Helper()
	data, err := i.Take(i.t.Context(), queue, wire.Take{Max: 100, Lease: wire.Duration(lease)})
	require.NoError(i.t, err)
	return data
}

// takeOne waits for the only delivery of a queue.
func (i *instance) takeOne(queue string, lease time.Duration) wire.TakenDelivery {
	i.t.Helper()
	ctx, cancel := context.WithTimeout(i.t.Context(), soon)
	defer cancel()
	data, err := i.Take(ctx, queue, wire.Take{Lease: wire.Duration(lease), Wait: longPoll})
	require.NoError(i.t, err)
	require.Len(i.t, data, 1)
	return data[0]
}

// settle says what became of one delivery, and answers the result and the status.
func (i *instance) settle(c *client.Client, queue string, r wire.Settlement) [2]string {
	i.t.Helper()
	out, err := c.Settle(i.t.Context(), queue, []wire.Settlement{r})
	require.NoError(i.t, err)
	require.Len(i.t, out, 1)
	require.Equal(i.t, r.ID, out[0].ID)
	return [2]string{out[0].Result, out[0].Status}
}

// outcomeOf is the outcome of what was taken.
func outcomeOf(d *wire.TakenDelivery, outcome string) wire.Settlement {
	return wire.Settlement{ID: d.ID, Lease: d.Lease, Outcome: outcome}
}

// asks counts the questions of takers and calls of settle, the only ones with this command.
func (w *world) asks() (calls int) {
	w.t.Helper()
	text, err := w.rdb.Info(context.WithoutCancel(w.t.Context()), "commandstats").Result()
	require.NoError(w.t, err)
	if _, figures, ok := strings.Cut(text, "cmdstat_zmscore:calls="); ok {
		_, err = fmt.Sscanf(figures, "%d,", &calls)
		require.NoError(w.t, err)
	}
	return calls
}

// asked waits until takers have asked for something n times in all.
func (w *world) asked(n int) {
	w.t.Helper()
	eventually(w.t, fmt.Sprint("takers have asked ", n, " times"), func() bool {
		return w.asks() >= n
	})
}

// beats are the numbers of the instances' last beats.
func (w *world) beats() map[string]string {
	return w.rdb.HGetAll(context.WithoutCancel(w.t.Context()), "{default}:instances").Val()
}

func TestTakersThatWaitAskRedisOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	instances := w.serves(2)
	const takers, span = 200, 2
	ctx, cancel := context.WithCancel(t.Context())
	var waiting []<-chan took
	asked := w.asks()
	for n := range takers {
		waiting = append(waiting, taker(ctx, instances[n%2], fmt.Sprint("queue", n%20)))
	}
	w.asked(asked + takers)

	last := w.beats()
	for range span {
		eventually(t, "both beat", func() bool {
			now := w.beats()
			for name, beat := range last {
				if now[name] == beat {
					return false
				}
			}
			last = now
			return true
		})
	}
	asks := w.asks()
	require.Equal(t, asked+takers, asks, "none asked again")
	cancel()
	for _, one := range waiting {
		require.ErrorIs(t, (<-one).err, context.Canceled, "all waited for all of that time")
	}
}

func TestWhatIsPublishedAtOneInstanceGoesToAWaitingTakerAtAnother(t *testing.T) {
	t.Parallel()
	for name, more := range map[string][]string{"told": nil, "polls": {"WAKE=poll"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			publishes, gives := w.serve(more...), w.serve(more...)
			for n := range 3 {
				asks := w.asks()
				ctx, cancel := context.WithTimeout(t.Context(), soon) // it would ask in the end, but that is later
				defer cancel()
				waits := taker(ctx, gives, "orders")
				w.asked(asks + 1)
				id := fmt.Sprint("m", n)
				publishes.publish(wire.Message{ID: id, Queue: "orders"})
				got := <-waits
				require.NoError(t, got.err)
				require.Len(t, got.data, 1)
				require.Equal(t, []any{id, 1}, []any{got.data[0].Message.ID, got.data[0].Attempt})
				require.Equal(t, [2]string{"ok", "delivered"}, publishes.settle(publishes.Client, "orders", outcomeOf(&got.data[0], "delivered")))
				gives.until(id, "delivered")
			}
		})
	}
}

func TestALeaseOutlivesTheInstanceThatGaveIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dies, stays := w.serve(), w.serve()
	for _, id := range []string{"done", "failed"} {
		dies.publish(wire.Message{ID: id, Queue: "orders"})
	}
	taken := dies.takeAll("orders", time.Hour)
	require.Len(t, taken, 2)
	require.NoError(t, dies.Signal(syscall.SIGKILL))
	dies.Kill()
	w.alive(1)
	require.Equal(t, "in_flight", stays.delivery("done").Status, "what a dead instance held is taken over, but not this")
	require.Empty(t, stays.takeAll("orders", time.Hour))
	require.Equal(t, [2]string{"ok", "delivered"}, stays.settle(stays.Client, "orders", outcomeOf(&taken[0], "delivered")))
	require.Equal(t, [2]string{"ok", "retrying"}, stays.settle(stays.Client, "orders", outcomeOf(&taken[1], "retry")))
	require.Equal(t, 1, stays.until("done", "delivered").Attempts)
	require.Equal(t, "handler", stays.until("failed", "retrying").History[0].Class)
}

func TestALeaseThatEndsIsAFailedAttempt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.serve("LADDER=1h,1h")
	i.publish(wire.Message{ID: "m1", Queue: "orders"})
	first := i.takeOne("orders", time.Second)
	require.Equal(t, "m1", first.Message.ID)
	d := i.until("m1", "retrying")
	require.Equal(t, []int{1, 1}, []int{d.Attempts, d.Rung})
	require.Equal(t, []string{"lease", "retry"}, []string{d.History[0].Class, d.History[0].Outcome})
	require.Greater(t, d.NextAttemptAt.Sub(first.LeaseUntil.Time), 30*time.Minute, "the rung's wait follows")

	for _, outcome := range []string{"retry", "dead", "extend"} {
		r, after := outcomeOf(&first, outcome), wire.Duration(time.Minute)
		if outcome != "dead" {
			r.After = &after
		}
		require.Equal(t, [2]string{"late", "retrying"}, i.settle(i.Client, "orders", r), outcome)
	}
	require.Equal(t, d, i.delivery("m1"), "nothing has changed")

	w.makeDue(0)
	second := i.takeOne("orders", time.Hour)
	require.Equal(t, 2, second.Attempt)
	require.Equal(t, [2]string{"late", "in_flight"}, i.settle(i.Client, "orders", outcomeOf(&first, "retry")), "another holds it now")
	require.Equal(t, [2]string{"late", "delivered"}, i.settle(i.Client, "orders", outcomeOf(&first, "delivered")), "that it arrived counts")
	i.settle(i.Client, "orders", outcomeOf(&second, "retry"))
	i.until("m1", "delivered")

	i.publish(wire.Message{ID: "m2", Queue: "orders"})
	third := i.takeOne("orders", time.Second)
	i.until("m2", "retrying")
	require.Equal(t, [2]string{"late", "delivered"}, i.settle(i.Client, "orders", wire.Settlement{ID: third.ID, Outcome: "delivered"}))
	i.until("m2", "delivered")
	require.Zero(t, w.waiting())
}

func TestALeaseIsForTheKeyThatTookOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.serve("API_KEYS=" + opsKey + ":admin:ops," + nightKey + ":admin")
	i.Client = i.keyed(opsKey)
	i.publish(wire.Message{ID: "m1", Queue: "orders"})
	i.publish(wire.Message{ID: "m2", Queue: "others"})
	taken, other := i.takeOne("orders", time.Hour), i.takeOne("others", time.Hour)
	is := func(c *client.Client, queue, lease, why string) {
		t.Helper()
		require.Equal(t, [2]string{"unknown", ""}, i.settle(c, queue, wire.Settlement{ID: taken.ID, Lease: lease, Outcome: "delivered"}), why)
	}
	is(i.keyed(nightKey), "orders", taken.Lease, "another key's")
	is(i.keyed(nightKey), "orders", "", "the newest of another key's")
	is(i.Client, "others", taken.Lease, "another queue's")
	is(i.Client, "orders", other.Lease, "another delivery's")
	is(i.Client, "orders", "2"+taken.Lease[1:], "of another attempt")
	is(i.Client, "orders", taken.Lease[:len(taken.Lease)-1], "cut")
	is(i.Client, "orders", "1.AAAA.0123456789", "made up")
	is(i.Client, "orders", "-", "none at all")
	require.Equal(t, "in_flight", i.delivery("m1").Status)
	require.Equal(t, [2]string{"ok", "delivered"}, i.settle(i.Client, "orders", wire.Settlement{ID: taken.ID, Outcome: "delivered"}))
	i.until("m1", "delivered")
}

func TestTakersKeepToRateOrderAndPauses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.serve()
	ids := func(queue string) (all []string) {
		t.Helper()
		for _, d := range i.takeAll(queue, time.Hour) {
			all = append(all, d.Message.ID)
		}
		return all
	}
	e, _, err := i.CreateEndpoint(t.Context(), &wire.Endpoint{UID: "slow", Kind: "pull", Rate: "1/h", Topics: []string{}})
	require.NoError(t, err)
	for _, id := range []string{"r1", "r2"} {
		i.publish(wire.Message{ID: id, Endpoint: "slow"})
	}
	require.Equal(t, []string{"r1"}, ids(e.ID))
	require.Empty(t, ids(e.ID))
	require.Equal(t, "rate", i.delivery("r2").WaitingFor)

	i.publish(wire.Message{ID: "k1", Queue: "keyed", OrderingKey: "order-1"})
	i.publish(wire.Message{ID: "k2", Queue: "keyed", OrderingKey: "order-1"})
	i.publish(wire.Message{ID: "free", Queue: "keyed"})
	taken := i.takeAll("keyed", time.Hour)
	require.Len(t, taken, 2)
	require.Equal(t, []string{"k1", "free"}, []string{taken[0].Message.ID, taken[1].Message.ID})
	require.Empty(t, ids("keyed"))
	require.Equal(t, [2]string{"ok", "retrying"}, i.settle(i.Client, "keyed", outcomeOf(&taken[0], "retry")))
	require.Empty(t, ids("keyed"), "k1 fails, and holds what is behind it")
	_, err = i.Cancel(t.Context(), "k1", "")
	require.NoError(t, err)
	require.Equal(t, []string{"k2"}, ids("keyed"))

	for _, held := range []string{"q_held", client.AllLanes} {
		_, err = i.PauseLane(t.Context(), held, "")
		require.NoError(t, err)
		id := fmt.Sprint("held", len(held))
		i.publish(wire.Message{ID: id, Queue: "held"})
		require.Empty(t, ids("held"), held)
		require.Equal(t, "paused", i.delivery(id).WaitingFor)
		ctx, cancel := context.WithTimeout(t.Context(), soon)
		asks := w.asks()
		waits := taker(ctx, i, "held")
		if held != client.AllLanes { // then the script does not get so far
			w.asked(asks + 1)
		}
		_, err = i.ResumeLane(t.Context(), held, "")
		require.NoError(t, err)
		got := <-waits
		cancel()
		require.NoError(t, got.err, held)
		require.Len(t, got.data, 1)
		require.Equal(t, id, got.data[0].Message.ID)
	}
}

func TestATakerThatHangsUpTakesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.serve()
	for n := range 5 {
		ctx, cancel := context.WithCancel(t.Context())
		asks := w.asks()
		gone := taker(ctx, i, "orders")
		w.asked(asks + 1)
		cancel()
		require.ErrorIs(t, (<-gone).err, context.Canceled)
		id := fmt.Sprint("m", n)
		i.publish(wire.Message{ID: id, Queue: "orders"})
		d := i.takeOne("orders", time.Hour)
		require.Equal(t, []any{id, 1}, []any{d.Message.ID, d.Attempt}, "no attempt was made by who was gone")
	}
}

func TestOnlyHalfOfTheConnectionsMayWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.serve("MAX_CONNECTIONS=16")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var waiting []<-chan took
	asks := w.asks()
	for range 8 {
		waiting = append(waiting, taker(ctx, i, "orders"))
	}
	w.asked(asks + 8)
	_, err := i.Take(t.Context(), "orders", wire.Take{Wait: longPoll})
	p := problemOf(t, err)
	require.Equal(t, http.StatusTooManyRequests, p.Status)
	require.True(t, strings.HasSuffix(p.Type, "waiting"), p.Type)
	require.Empty(t, i.takeAll("orders", time.Hour), "who does not wait is served")
	cancel()
	for _, one := range waiting {
		require.ErrorIs(t, (<-one).err, context.Canceled)
	}
	i.publish(wire.Message{ID: "m1", Queue: "orders"})
	eventually(t, "there is room again", func() bool {
		data, err := i.Take(context.WithoutCancel(t.Context()), "orders", wire.Take{Wait: wire.Duration(time.Second)})
		return err == nil && len(data) == 1
	})
}

func TestTakersGetBodiesByteForByteAndSigned(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.serve("MAX_BODY=2MiB", "LOG_LEVEL=info")
	e, _, err := i.CreateEndpoint(t.Context(), &wire.Endpoint{UID: "shop", Kind: "pull", Topics: []string{}, Headers: map[string]string{"X-Shop": "7"}})
	require.NoError(t, err)
	text := "a text, \"quoted\"\n\t\u00e4\u2028 "
	large := append(append([]byte(`{"padding" : "`), bytes.Repeat([]byte("0123456789abcdef"), 1<<16-2)...), `"}`...)
	for queue, secret := range map[string]string{e.ID: e.Secret, "orders": w.secret.Reveal()} {
		v := verifierOf(t, "standard", secret)
		for name, c := range map[string]struct {
			m    wire.Message
			want string
			raw  bool // it is answered in base64
		}{
			"json":   {wire.Message{Body: []byte(`{ "a" : 1.50, "b":"\u00e4<&>" }`)}, `{ "a" : 1.50, "b":"\u00e4<&>" }`, false},
			"text":   {wire.Message{RawBody: &text}, text, true},
			"bytes":  {wire.Message{RawBodyBase64: []byte{0, 255, 254, '\n', 0}, ContentType: "application/json"}, "\x00\xff\xfe\n\x00", true},
			"spaced": {wire.Message{RawBodyBase64: []byte("{} \n"), ContentType: "application/json"}, "{} \n", true},
			"large":  {wire.Message{Body: large}, string(large), false},
		} {
			m := c.m
			m.ID, m.Topic, m.Headers = name+"-"+strings.TrimPrefix(queue, e.ID), "order.paid", map[string]string{"X-Own": "it's mine"}
			if queue == e.ID {
				m.Endpoint = "shop"
			} else {
				m.Queue = queue
			}
			_, err := i.Publish(t.Context(), &m)
			require.NoError(t, err)
			d := i.takeOne(queue, time.Hour)
			require.Equal(t, c.raw, d.RawBodyBase64 != nil, name)
			require.Equal(t, c.want, string(d.Bytes()), name)
			header := http.Header{}
			for name, value := range d.Headers {
				require.Equal(t, strings.ToLower(name), name)
				header.Set(name, value)
			}
			a := arrival{path: "/", header: header}
			require.NoError(t, accepts(v, a, c.want), name)
			require.Error(t, accepts(v, a, c.want+" "), name)
			require.Equal(t, []string{m.ID, "it's mine", d.Message.ContentType}, []string{header.Get("webhook-id"), header.Get("x-own"), header.Get("content-type")})
			if queue == e.ID {
				require.Equal(t, "7", header.Get("x-shop"))
			}
			require.Equal(t, [2]string{"ok", "delivered"}, i.settle(i.Client, queue, outcomeOf(&d, "delivered")))
		}
	}
}

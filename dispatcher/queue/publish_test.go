package queue_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/queue"
)

func TestTheSameAgainIsADuplicateAndOtherContentAConflict(t *testing.T) {
	p := newTestQueue(t, queue.Options{})
	first := p.publish(t, queue.Task{ID: "one", Body: order{1}})
	require.False(t, first.Duplicate)
	again := p.publish(t, queue.Task{ID: "one", Body: order{1}})
	require.True(t, again.Duplicate)
	require.Equal(t, first.CreatedAt, again.CreatedAt)
	require.Equal(t, first.Deliveries[0].ID, again.Deliveries[0].ID)
	_, err := p.Publish(t.Context(), queue.Task{ID: "one", Topic: "test", Queue: "work", Body: order{2}})
	require.ErrorIs(t, err, queue.ErrConflict)
	require.EqualError(t, err, "publish one: the id is taken by another message: Body not as in the first")
	_, err = p.Publish(t.Context(), queue.Task{ID: "one", Topic: "test", Queue: "other", Body: order{1}})
	require.ErrorContains(t, err, "destination not as in the first")
}

func TestWhatCantBePublishedIsToldByField(t *testing.T) {
	p := newTestQueue(t, queue.Options{MaxBody: 100})
	for name, c := range map[string]struct {
		task  queue.Task
		field string
	}{
		"no topic":             {queue.Task{Queue: "work"}, "Topic"},
		"a bad name":           {queue.Task{Topic: "a", Queue: "q_work"}, "Queue"},
		"no queue":             {queue.Task{Topic: "a"}, "Queue"},
		"two bodies":           {queue.Task{Topic: "a", Queue: "work", Body: 1, Raw: []byte("1")}, "Body"},
		"bytes as JSON":        {queue.Task{Topic: "a", Queue: "work", Body: []byte("1")}, "Body"},
		"broken JSON":          {queue.Task{Topic: "a", Queue: "work", Body: json.RawMessage("{")}, "Body"},
		"what is not JSON":     {queue.Task{Topic: "a", Queue: "work", Body: math.NaN()}, "Body"},
		"a long body":          {queue.Task{Topic: "a", Queue: "work", Raw: make([]byte, 101)}, "Raw"},
		"a long delay":         {queue.Task{Topic: "a", Queue: "work", Delay: 9000 * time.Hour}, "Delay"},
		"a rung below nothing": {queue.Task{Topic: "a", Queue: "work", Ladder: []time.Duration{-1}}, "Ladder"},
		"a long timeout":       {queue.Task{Topic: "a", Queue: "work", Timeout: 2 * time.Hour}, "Timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := p.Publish(t.Context(), c.task)
			require.ErrorIs(t, err, queue.ErrInvalid)
			var invalid *queue.InvalidError
			require.ErrorAs(t, err, &invalid)
			require.Equal(t, c.field, invalid.Fields[0].Field, err)
			require.ErrorContains(t, err, c.field+" "+invalid.Fields[0].Detail)
		})
	}
}

func TestATaskWithoutAQueueIsNotTaken(t *testing.T) {
	p := newTestQueue(t, queue.Options{})
	_, err := p.Publish(t.Context(), queue.Task{ID: "lost", Topic: "order.unpaid", Body: 1, Delay: time.Minute})
	require.ErrorIs(t, err, queue.ErrInvalid)
	require.ErrorContains(t, err, "Queue is needed: Send is for webhooks to a URL or to endpoints")
	_, err = p.Read(t.Context(), "lost")
	require.ErrorIs(t, err, queue.ErrNotFound)
}

func TestACallbackThatNobodyWouldGetIsAnErrorUnlessTheCallerAllowsIt(t *testing.T) {
	p := newTestQueue(t, queue.Options{})
	_, err := p.Send(t.Context(), queue.Callback{ID: "one", Topic: "order.paid", Tenant: "shop"})
	require.ErrorIs(t, err, queue.ErrUnmatched)
	require.EqualError(t, err, "send one: it has no URL and no Endpoint, and no endpoint of its tenant has a topic that matches")
	sent, err := p.Send(t.Context(), queue.Callback{ID: "one", Topic: "order.paid", Tenant: "shop", AllowUnmatched: true})
	require.NoError(t, err)
	require.Empty(t, sent.Deliveries)
	_, err = p.Send(t.Context(), queue.Callback{Topic: "order.paid", Endpoint: "ep_none"})
	require.ErrorIs(t, err, queue.ErrInvalid)
	_, err = p.Send(t.Context(), queue.Callback{Topic: "order.paid", Endpoint: "shop", URL: "https://shop.example/hooks"})
	require.ErrorIs(t, err, queue.ErrInvalid)
	sent, err = p.Send(t.Context(), queue.Callback{Topic: "order.paid", URL: "https://shop.example/hooks", Timeout: time.Minute})
	require.NoError(t, err, "a serve of the project calls it")
	require.Equal(t, dispatcher.StatusReady, sent.Deliveries[0].Status)
}

func TestAQueueTakesNoMoreThanMayWait(t *testing.T) {
	p := newTestQueue(t, queue.Options{MaxWaiting: 2})
	p.publish(t, queue.Task{})
	p.publish(t, queue.Task{})
	_, err := p.Publish(t.Context(), queue.Task{Topic: "test", Queue: "work"})
	require.ErrorIs(t, err, queue.ErrLaneFull)
}

func TestAStoreThatIsGoneIsUnavailable(t *testing.T) {
	server := redistest.Start(t)
	q, err := queue.Open(t.Context(), server.URL(), queue.Options{})
	require.NoError(t, err)
	server.Kill()
	_, err = q.Publish(t.Context(), queue.Task{Topic: "test", Queue: "work"})
	require.ErrorIs(t, err, queue.ErrUnavailable)
	require.NoError(t, q.Close())
	_, err = queue.Open(t.Context(), server.URL(), queue.Options{})
	require.ErrorIs(t, err, queue.ErrUnavailable)
}

func TestOptionsThatMakeNoSenseAreToldTogether(t *testing.T) {
	_, err := queue.Open(t.Context(), "redis://127.0.0.1:1", queue.Options{
		Project: "a b", Workers: -1, AttemptTimeout: time.Millisecond, Ladder: []time.Duration{-1}, LadderJitter: 2, MaxBody: 5 << 20,
		Durability: dispatcher.Durability{Replicas: 10}, EncryptionKey: queue.NewKey("short"), HeaderPrefix: "x", RetentionMax: -1, RedisMode: "many",
	})
	for _, name := range []string{
		"Project", "Workers", "AttemptTimeout", "Ladder", "LadderJitter", "MaxBody", "Durability", "EncryptionKey", "HeaderPrefix", "RetentionMax", "RedisMode",
	} {
		require.ErrorContains(t, err, name)
	}
}

func TestAStoreThatKeepsNothingIsRefusedUnlessItMay(t *testing.T) {
	mini := redistest.StartMini(t)
	_, err := queue.Open(t.Context(), mini.URL(), queue.Options{})
	require.ErrorContains(t, err, "it keeps nothing")
	newTestProgram(t, mini.URL(), queue.Options{Forgetful: true})
}

func TestJSONIsSentByteForByteAndALadderIsBounded(t *testing.T) {
	t.Parallel()
	p := newTestQueue(t, queue.Options{})
	got := make(chan queue.Delivery, 1)
	p.Handle("work", reporting(got))
	p.start(t)
	p.publish(t, queue.Task{Body: json.RawMessage(`{"n": 1.0 }`)})
	require.Equal(t, `{"n": 1.0 }`, string(receive(t, got).Body))
	_, err := p.Publish(t.Context(), queue.Task{Queue: "work", Topic: "test", Ladder: make([]time.Duration, 200)})
	require.ErrorIs(t, err, queue.ErrInvalid)
	require.ErrorContains(t, err, "Ladder must have at most 100 waits")
}

// A right that was taken away is no outage: no retry helps.
func TestAMissingRightIsDenied(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	do := func(args ...any) { require.NoError(t, server.Client.Do(t.Context(), args...).Err()) }
	do("ACL", "SETUSER", "shop", "on", ">secret", "~*", "&*", "+@all")
	p := newTestProgram(t, strings.Replace(server.URL(), "redis://", "redis://shop:secret@", 1), queue.Options{})
	p.publish(t, queue.Task{})
	do("ACL", "SETUSER", "shop", "-evalsha", "-eval")
	_, err := p.Publish(t.Context(), queue.Task{Queue: "work", Topic: "test"})
	require.ErrorIs(t, err, queue.ErrDenied)
	require.NotErrorIs(t, err, queue.ErrUnavailable)
	do("ACL", "SETUSER", "shop", "+@all")
}

func TestALossEndsWhenItIsAccepted(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	p := newTestProgram(t, server.URL(), queue.Options{})
	accepted, err := queue.AcceptLoss(t.Context(), server.URL(), queue.Options{})
	require.NoError(t, err)
	require.False(t, accepted, "nothing is lost")
	p.publish(t, queue.Task{ID: "one"})
	require.NoError(t, server.Client.FlushAll(t.Context()).Err())
	var emptied *queue.Emptied
	require.NoError(t, kit.Until(t.Context(), "the loss is noticed", func() error {
		_, err := p.Publish(t.Context(), queue.Task{Queue: "work", Topic: "test"})
		if !errors.As(err, &emptied) {
			return fmt.Errorf("it is %w", err)
		}
		require.ErrorIs(t, err, queue.ErrUnavailable)
		return nil
	}))
	accepted, err = queue.AcceptLoss(t.Context(), server.URL(), queue.Options{})
	require.NoError(t, err)
	require.True(t, accepted)
	require.NoError(t, kit.Until(t.Context(), "it publishes again", func() error {
		_, err := p.Publish(t.Context(), queue.Task{ID: "one", Queue: "work", Topic: "test"})
		return err
	}))
	accepted, err = queue.AcceptLoss(t.Context(), server.URL(), queue.Options{})
	require.NoError(t, err)
	require.False(t, accepted)
}

func TestRunNeedsAHandlerAndAnOpenQueue(t *testing.T) {
	p := newTestQueue(t, queue.Options{})
	require.ErrorContains(t, p.Run(t.Context()), "no queue has a handler")
	p.Handle("work", func(context.Context, queue.Delivery) error { return errors.New("not called") })
	require.NoError(t, p.Close())
	require.ErrorIs(t, p.Run(t.Context()), queue.ErrClosed)
}

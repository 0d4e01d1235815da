package queue_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/queue"
)

func TestTheSameAgainIsADuplicateAndOtherContentAConflict(t *testing.T) {
	p := newTestProgram(t, redistest.Start(t).URL(), queue.Options{})
	first := p.publish(t, queue.Message{ID: "one", Body: order{1}})
	require.False(t, first.Duplicate)
	again := p.publish(t, queue.Message{ID: "one", Body: order{1}})
	require.True(t, again.Duplicate)
	require.Equal(t, first.CreatedAt, again.CreatedAt)
	require.Equal(t, first.Deliveries[0].ID, again.Deliveries[0].ID)
	_, err := p.Publish(t.Context(), queue.Message{ID: "one", Topic: "test", Queue: "work", Body: order{2}})
	require.ErrorIs(t, err, queue.ErrConflict)
	require.EqualError(t, err, "publish one: the id is taken by another message: body not as in the first")
	_, err = p.Publish(t.Context(), queue.Message{ID: "one", Topic: "test", Queue: "other", Body: order{1}})
	require.ErrorContains(t, err, "destination not as in the first")
}

func TestWhatCantBePublishedIsToldByField(t *testing.T) {
	p := newTestProgram(t, redistest.Start(t).URL(), queue.Options{MaxBody: 100})
	for name, c := range map[string]struct {
		message queue.Message
		path    string
	}{
		"no topic":             {queue.Message{Queue: "work"}, "$.topic"},
		"a bad name":           {queue.Message{Topic: "a", Queue: "q_work"}, "$.queue"},
		"two destinations":     {queue.Message{Topic: "a", Queue: "work", URL: "https://shop.example/"}, "$.queue"},
		"two bodies":           {queue.Message{Topic: "a", Queue: "work", Body: 1, Raw: []byte("1")}, "$.body"},
		"bytes as JSON":        {queue.Message{Topic: "a", Queue: "work", Body: []byte("1")}, "$.body"},
		"broken JSON":          {queue.Message{Topic: "a", Queue: "work", Body: json.RawMessage("{")}, "$.body"},
		"what is not JSON":     {queue.Message{Topic: "a", Queue: "work", Body: math.NaN()}, "$.body"},
		"a long body":          {queue.Message{Topic: "a", Queue: "work", Raw: make([]byte, 101)}, "$.body"},
		"a long delay":         {queue.Message{Topic: "a", Queue: "work", Delay: 9000 * time.Hour}, "$.delay"},
		"a rung below nothing": {queue.Message{Topic: "a", Queue: "work", Ladder: []time.Duration{-1}}, "$.ladder"},
		"an unknown endpoint":  {queue.Message{Topic: "a", Endpoint: "ep_none"}, "$.endpoint"},
		"a long timeout":       {queue.Message{Topic: "a", Queue: "work", Timeout: 2 * time.Hour}, "$.timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := p.Publish(t.Context(), c.message)
			require.ErrorIs(t, err, queue.ErrInvalid)
			var invalid *queue.InvalidError
			require.ErrorAs(t, err, &invalid)
			require.Equal(t, c.path, invalid.Fields[0].Path, err)
			require.ErrorContains(t, err, c.path+" "+invalid.Fields[0].Detail)
		})
	}
	_, err := p.Publish(t.Context(), queue.Message{Topic: "a", RequireMatch: true})
	require.ErrorIs(t, err, queue.ErrUnmatched)
	pub, err := p.Publish(t.Context(), queue.Message{Topic: "a"})
	require.NoError(t, err)
	require.Empty(t, pub.Deliveries)
	pub, err = p.Publish(t.Context(), queue.Message{Topic: "a", URL: "https://shop.example/hooks", Timeout: time.Minute})
	require.NoError(t, err, "a serve of the project calls it")
	require.Equal(t, dispatcher.StatusReady, pub.Deliveries[0].Status)
}

func TestAQueueTakesNoMoreThanMayWait(t *testing.T) {
	p := newTestProgram(t, redistest.Start(t).URL(), queue.Options{MaxWaiting: 2})
	p.publish(t, queue.Message{})
	p.publish(t, queue.Message{})
	_, err := p.Publish(t.Context(), queue.Message{Topic: "test", Queue: "work"})
	require.ErrorIs(t, err, queue.ErrLaneFull)
}

func TestAStoreThatIsGoneIsUnavailable(t *testing.T) {
	server := redistest.Start(t)
	q, err := queue.Open(t.Context(), server.URL(), queue.Options{})
	require.NoError(t, err)
	server.Kill()
	_, err = q.Publish(t.Context(), queue.Message{Topic: "test", Queue: "work"})
	require.ErrorIs(t, err, queue.ErrUnavailable)
	require.NoError(t, q.Close())
	_, err = queue.Open(t.Context(), server.URL(), queue.Options{})
	require.ErrorIs(t, err, queue.ErrUnavailable)
}

func TestOptionsThatMakeNoSenseAreToldTogether(t *testing.T) {
	_, err := queue.Open(t.Context(), "redis://127.0.0.1:1", queue.Options{
		Project: "a b", Workers: -1, AttemptTimeout: time.Millisecond, Ladder: []time.Duration{-1}, LadderJitter: 2, MaxBody: 5 << 20,
		Durability: "perhaps", EncryptionKey: "short", HeaderPrefix: "x", RetentionMax: -1, RedisMode: "many",
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

func TestRunNeedsAHandlerAndAnOpenQueue(t *testing.T) {
	p := newTestProgram(t, redistest.Start(t).URL(), queue.Options{})
	require.ErrorContains(t, p.Run(t.Context()), "no queue has a handler")
	p.Handle("work", func(context.Context, queue.Delivery) error { return errors.New("not called") })
	require.NoError(t, p.Close())
	require.ErrorIs(t, p.Run(t.Context()), queue.ErrClosed)
}

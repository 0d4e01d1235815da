package queue_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/queue"
)

func TestAnEndedContextIsItsOwnErrorAlone(t *testing.T) {
	url := redistest.Start(t).URL()
	p := newTestProgram(t, url, queue.Options{})
	ended, stop := context.WithCancel(t.Context())
	stop()
	_, published := p.Publish(ended, queue.Task{Queue: "work", Topic: "test"})
	_, sent := p.Send(ended, queue.Callback{URL: "https://shop.example/", Topic: "test"})
	_, opened := queue.Open(ended, url, queue.Options{})
	_, accepted := queue.AcceptLoss(ended, url, queue.Options{})
	for doing, err := range map[string]error{
		"publish": published, "send": sent, "cancel": p.Cancel(ended, "a"), "open queue": opened, "accept loss": accepted,
	} {
		require.EqualError(t, err, doing+": context canceled")
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, queue.ErrUnavailable)
	}
}

// A server that accepts connections and says nothing is cut by the deadline of the context.
func TestADeadlineDuringACallIsTheErrorOfTheContext(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = silent.Close() })
	ctx, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	_, err = queue.Open(ctx, "redis://"+silent.Addr().String(), queue.Options{})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, queue.ErrUnavailable)
}

func TestADeadlineWhileRedisHangsIsTheErrorOfTheContext(t *testing.T) {
	server := redistest.Start(t)
	p := newTestProgram(t, server.URL(), queue.Options{})
	p.publish(t, queue.Task{ID: "one"})
	server.Pause()
	defer server.Resume()
	ctx, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	task := queue.Task{ID: "one", Queue: "work", Topic: "test"}
	_, published := p.Publish(ctx, task)
	_, sent := p.Send(ctx, queue.Callback{URL: "https://shop.example/", Topic: "test"})
	_, batch := p.PublishBatch(ctx, []queue.Task{task})
	_, counted := p.Stats(ctx, "work")
	for doing, err := range map[string]error{
		"publish": published, "send": sent, "batch": batch, "stats": counted, "cancel": p.Cancel(ctx, "one"), "pause": p.Pause(ctx, "work"),
		"reschedule": p.Reschedule(ctx, "one", time.Now()),
	} {
		require.ErrorIs(t, err, context.DeadlineExceeded, doing)
		require.NotErrorIs(t, err, queue.ErrUnavailable, doing)
	}
}

// newLockedServer is a server that needs a password.
func newLockedServer(t *testing.T, password string) *redistest.Server {
	t.Helper()
	server := redistest.Start(t)
	require.NoError(t, server.Client.ConfigSet(t.Context(), "requirepass", password).Err())
	return server
}

func TestAWrongPasswordIsDeniedAndNotUnavailable(t *testing.T) {
	server := newLockedServer(t, "right")
	for _, user := range []string{"", ":wrong@", "nobody:right@"} {
		_, err := queue.Open(t.Context(), strings.Replace(server.URL(), "redis://", "redis://"+user, 1), queue.Options{})
		require.ErrorIs(t, err, queue.ErrDenied, user)
		require.NotErrorIs(t, err, queue.ErrUnavailable, user)
		require.NotContains(t, err.Error(), "wrong@")
		require.NotRegexp(t, foreign, err.Error())
	}
}

// foreign finds the names of settings and of fields of the API, which callers in Go do not know.
var foreign = regexp.MustCompile(`\$\.|[A-Z]+_[A-Z]+|[a-z]+_[a-z]+|PROJECT|PARTITIONS`)

// Each field has a wrong value, and the error names the field as Go spells it.
func TestAMistakeIsNamedByTheFieldInGo(t *testing.T) {
	url := redistest.Start(t).URL()
	p := newTestProgram(t, url, queue.Options{MaxBody: 100})
	refused := func(t *testing.T, err error, field string) {
		t.Helper()
		require.ErrorIs(t, err, queue.ErrInvalid, field)
		require.ErrorContains(t, err, field)
		require.NotRegexp(t, foreign, err.Error())
	}
	good := queue.Task{Queue: "work", Topic: "test"}
	walk(t, good, map[string]any{
		"ID": "a:b", "Queue": "a:b", "UniqueFor": time.Hour, "Topic": "a:b", "Tenant": "a b", "Subject": "a\nb",
		"Body": []byte("1"), "Raw": make([]byte, 101), "ContentType": "none",
		"Delay": -time.Second, "DeliverAt": time.Now().Add(9000 * time.Hour), "ExpiresAt": time.Now().Add(-time.Hour),
		"OrderingKey": "a b", "Headers": map[string]string{"Host": "a"}, "Ladder": []time.Duration{-1}, "MaxAttempts": -1, "Timeout": 2 * time.Hour,
	}, func(field string, task queue.Task) {
		_, err := p.Publish(t.Context(), task)
		refused(t, err, field)
	})
	walk(t, queue.Callback{URL: "https://shop.example/", Topic: "test"}, map[string]any{
		"ID": "a:b", "URL": "shop.example", "Endpoint": "shop", "Topic": "", "Tenant": "a b", "Subject": "a\nb", "AllowUnmatched": nil,
		"Body": []byte("1"), "Raw": make([]byte, 101), "ContentType": "none",
		"Delay": -time.Second, "DeliverAt": time.Now().Add(9000 * time.Hour), "ExpiresAt": time.Now().Add(-time.Hour),
		"OrderingKey": "a b", "Headers": map[string]string{"Host": "a"}, "Ladder": []time.Duration{-1}, "MaxAttempts": 102, "Timeout": 2 * time.Minute,
		"Success": nil, // made by its own package, which checks it
	}, func(field string, c queue.Callback) {
		_, err := p.Send(t.Context(), c)
		refused(t, err, field)
	})
	both := queue.Task{Queue: "work", Topic: "test", Delay: time.Second, DeliverAt: time.Now().Add(time.Second)}
	_, err := p.Publish(t.Context(), both)
	refused(t, err, "Delay and DeliverAt can't both be given")

	walk(t, queue.Options{}, map[string]any{
		"Project": "a b", "Partitions": -1, "Durability": dispatcher.Durability{Fsync: true, Replicas: 1}, "RedisMode": queue.RedisMode("many"), "Workers": -1,
		"AttemptTimeout": time.Millisecond, "Ladder": []time.Duration{-1}, "LadderJitter": 2.0, "MaxAttempts": -1, "MaxInFlight": -1, "MaxWaiting": -1,
		"MaxBody": 5 << 20, "FanoutMax": -1, "EncryptionKey": queue.NewKey("short"), "HeaderPrefix": "x", "Retention": -time.Second,
		"RetentionMax": -1, "DedupMax": -1, "DeadRetention": -time.Second, "DeadMax": -1, "Log": &slog.Logger{},
		"Dial": nil, "Credentials": nil, "OnDead": nil, "Poll": nil, "RedisMaster": nil, "RedisCAFile": nil, "Forgetful": nil, "Grace": nil, "TracerProvider": nil, // any value, or see below
	}, func(field string, o queue.Options) {
		_, err := queue.Open(t.Context(), url, o)
		refused(t, err, "Options."+field)
	})
	for text, o := range map[string]queue.Options{
		"Options.RedisMaster": {RedisMaster: "main", RedisMode: queue.RedisSingle},
		"Options.RedisCAFile": {RedisCAFile: "none.pem"},
		"Options.Partitions=2, but project default was made with 1: unset it, or use another Options.Project": {Partitions: 2},
	} {
		_, err := queue.Open(t.Context(), url, o)
		require.ErrorContains(t, err, text)
		require.NotRegexp(t, foreign, err.Error())
	}
	for wrong, says := range map[string]string{
		"":                          "url is empty: want redis://host:port",
		"127.0.0.1:6379":            "url has no scheme: want redis://127.0.0.1:6379",
		"http://127.0.0.1:6379":     "url is not one of Redis: it must begin with redis://",
		"redis://u:hunter2@h:1?x=1": "url is not one of Redis: it has a parameter",
	} {
		_, err := queue.Open(t.Context(), wrong, queue.Options{})
		refused(t, err, says)
		require.NotContains(t, err.Error(), "hunter2")
	}
}

// walk calls try with a copy of good for each of its fields, which has a wrong value. A nil
// value means that the field takes any.
func walk[T any](t *testing.T, good T, wrong map[string]any, try func(field string, bad T)) {
	t.Helper()
	for i := range reflect.TypeFor[T]().NumField() {
		field := reflect.TypeFor[T]().Field(i).Name
		value, ok := wrong[field]
		require.True(t, ok, "which value of %s is wrong?", field)
		if value == nil {
			continue
		}
		bad := good
		reflect.ValueOf(&bad).Elem().Field(i).Set(reflect.ValueOf(value))
		try(field, bad)
	}
}

func TestAHandlersErrorSaysWhatItRequests(t *testing.T) {
	broken := errors.New("no stock")
	for _, err := range []error{queue.SkipRetry(broken), fmt.Errorf("order 17: %w", queue.SkipRetry(broken))} {
		require.ErrorIs(t, err, queue.ErrSkipRetry)
		require.ErrorIs(t, err, broken)
		require.ErrorContains(t, err, "no stock")
	}
	require.NoError(t, queue.SkipRetry(nil))
	require.NotErrorIs(t, broken, queue.ErrSkipRetry)
	var retry *queue.RetryError
	require.ErrorAs(t, fmt.Errorf("order 17: %w", queue.RetryAfter(time.Minute, broken)), &retry)
	require.Equal(t, queue.RetryError{After: time.Minute, Err: broken}, *retry)
	require.EqualError(t, queue.RetryAfter(time.Minute, nil), "the handler requested a retry")
}

func TestAKeyIsNeverPrinted(t *testing.T) {
	const secret = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
	o := queue.Options{EncryptionKey: queue.NewKey(secret)}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
		for _, value := range []any{o, &o, o.EncryptionKey, &o.EncryptionKey, struct{ o queue.Options }{o}} {
			text := fmt.Sprintf(verb, value)
			require.NotContains(t, text, secret[:9], verb)
			require.NotContains(t, strings.ToLower(text), fmt.Sprintf("%x", secret[:9]), verb)
		}
	}
	require.Equal(t, "[redacted]", fmt.Sprint(o.EncryptionKey))
	require.Empty(t, fmt.Sprint(queue.NewKey("")))
	var out bytes.Buffer
	slog.New(slog.NewJSONHandler(&out, nil)).Info("opened", "key", o.EncryptionKey)
	slog.New(slog.NewTextHandler(&out, nil)).Info("opened", "key", o.EncryptionKey, "options", o)
	require.NotContains(t, out.String(), secret)
	text, err := json.Marshal(map[string]any{"key": o.EncryptionKey})
	require.NoError(t, err)
	require.Equal(t, `{"key":"[redacted]"}`, string(text))
}

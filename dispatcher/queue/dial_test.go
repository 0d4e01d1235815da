package queue_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/queue"
)

func TestAProgramConnectsWithItsOwnCertificate(t *testing.T) {
	cert, key := kit.MustCertificate(t.TempDir(), "127.0.0.1")
	pair, err := tls.LoadX509KeyPair(cert, key)
	require.NoError(t, err)
	text, err := os.ReadFile(cert)
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(text))
	addr := startStrict(t, redistest.Start(t).Addr(), pair)

	var made atomic.Int64
	dialer := tls.Dialer{Config: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}}}
	p := newTestProgram(t, "redis://"+addr, queue.Options{Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
		made.Add(1)
		return dialer.DialContext(ctx, network, addr)
	}})
	p.Handle("work", func(context.Context, queue.Delivery) error { return nil })
	p.start(t)
	require.Equal(t, dispatcher.StatusDelivered, p.ends(t, p.publish(t, queue.Task{}).ID).Status)
	before := made.Load()
	for range 50 {
		p.publish(t, queue.Task{Queue: "other"})
	}
	require.Less(t, made.Load()-before, int64(5), "connections are used again")

	_, err = queue.Open(t.Context(), "redis://"+addr, queue.Options{Dial: (&tls.Dialer{Config: &tls.Config{RootCAs: roots}}).DialContext})
	require.ErrorIs(t, err, queue.ErrUnavailable, "it has no certificate")
}

// startStrict is a way to a server through TLS for clients with a certificate.
func startStrict(t *testing.T, target string, own tls.Certificate) (addr string) {
	t.Helper()
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{own}, ClientAuth: tls.RequireAnyClientCert})
	require.NoError(t, err)
	var serving sync.WaitGroup
	t.Cleanup(func() {
		_ = ln.Close()
		serving.Wait()
	})
	serving.Go(func() {
		for {
			near, err := ln.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", target)
			if err != nil {
				_ = near.Close()
				continue
			}
			both := func(to, from net.Conn) {
				_, _ = io.Copy(to, from)
				_, _ = near.Close(), far.Close()
			}
			serving.Go(func() { both(near, far) })
			serving.Go(func() { both(far, near) })
		}
	})
	return ln.Addr().String()
}

func TestCredentialsAreAskedForEachConnection(t *testing.T) {
	server := newLockedServer(t, "first")
	url := "redis://" + server.Addr()
	p := newTestProgram(t, url, queue.Options{Credentials: func(context.Context) (string, string, error) { return "default", "first", nil }})
	p.publish(t, queue.Task{})
	_, err := queue.Open(t.Context(), url, queue.Options{Credentials: func(context.Context) (string, string, error) { return "default", "wrong", nil }})
	require.ErrorIs(t, err, queue.ErrDenied)
	vault := errors.New("the vault is sealed")
	_, err = queue.Open(t.Context(), url, queue.Options{Credentials: func(context.Context) (string, string, error) { return "", "", vault }})
	require.ErrorIs(t, err, vault)
}

func TestAHandlerIsCalledWithoutAQueue(t *testing.T) {
	handler := queue.Typed(func(ctx context.Context, o order, d queue.Delivery) error {
		inside, ok := queue.FromContext(ctx)
		require.True(t, ok)
		require.Equal(t, d.MessageID, inside.MessageID)
		require.Equal(t, order{17}, o)
		return nil
	})
	d := queue.Delivery{MessageID: "order_17", Body: []byte(`{"Number":17}`), Attempt: 2}
	require.NoError(t, handler(queue.NewContext(t.Context(), d), d))
	d.Body = []byte(`{"Number":"x"}`)
	err := handler(queue.NewContext(t.Context(), d), d)
	require.ErrorIs(t, err, queue.ErrSkipRetry)
	require.EqualError(t, err, "the body can't be read as queue_test.order: Number: a JSON string is no int")
}

func TestTheListHasWhatTheFilterSelects(t *testing.T) {
	p := newTestQueue(t, queue.Options{Ladder: rungs})
	p.Handle("bad", func(context.Context, queue.Delivery) error { return queue.SkipRetry(errors.New("no stock")) })
	p.start(t)
	for range 3 {
		p.ends(t, p.publish(t, queue.Task{Queue: "bad", Topic: "order.paid", Subject: "17"}).ID)
	}
	for range 150 {
		p.publish(t, queue.Task{Queue: "later", Delay: time.Hour})
	}
	list := func(f queue.Filter) (found []queue.Record) {
		t.Helper()
		for r, err := range p.List(t.Context(), f) {
			require.NoError(t, err)
			found = append(found, r)
		}
		return found
	}
	require.Len(t, list(queue.Filter{}), 153)
	require.Len(t, list(queue.Filter{Queue: "later"}), 150)
	require.Empty(t, list(queue.Filter{Queue: "unknown"}))
	dead := list(queue.Filter{Statuses: []dispatcher.Status{dispatcher.StatusDead}, Topics: []string{"order.*"}})
	require.Len(t, dead, 3)
	require.Equal(t, "q_bad", dead[0].Destination)
	require.Equal(t, "no stock", dead[0].LastError)
	require.Equal(t, dispatcher.ReasonRejected, dead[0].Reason)
	require.Equal(t, 1, dead[0].Attempts)
	require.False(t, dead[0].EndedAt.IsZero())
	for _, err := range p.List(t.Context(), queue.Filter{Queue: "a:b"}) {
		require.ErrorIs(t, err, queue.ErrInvalid)
	}
	for range p.List(t.Context(), queue.Filter{}) {
		break // and no page more
	}
	for _, err := range (&queue.Queue{}).List(t.Context(), queue.Filter{}) {
		require.ErrorIs(t, err, queue.ErrUnopened)
	}
}

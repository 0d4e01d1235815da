package stack_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/outbox"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// traffic publishes messages through nginx and by the outbox, each until it is accepted.
type traffic struct {
	s       *topology
	urls    []string // of destinations; empty: the endpoint of the tenant
	enough  context.CancelFunc
	working sync.WaitGroup

	mu       sync.Mutex  // guards what follows
	accepted []string    // ids
	times    []time.Time // when they were accepted
	refused  map[string]int
}

const (
	publishers = 4
	// each publisher waits so long between two messages: together they publish 40 a second.
	pause = 100 * time.Millisecond
)

// key is a key of the API that has a scope.
func (s *topology) key(scope string) string {
	s.t.Helper()
	for _, one := range strings.Split(strings.TrimSpace(mustReadFile(s.t, filepath.Join(s.dir, "secrets", "api_keys"))), ",") {
		if parts := strings.Split(one, ":"); strings.Contains(parts[1], scope) {
			return parts[0]
		}
	}
	require.Fail(s.t, "no key has the scope", scope)
	return ""
}

// client calls the API through nginx, with a key of a scope, and repeats nothing.
func (s *topology) client(scope string) *client.Client {
	s.t.Helper()
	c, err := client.New("http://"+s.at("nginx:80"), s.key(scope), kit.Once)
	require.NoError(s.t, err)
	return c
}

// startLoad registers an endpoint, and begins to publish to it and to its URL.
func (s *topology) startLoad() *traffic {
	s.t.Helper()
	hooks, others := "http://"+s.at("receiver:9000"), "http://"+s.at("neighbour:9000")
	secret := strings.TrimSpace(mustReadFile(s.t, filepath.Join(s.dir, "secrets", "signing_secret")))
	_, _, err := s.client("admin").CreateEndpoint(s.t.Context(), &wire.Endpoint{
		UID: "shop-1", Tenant: "shop-1", URL: hooks + "/endpoint", Topics: []string{"order.*"}, Secret: secret,
	})
	require.NoError(s.t, err)
	ctx, enough := context.WithCancel(s.t.Context())
	l := &traffic{s: s, urls: []string{hooks + "/hooks", others + "/hooks", others + "/more", ""}, enough: enough, refused: map[string]int{}}
	publish := s.client("publish")
	for n := range publishers {
		l.working.Go(func() {
			l.run(ctx, fmt.Sprint("call", n), func(m *wire.Message) error {
				_, err := publish.Publish(s.t.Context(), m)
				return err
			})
		})
	}
	database := strings.TrimSpace(mustReadFile(s.t, filepath.Join(s.dir, "secrets", "postgres_url")))
	conn, err := pgx.Connect(s.t.Context(), database)
	require.NoError(s.t, err)
	l.working.Go(func() {
		l.run(ctx, "row", func(m *wire.Message) error { return insert(s.t.Context(), conn, m) })
	})
	s.t.Cleanup(func() {
		enough()
		l.working.Wait()
		_ = conn.Close(context.Background())
	})
	return l
}

// insert publishes a message in a transaction.
func insert(ctx context.Context, conn *pgx.Conn, m *wire.Message) error {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	if _, err := outbox.Publish(ctx, tx, m); err != nil {
		return errors.Join(err, tx.Rollback(ctx))
	}
	return tx.Commit(ctx)
}

// run publishes one message after the other until ctx ends, each again until it is accepted.
func (l *traffic) run(ctx context.Context, name string, publish func(*wire.Message) error) {
	for n := 0; kit.Rest(ctx, pause); n++ {
		m := &wire.Message{ID: fmt.Sprintf("%s_%d", name, n), Topic: "order.paid", Tenant: "shop-1", Body: []byte(`{"state":"paid"}`)}
		m.URL = l.urls[n%len(l.urls)]
		for {
			err := publish(m)
			if err == nil {
				l.mu.Lock()
				l.accepted, l.times = append(l.accepted, m.ID), append(l.times, time.Now())
				l.mu.Unlock()
				break
			}
			l.mu.Lock()
			l.refused[reason(err)]++
			l.mu.Unlock()
			if !kit.Rest(l.s.t.Context(), pause) {
				return
			}
		}
	}
}

// reason is the status of a response, or that there was none.
func reason(err error) string {
	var p *client.Problem
	if errors.As(err, &p) {
		return fmt.Sprint(p.Status)
	}
	return err.Error()
}

func (l *traffic) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.accepted)
}

// refusals are the refused calls until now, by reason.
func (l *traffic) refusals() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := map[string]int{}
	for why, n := range l.refused {
		all[why] = n
	}
	return all
}

// more waits until as many more messages were accepted.
func (l *traffic) more(n int) {
	l.s.t.Helper()
	want := l.count() + n
	l.s.wait("messages are accepted", func() error {
		if now := l.count(); now < want {
			return fmt.Errorf("%d of %d", now, want)
		}
		return nil
	})
}

// slowDisk is how long a Redis with appendfsync everysec may keep a write from its file if the
// disk is slow. A killed Redis loses such writes.
const slowDisk = 2 * time.Second

// promised returns the ids of the accepted messages that a Redis that was killed at a time still
// has. A message that it lost has mostly arrived by then, but is not archived.
func (l *traffic) promised(killed time.Time) (ids []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, at := range l.times {
		if at.Before(killed.Add(-slowDisk)) || at.After(killed.Add(slowDisk)) {
			ids = append(ids, l.accepted[i])
		}
	}
	return ids
}

// end ends the load, and returns the ids of all accepted messages.
func (l *traffic) end() []string {
	l.enough()
	l.working.Wait()
	return l.accepted
}

// received reads the output of the receivers: the ids whose signature was valid, and how many
// callbacks were not valid.
func (s *topology) received() (ids map[string]int, forged int) {
	ids = map[string]int{}
	for _, out := range s.heard {
		id := ""
		for line := range strings.Lines(out.String()) {
			line = strings.TrimSpace(line)
			if text, ok := strings.CutPrefix(line, "webhook-id: "); ok {
				id = text
			}
			switch {
			case strings.HasPrefix(line, "=> genuine"):
				ids[id]++
			case strings.HasPrefix(line, "=> ") && id != "":
				forged++
			}
			if strings.HasPrefix(line, "=> ") {
				id = ""
			}
		}
	}
	return ids, forged
}

// arrived waits until the receivers got each of the messages.
func (s *topology) arrived(accepted []string) {
	s.t.Helper()
	s.wait("all accepted messages arrive", func() error {
		ids, forged := s.received()
		if forged > 0 {
			return kit.Stop(fmt.Errorf("%d callbacks were not valid", forged))
		}
		missing := 0
		for _, id := range accepted {
			if ids[id] == 0 {
				missing++
			}
		}
		if missing > 0 {
			return fmt.Errorf("%d of %d are missing", missing, len(accepted))
		}
		return nil
	})
}

// archived waits until the archive has each of the messages.
func (s *topology) archived(accepted []string) {
	s.t.Helper()
	conn, err := pgx.Connect(s.t.Context(), strings.TrimSpace(mustReadFile(s.t, filepath.Join(s.dir, "secrets", "postgres_url"))))
	require.NoError(s.t, err)
	defer conn.Close(context.Background()) //nolint:errcheck // it only ran queries
	s.wait("all accepted messages are archived", func() error {
		var missing int
		err := conn.QueryRow(s.t.Context(), `select count(*) from unnest($1::text[]) as w(id) where not exists (select from hookladder.message m where m.id = w.id)`, accepted).Scan(&missing)
		if err == nil && missing > 0 {
			err = fmt.Errorf("%d of %d are missing", missing, len(accepted))
		}
		return err
	})
}

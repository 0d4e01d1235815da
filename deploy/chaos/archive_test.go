package chaos_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/deploy/kit/pgtest"
)

// sealKey is an ENCRYPTION_KEY, without which nothing is archived.
const sealKey = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="

// keeper is the PostgreSQL of a run that archives.
type keeper struct {
	h      *history
	fleet  *fleet
	server *pgtest.Server
}

func newKeeper(t testing.TB, h *history, f *fleet) *keeper {
	t.Helper()
	return &keeper{h: h, fleet: f, server: pgtest.Start(t, pgtest.Options{})}
}

// backlog is the least that the program takes: a short outage exceeds it.
const backlog = "1MiB"

func (k *keeper) env() []string {
	return []string{"ARCHIVE_URL=" + k.server.URL(), "ENCRYPTION_KEY=" + sealKey, "ARCHIVE_BACKLOG=" + backlog}
}

// metrics reads the series of an instance that have no labels.
func metrics(ctx context.Context, p *process) (map[string]float64, error) {
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close() //nolint:errcheck // it was only read
	all := map[string]float64{}
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		name, text, _ := strings.Cut(lines.Text(), " ")
		if value, err := strconv.ParseFloat(text, 64); err == nil {
			all[name] = value
		}
	}
	return all, lines.Err()
}

// current waits until all that the store logged is archived, and no comparison is under way.
func (k *keeper) current(ctx context.Context) error {
	random := rand.New(rand.NewPCG(1, 1))
	return kit.Until(ctx, "the archive is current", func() error {
		p := k.fleet.any(random)
		if p == nil {
			return errors.New("no instance takes calls")
		}
		is, err := metrics(ctx, p)
		lag, known := is["hookladder_archive_lag_seconds"]
		if err == nil && (!known || lag > 0 || is["hookladder_archive_comparing"] > 0) {
			err = fmt.Errorf("lag %v (known: %t), comparing %v", lag, known, is["hookladder_archive_comparing"])
		}
		if err != nil {
			kit.Rest(ctx, 200*time.Millisecond)
		}
		return err
	})
}

// archivedMessage is a row of the archive's messages.
type archivedMessage struct {
	id, tenant, subject, topic string
	created                    time.Time
	sum                        []byte // SHA-256 of the body; nil: the archive has no body
}

// content is all that a message itself gives to its row.
func (m archivedMessage) content() string {
	return fmt.Sprint(m.tenant, m.subject, m.topic, m.sum)
}

// archivedEvent is a row of the archive's events.
type archivedEvent struct {
	id, lane               string
	kind                   string
	n, status              int
	class, reason          string
	at                     time.Time
	made                   bool // an attempt was made
	tenant, subject, topic string
}

// archived is the content of the archive when all is over.
type archived struct {
	messages  []archivedMessage
	events    []archivedEvent // of a delivery in the order in which they happened
	open      []archivedOpen
	endpoints map[string]archivedEndpoint
}

// archivedOpen is a row of what has not ended.
type archivedOpen struct{ id, lane, detail string }

// archivedEndpoint is a row of the archive's endpoints.
type archivedEndpoint struct {
	version int64
	record  []byte
	deleted bool
}

// read reads all of the archive.
func (k *keeper) read(ctx context.Context) (a *archived, err error) {
	c, err := pgx.Connect(ctx, k.server.URL())
	if err != nil {
		return nil, err
	}
	defer c.Close(ctx) //nolint:errcheck // it only read
	a = &archived{endpoints: map[string]archivedEndpoint{}}
	rows, err := c.Query(ctx, `select id, coalesce(tenant, ''), coalesce(subject, ''), topic, created, sha256(body)
		from hookladder.message order by id, created`)
	if err == nil {
		a.messages, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (m archivedMessage, err error) {
			return m, row.Scan(&m.id, &m.tenant, &m.subject, &m.topic, &m.created, &m.sum)
		})
	}
	if err != nil {
		return nil, err
	}
	rows, err = c.Query(ctx, `select id, lane, kind::text, n, status, coalesce(class, ''), coalesce(reason, ''), at, began is not null,
		coalesce(tenant, ''), coalesce(subject, ''), coalesce(topic, '') from hookladder.event order by id, lane, pos`)
	if err == nil {
		a.events, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (e archivedEvent, err error) {
			return e, row.Scan(&e.id, &e.lane, &e.kind, &e.n, &e.status, &e.class, &e.reason, &e.at, &e.made, &e.tenant, &e.subject, &e.topic)
		})
	}
	if err != nil {
		return nil, err
	}
	rows, err = c.Query(ctx, `select id, lane, row_to_json(o)::jsonb - 'head' - 'body' from hookladder.open o order by id, lane`)
	if err == nil {
		a.open, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (o archivedOpen, err error) {
			return o, row.Scan(&o.id, &o.lane, &o.detail)
		})
	}
	if err != nil {
		return nil, err
	}
	return a, k.readEndpoints(ctx, c, a)
}

func (k *keeper) readEndpoints(ctx context.Context, c *pgx.Conn, a *archived) error {
	rows, err := c.Query(ctx, `select id, version, record, deleted is not null from hookladder.endpoint`)
	if err != nil {
		return err
	}
	var id string
	var e archivedEndpoint
	_, err = pgx.ForEachRow(rows, []any{&id, &e.version, &e.record, &e.deleted}, func() error {
		a.endpoints[id] = e
		e.record = nil
		return nil
	})
	return err
}

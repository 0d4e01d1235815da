package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/deploy/kit/pgtest"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// sealKey is an ENCRYPTION_KEY, without which nothing is archived.
const sealKey = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="

// archived are the settings of instances that archive to a PostgreSQL.
func archived(url string) []string {
	return []string{"ARCHIVE_URL=" + url, "ENCRYPTION_KEY=" + sealKey}
}

// rows are the first columns of a query, as texts.
func rows(t testing.TB, url, query string, values ...any) (list []string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, err
	}
	defer c.Close(ctx) //nolint:errcheck // it only read
	r, err := c.Query(ctx, query, values...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(r, func(row pgx.CollectableRow) (text string, err error) {
		values, err := row.Values()
		if err == nil {
			text = fmt.Sprint(values[0])
		}
		return text, err
	})
}

// mustRows waits for rows as they should be.
func mustRows(t testing.TB, url, query string, want ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), kit.Patience)
	defer cancel()
	require.NoError(t, kit.Until(ctx, query, func() error {
		got, err := rows(t, url, query)
		if err == nil && !slices.Equal(got, want) {
			err = fmt.Errorf("%q", got)
		}
		return err
	}))
}

// Everything is killed, four times each, while messages come and go. In the end the archive
// has each delivery's end once, and nothing is unfinished there.
func TestTheArchiveOutlivesKillsOfEverything(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "appendfsync always")
	seed := rand.Uint64()
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 2))
	pg := pgtest.Start(t, pgtest.Options{})
	w.receiver.answers(failing(seed))
	settings := append(archived(pg.URL()), "LADDER=20ms,50ms,100ms,100ms,100ms,100ms,100ms,100ms,100ms", "DURABILITY=fsync")
	stays := w.serve(settings...)
	stays.troubled = true
	dies := w.serve(settings...)
	dies.troubled = true
	// What was accepted and ended before the archive began is not in it.
	eventually(t, "the archive has begun", func() bool { return strings.Contains(stays.metrics(), "\nhookladder_archive_up 1\n") })

	var mu sync.Mutex // guards acknowledged
	var acknowledged []string
	ctx, stop := context.WithCancel(t.Context())
	var publishing sync.WaitGroup
	for n := range 4 {
		publishing.Go(func() {
			for m := 0; ctx.Err() == nil; m++ {
				id := fmt.Sprintf("m-%d-%d", n, m)
				call, cancel := context.WithTimeout(ctx, 10*time.Second)
				_, err := stays.Publish(call, &wire.Message{ID: id, Topic: "t", URL: w.receiver.URL(n), Body: []byte("1"), Delay: wire.Duration(time.Duration(m%3) * 20 * time.Millisecond)})
				cancel()
				if err == nil {
					mu.Lock()
					acknowledged = append(acknowledged, id)
					mu.Unlock()
				}
				kit.Rest(ctx, often/2)
			}
		})
	}
	accepted := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(acknowledged)
	}
	victims := []int{0, 1, 2}
	for range 4 {
		random.Shuffle(len(victims), func(i, j int) { victims[i], victims[j] = victims[j], victims[i] })
		for _, v := range victims {
			from := accepted()
			eventually(t, "more is accepted", func() bool { return accepted() >= from+20 })
			switch v {
			case 0:
				pg.Kill()
				pg.Restart()
			case 1:
				w.redis.Kill()
				w.redis.Restart()
			case 2:
				dies.Kill()
				dies = w.serve(settings...)
				dies.troubled = true
			}
		}
	}
	stop()
	publishing.Wait()
	for _, id := range acknowledged {
		stays.until(id, "delivered")
	}
	ids, err := w.rdb.HKeys(t.Context(), "{default:0}:messages").Result()
	require.NoError(t, err) // also what was stored without an answer
	slices.Sort(ids)
	require.NoError(t, kit.Until(t.Context(), "all is archived", func() error {
		list, err := rows(t, pg.URL(), "select id from hookladder.message order by id")
		open, err2 := rows(t, pg.URL(), "select id from hookladder.open")
		if err != nil || err2 != nil || !slices.Equal(list, ids) || len(open) > 0 {
			return fmt.Errorf("%d are archived, of %d in the store, and %d unfinished: %w", len(list), len(ids), len(open), errors.Join(err, err2))
		}
		return nil
	}))
	const ends = "kind in ('d', 'x', 'c', '?', 'f')"
	ended, err := rows(t, pg.URL(), "select distinct id from hookladder.event where "+ends+" order by id")
	require.NoError(t, err)
	require.Equal(t, ids, ended, "each ended")
	twice, err := rows(t, pg.URL(), "select concat_ws(' ', id, kind, n, status, pos, at, began) from hookladder.event where id in (select id from hookladder.event where "+ends+" group by id having count(*) > 1) order by id, pos")
	require.NoError(t, err)
	require.Empty(t, twice, "each ended once")
	doubles, err := rows(t, pg.URL(), "select concat(id, ' ', n) from hookladder.event where kind = 'r' group by id, n having count(*) > 1")
	require.NoError(t, err)
	require.Empty(t, doubles, "no attempt is there twice")
	require.Contains(t, stays.log(), "archive back")
}

func TestDeliveriesGoOnWhileTheArchiveIsAwayAndItCatchesUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pg := pgtest.Start(t, pgtest.Options{})
	i := w.serve(archived(pg.URL())...)
	i.send("before")
	mustRows(t, pg.URL(), "select id from hookladder.event", "before")
	pg.Stop()
	ids := named("away", 50)
	for _, id := range ids {
		i.send(id)
	}
	i.untilAll("delivered", ids...)
	eventually(t, "it says so", func() bool {
		text := i.metrics()
		return strings.Contains(text, "\nhookladder_archive_up 0\n") && !strings.Contains(text, "\nhookladder_archive_lag_seconds 0\n")
	})
	require.Contains(t, i.log(), "archive lost: deliveries continue")
	_, text := i.call(http.MethodGet, "/readyz", "", nil)
	require.Contains(t, text, "the archive takes nothing: deliveries go on", "and it is ready")
	pg.Restart()
	mustRows(t, pg.URL(), "select count(*) from hookladder.event where kind = 'd'", "51")
	i.says("archive back")

	// One that starts while the archive is away delivers too.
	pg.Stop()
	second := w.serve(archived(pg.URL())...)
	second.send("late")
	second.until("late", "delivered")
	pg.Restart()
	mustRows(t, pg.URL(), "select count(*) from hookladder.event where kind = 'd'", "52")
}

func TestWhatIsUnfinishedWhenTheArchiveBeginsIsInIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	url := pgtest.New(t)
	before := w.serve("ENCRYPTION_KEY=" + sealKey)
	before.publish(wire.Message{ID: "old", URL: w.receiver.URL(0), Delay: hour})
	before.send("done")
	before.until("done", "delivered")
	after := w.serve(archived(url)...)
	mustRows(t, url, "select id from hookladder.open", "old")
	// An instance without the setting learns that there is an archive.
	eventually(t, "what it accepts is archived too", func() bool {
		id := fmt.Sprint("n", time.Now().UnixNano())
		before.send(id)
		before.until(id, "delivered")
		list, err := rows(t, url, "select id from hookladder.message where id = $1", id)
		return err == nil && len(list) == 1
	})
	after.says("compared the archive with the store")

	doctor := func() string {
		_, out := w.doctor(t, archived(url))
		return out
	}
	require.Contains(t, doctor(), "the archive was compared with the store since the last gap in the log")
	after.signal(syscall.SIGTERM)
	require.Zero(t, after.ExitCode())
	const gap = "(extract(epoch from now()) * 1000)::bigint"
	mustRows(t, url, "update hookladder.position set gap_ms = "+gap+", gap_seq = 0 where partition = 0 returning partition", "0")
	require.Contains(t, doctor(), " partitions are still to be compared with the archive, ")
}

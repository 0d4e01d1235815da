package redisq_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
)

// A usual call of a script is answered by its quick part, and any other call by the whole script. The
// same call on the same data, with and without the quick part, has to change the same keys and to return
// the same.
func TestAQuickPartDoesWhatTheWholeScriptDoes(t *testing.T) {
	t.Parallel()
	for name, args := range map[string]func(*quickCase) []any{
		"schedule": (*quickCase).schedule, "claim": (*quickCase).claim, "settle": (*quickCase).settle,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, "enable-debug-command yes")
			options, err := redis.ParseURL(server.URL())
			require.NoError(t, err)
			client := redis.NewClient(options)
			defer client.Close() //nolint:errcheck // the test is over

			quick, whole, only := redisq.QuickScripts(name)
			taken, left := 0, 0
			for seed := range uint64(300) {
				require.NoError(t, client.FlushAll(t.Context()).Err())
				q := newQuickCase(t.Context(), client, seed)
				args := args(q)
				before := mustDigest(t, client, "{o:0}")
				run := func(tag string, s conn.Script) (any, error) {
					return client.Eval(t.Context(), s.Text(), []string{tag}, args...).Result()
				}
				want, wantErr := run("{w:0}", whole)
				got, err := run("{q:0}", quick)
				require.Equal(t, wantErr == nil, err == nil, "seed %d: %v, %v", seed, wantErr, err)
				require.Equal(t, want, got, "seed %d", seed)
				require.Equal(t, mustDigest(t, client, "{w:0}"), mustDigest(t, client, "{q:0}"), "seed %d", seed)
				if _, err := run("{o:0}", only); err == nil {
					taken++
				} else {
					left++
					require.ErrorContains(t, err, "not usual", "seed %d", seed)
					require.Equal(t, before, mustDigest(t, client, "{o:0}"), "seed %d: a call that is not usual has changed something", seed)
				}
			}
			require.Greater(t, taken, 50)
			require.Greater(t, left, 50)
		})
	}
}

// mustDigest returns the digest of each key of a partition. A digest does not depend on the order of fields.
func mustDigest(t *testing.T, client *redis.Client, tag string) map[string]string {
	t.Helper()
	names, err := client.Keys(t.Context(), tag+"*").Result()
	require.NoError(t, err)
	digests := map[string]string{}
	for _, name := range names {
		digest, err := client.Do(t.Context(), "DEBUG", "DIGEST-VALUE", name).StringSlice()
		require.NoError(t, err)
		digests[strings.TrimPrefix(name, tag)] = digest[0]
	}
	return digests
}

// quickCase is the same random data in three partitions.
type quickCase struct {
	*rand.Rand
	ctx    context.Context
	client *redis.Client
	now    int64 // ms
	weird  bool  // some of the data are not usual
	lanes  []string
}

// newQuickCase puts what all scripts read.
func newQuickCase(ctx context.Context, client *redis.Client, seed uint64) *quickCase {
	r := rand.New(rand.NewPCG(seed, 1))
	q := &quickCase{Rand: r, ctx: ctx, client: client, now: 1795965766542 + r.Int64N(1000), weird: r.IntN(100) < 40}
	q.put("SET", ":clock", q.now*1000+r.Int64N(1000))
	q.put("HSET", ":limits", "~epoch", "e")
	for i := range 1 + q.IntN(4) {
		q.lanes = append(q.lanes, fmt.Sprintf("%s%d", q.one("u_", "u_", "ep_"), i))
	}
	if q.often(30) {
		q.put("ZADD", ":lanes", 2*int64(redisq.Turn)+q.now, "u_other")
	}
	if q.often(30) {
		q.put("ZADD", ":due", q.now+900, "u_x:y")
	}
	if q.often(20) {
		q.put("ZADD", ":parked", q.now+q.Int64N(100)-50, "u_parked")
	}
	if q.oddly(10) {
		q.put("HSET", ":limits", "*", q.one("0 0 0 0 p", "0 0 0 0 -"))
	}
	if q.oddly(10) {
		q.put("ZADD", ":fenced", q.now, q.one("one", "two"))
	}
	return q
}

func (q *quickCase) put(command, key string, values ...any) {
	for _, tag := range []string{"{w:0}", "{q:0}", "{o:0}"} {
		q.client.Do(q.ctx, append([]any{command, tag + key}, values...)...)
	}
}

func (q *quickCase) often(percent int) bool     { return q.IntN(100) < percent }
func (q *quickCase) oddly(percent int) bool     { return q.weird && q.often(percent) }
func (q *quickCase) one(texts ...string) string { return texts[q.IntN(len(texts))] }
func (q *quickCase) conf(most int) string {
	return fmt.Sprintf("%s %s 5 1000 %d 0 12ad 5578", q.one("8192", "3"), q.one("1024 2048", "8 8", "1024 1024"), most)
}

// putLane puts the state of a lane with so many deliveries in flight and in its ready list.
func (q *quickCase) putLane(lane string, flying, ready, waiting int) {
	q.put("HSET", ":in", lane, fmt.Sprintf("%d %d", flying, waiting))
	state := fmt.Sprintf("%d 0 0 0 0 0 %d 0 0", 1+q.IntN(5), q.IntN(9))
	if q.oddly(30) {
		state = q.one("4 3 0 0 0 0 1 0 0", fmt.Sprintf("4 0 1 %d 0 0 1 0 0", q.now+5000), fmt.Sprintf("4 0 0 0 0 0 1 %d 0 %d", q.now-50, q.now-5),
			fmt.Sprintf("4 0 0 0 %d 0 1 0 0", q.now*1000), "4 0 0 0 0 1 1 0 0", "0 0 0 0 0 0 1 0 0", "04 0 0 0 0 0 1 0 0", "4 0 0 0 0 0 9 0 0", "none")
	}
	q.put("HSET", ":lane", lane, state)
	if lane[0] == 'e' || q.often(10) {
		limits := q.one("7 0 0 0 -", "7 2 0 0 -", "7 300 0 0 -")
		if q.oddly(40) {
			limits = q.one("7 0 0 1 -", "7 0 1000 0 -", "7 0 0 0 p", "7 0 0 0 d", "7 0 0 0 x", "7 0 0 0 - t", "none")
		}
		q.put("HSET", ":limits", lane, limits)
	}
	for k := range ready {
		q.put("RPUSH", ":ready:"+lane, fmt.Sprintf("%d:r%d", q.now-9, k))
	}
	if q.often(30) {
		q.put("ZADD", q.one(":lanes", ":parked"), q.now-50, lane)
	}
}

// settle puts leases, and returns the arguments of a call that settles all of them.
func (q *quickCase) settle() []any {
	var outcomes, statuses, classes, lines []string
	if q.often(20) {
		q.put("ZADD", q.one(":done", ":dead"), q.now+900, "u_x:z")
		q.put("XADD", ":attempts", fmt.Sprintf("%d-1", q.now+900), "l", "-")
	}
	if q.often(20) {
		q.lanes = append(q.lanes, "q_jobs")
	}
	for _, lane := range q.lanes[:1+q.IntN(len(q.lanes))] {
		leases, waiting := 1+q.IntN(3)/2*q.IntN(3), q.IntN(3)
		q.putLane(lane, leases+q.IntN(2), waiting-q.IntN(2), waiting)
		for k := range leases {
			delivery := fmt.Sprintf("%s:m%d", lane, k)
			if !q.oddly(5) {
				q.put("ZADD", ":leases:one", q.now-q.Int64N(99), delivery)
			}
			if q.oddly(5) {
				q.put("HSET", q.one(":progress", ":marks"), delivery, q.one("1 0 0 500 0 - 0 0", "c"))
			}
			if q.often(5) {
				q.put("ZADD", q.one(":expiring", ":unopened"), q.now+90, delivery)
			}
			if q.often(5) {
				q.put("HSET", ":tokens", delivery, fmt.Sprintf("%d t w 1", q.now-9))
			}
			outcomes, classes = append(outcomes, delivery), append(classes, q.one("0", "1", "3", "8"))
			statuses, lines = append(statuses, q.one("200", "204")), append(lines, delivery+" d 200 1 1 -")
		}
	}
	if q.often(10) {
		q.put("HSET", ":jobs", "sent", q.now-q.Int64N(2)*90_000_000, "3", "1 0 0 0 0 0 0 -")
	}
	q.Shuffle(len(outcomes), func(i, j int) {
		outcomes[i], outcomes[j] = outcomes[j], outcomes[i]
		lines[i], lines[j] = lines[j], lines[i]
	})
	args := []any{"one", q.conf(0), 1, len(lines), strings.Join(lines, "\n"), "evidence", strings.Join(classes, ""), strings.Join(statuses, "")}
	for _, o := range outcomes {
		args = append(args, o)
	}
	return args
}

// entry is a message to a lane.
func (q *quickCase) entry(id, lane string) (e dispatcher.Entry, record []byte) {
	m := &dispatcher.Message{ID: id, URL: "https://merchant.example.com/hooks", Body: []byte(id), CreatedAt: time.UnixMilli(q.now - q.Int64N(2))}
	if q.oddly(5) {
		m.Subject, m.ExpiresAt = q.one("", "order_1"), m.CreatedAt.Add(time.Minute)
	}
	if q.oddly(5) {
		m.OrderingKey = "k"
	}
	if q.often(20) {
		m.Tenant = "t"
	}
	e = dispatcher.Entry{Message: m, Digest: m.Digest(), Lanes: []dispatcher.Lane{dispatcher.Lane(lane)}}
	record, _ = conn.EncodeRecord(e, m.CreatedAt, conn.Hiding{})
	return e, record
}

// schedule puts lanes, and returns the arguments of a call that publishes to them.
func (q *quickCase) schedule() []any {
	for _, lane := range q.lanes {
		if !q.oddly(10) {
			waiting := q.IntN(4)
			q.putLane(lane, q.IntN(4), max(waiting-q.IntN(3), 0), waiting)
		}
	}
	args := []any{"one", q.conf(q.IntN(10) / 9 * 4), q.one("1024", "8", "3", "0"), q.one("0", "2", "64"), "e"}
	if q.oddly(10) {
		args[4] = "other"
	}
	if q.often(30) {
		args = append(args, "\na u_1")
	}
	for k := range 1 + q.IntN(6) {
		id := fmt.Sprintf("m%d", k)
		if q.oddly(5) {
			id = "m0"
		}
		_, record := q.entry(id, q.lanes[q.IntN(len(q.lanes))])
		if q.oddly(5) {
			q.put("HSET", ":messages", id, record)
		}
		when := q.one("+0", "+0", "+0", "+500")
		if q.oddly(5) {
			when = q.one("@1", "*+0")
		}
		args = append(args, id, record, when)
	}
	return args
}

// claim puts ready deliveries, and returns the arguments of a call that leases some.
func (q *quickCase) claim() []any {
	for _, lane := range q.lanes {
		ready := q.IntN(14)
		q.putLane(lane, q.IntN(3), ready, ready+q.IntN(2))
		if ready > 0 && !q.oddly(5) {
			weight := int64(q.IntN(3) / 2 * q.IntN(3))
			q.put("ZREM", ":parked", lane)
			q.put("ZADD", ":lanes", weight*int64(redisq.Turn)+q.now-int64(q.IntN(50)), lane)
		}
		for k := range ready {
			id := fmt.Sprintf("r%d", k)
			_, record := q.entry(id, lane)
			if !q.oddly(1) {
				q.put("HSET", ":messages", id, record)
			}
			if q.often(5) {
				q.put("HSET", ":progress", lane+":"+id, q.one("1 0 0 500 0 - 0 0", "1 0 1 500 0 - 0 0"))
			}
			if q.oddly(2) {
				q.put("HSET", q.one(":progress", ":marks"), lane+":"+id, q.one("2 0 2 500 0 - 0 0", "c"))
			}
			if q.oddly(2) {
				q.put("ZADD", ":expiring", q.now-1, lane+":"+id)
			}
		}
	}
	if q.often(50) {
		q.put("ZREM", ":lanes", "u_other")
	}
	return []any{"one", q.conf(0), q.one("1", "4", "64"), q.one("1024", "8", "4"), q.one("1048576", "1048576", "300"), "2", q.one("0", "1")}
}

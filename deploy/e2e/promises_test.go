package e2e_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// What befalls a process in the middle of a load.
const (
	killDispatcher = "kill -9 dispatcher"
	killRedis      = "kill -9 redis"
	killSlow       = "kill -9 redis on a slow disk"
	losePower      = "power loss"
	failOver       = "failover"
)

const (
	slowDisk      = 300 * time.Millisecond // longer for each fsync: a disk that others keep busy
	replicaBehind = 50 * time.Millisecond  // how far a replica on another continent is
)

// promise is one cell of the table of what may be lost.
type promise struct {
	durability  string
	appendfsync string
	fault       string
}

func (p promise) String() string {
	return fmt.Sprintf("%s, appendfsync %s, %s", p.durability, p.appendfsync, p.fault)
}

// remains is what became of a load.
type remains struct {
	accepted int
	lost     int
	oldest   time.Duration // of what was lost: how long before the fault it was acknowledged
}

// befall loads a dispatcher on a Redis of its own with callers that publish as
// fast as they can, until enough; then the fault happens. What died is started
// again, and what was acknowledged and is not there is counted.
func (p promise) befall(t testing.TB, binary string, callers int, enough func(*burst)) remains {
	t.Helper()
	var master *redistest.Server
	if p.fault == killSlow {
		master = redistest.StartOnDisk(t, slowDisk, "appendfsync "+p.appendfsync)
	} else {
		master = redistest.StartWatched(t, "appendfsync "+p.appendfsync)
	}
	heir, way := master, redistest.NewProxy(t, master.Addr())
	if p.fault == failOver || strings.HasPrefix(p.durability, "replicas") {
		heir = redistest.StartReplica(t, master, "replicaof "+strings.ReplaceAll(way.Addr(), ":", " "))
		way.Delay(replicaBehind)
	}
	w := newWorldOn(t, master.URL(), "DURABILITY="+p.durability, "LOG_LEVEL=info")
	w.binary = binary
	i := w.serve()
	i.troubled = true
	crowd := &burst{i: i, t: t, taken: map[string]time.Time{}}
	for n := range callers {
		crowd.wg.Go(func() { crowd.run(n) })
	}
	enough(crowd)
	at := time.Now()
	switch p.fault {
	case killDispatcher:
		i.Kill()
	case killRedis, killSlow:
		master.Kill()
	case failOver:
		way.Cut() // what is on its way never arrives
		master.Kill()
	case losePower:
		master.LosePower()
	}
	i.Kill()
	crowd.wg.Wait()
	if p.fault == failOver {
		promote(t, heir)
	} else {
		heir = master
		heir.Restart()
	}
	return crowd.compare(heir, at)
}

// burst is callers that publish until the first error.
type burst struct {
	t  testing.TB
	i  *instance
	wg sync.WaitGroup

	mu    sync.Mutex           // guards taken
	taken map[string]time.Time // when it was acknowledged
}

func (b *burst) run(caller int) {
	for n := 0; ; n++ {
		id := fmt.Sprintf("m-%d-%d", caller, n)
		m := wire.Message{ID: id, Topic: "t", URL: "http://127.0.0.1:9/", Body: []byte(`{"pad":"` + strings.Repeat("x", 1000) + `"}`), Delay: hour}
		if _, err := b.i.Client.Publish(b.t.Context(), &m); err != nil {
			return
		}
		b.mu.Lock()
		b.taken[id] = time.Now()
		b.mu.Unlock()
	}
}

func (b *burst) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.taken)
}

// compare looks for what was taken in what a server has.
func (b *burst) compare(server *redistest.Server, at time.Time) remains {
	b.t.Helper()
	client := mustConnect(b.t, server)
	have := map[string]bool{}
	ids, err := client.HKeys(b.t.Context(), "{default:0}:messages").Result()
	require.NoError(b.t, err)
	for _, id := range ids {
		have[id] = true
	}
	due, err := client.ZCard(b.t.Context(), "{default:0}:due").Result()
	require.NoError(b.t, err)
	require.Len(b.t, ids, int(due), "each message that is kept waits for its time")
	k := remains{accepted: len(b.taken)}
	for id, taken := range b.taken {
		if !have[id] {
			k.lost++
			k.oldest = max(k.oldest, at.Sub(taken))
		}
	}
	return k
}

// promote makes a replica a master.
func promote(t testing.TB, replica *redistest.Server) {
	t.Helper()
	require.NoError(t, mustConnect(t, replica).ReplicaOf(t.Context(), "NO", "ONE").Err())
}

// waitsForDisk reports whether redis-server, with appendfsync everysec, can be
// asked to wait for its disk: it has WAITAOF, and that does wait. Some versions
// answer at once, though the disk is written to once a second.
func waitsForDisk(t testing.TB) bool {
	t.Helper()
	server := redistest.Start(t)
	if !redistest.Knows(t, server.URL(), "WAITAOF") {
		return false
	}
	conn := mustConnect(t, server).Conn()
	defer conn.Close()
	least := time.Hour // a busy machine makes one wait now and then, not each time
	for n := range 4 {
		begun := time.Now()
		require.NoError(t, conn.Set(t.Context(), "a", "1", 0).Err())
		require.NoError(t, conn.Do(t.Context(), "WAITAOF", 1, 0, 60_000).Err())
		if n > 0 { // the first may meet the disk's turn
			least = min(least, time.Since(begun))
		}
	}
	return least > 200*time.Millisecond
}

// nothingLost are the promises that nothing is lost at all.
func nothingLost(waitsForDisk bool) []promise {
	cells := []promise{
		{"none", "no", killDispatcher},
		{"none", "always", killSlow},
		{"none", "always", losePower},
		{"fsync", "always", killSlow},
		{"fsync", "always", losePower},
		{"replicas:1", "no", failOver},
	}
	if waitsForDisk {
		cells = append(cells, promise{"fsync", "everysec", killSlow}, promise{"fsync", "everysec", losePower})
	}
	return cells
}

// Where the store can't be asked to wait, DURABILITY=fsync needs appendfsync
// always, and a start says so.
func TestFsyncIsRefusedWhereItWouldNotHold(t *testing.T) {
	t.Parallel()
	settings := []string{"appendfsync no"}
	if !waitsForDisk(t) {
		settings = append(settings, "appendfsync everysec")
	}
	for _, setting := range settings {
		server := redistest.Start(t, setting)
		out := mustRun(t, []string{"REDIS_URL=" + server.URL(), "DURABILITY=fsync", "LISTEN=127.0.0.1:0"}, "", "serve")
		require.NotZero(t, out.code, setting)
		require.Contains(t, out.err+out.out, "appendfsync always", setting)
	}
}

func TestNothingIsLostWherePromised(t *testing.T) {
	t.Parallel()
	for _, p := range nothingLost(waitsForDisk(t)) {
		t.Run(p.String(), func(t *testing.T) {
			t.Parallel()
			k := p.befall(t, mustBinary(t), 16, func(b *burst) {
				eventually(t, "a load", func() bool { return b.count() >= 100 })
			})
			require.Zero(t, k.lost, "of %d, the oldest acknowledged %s before", k.accepted, k.oldest)
		})
	}
}

// BenchmarkPromises measures for each DURABILITY, appendfsync and fault what is
// lost of what was acknowledged, while 64 callers publish as fast as they can:
//
//	go test ./deploy/e2e -run '^$' -bench Promises -benchtime 1x -count 3
//
// oldest-ms is how long before the fault the oldest of what was lost had been
// acknowledged. The replica of a failover is 50 ms away. A power loss keeps
// exactly what fsync had put on the disk, though a system may have written more
// by itself.
func BenchmarkPromises(b *testing.B) {
	binary := mustFastBinary(b)
	waits := waitsForDisk(b)
	for _, durability := range []string{"none", "fsync", "replicas:1"} {
		for _, appendfsync := range []string{"no", "everysec", "always"} {
			if durability == "fsync" && appendfsync != "always" && (!waits || appendfsync == "no") {
				continue // it does not start
			}
			for _, fault := range []string{killDispatcher, killRedis, killSlow, losePower, failOver} {
				p := promise{durability, appendfsync, fault}
				b.Run(strings.ReplaceAll(p.String(), ", ", "/"), func(b *testing.B) {
					var sum remains
					for b.Loop() {
						k := p.befall(b, binary, 64, func(*burst) { <-time.After(2 * time.Second) })
						sum = remains{sum.accepted + k.accepted, sum.lost + k.lost, max(sum.oldest, k.oldest)}
					}
					b.ReportMetric(0, "ns/op")
					b.ReportMetric(float64(sum.accepted)/float64(b.N), "accepted")
					b.ReportMetric(float64(sum.lost)/float64(b.N), "lost")
					b.ReportMetric(float64(sum.oldest.Milliseconds()), "oldest-ms")
				})
			}
		}
	}
}

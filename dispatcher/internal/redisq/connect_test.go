package redisq_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

func TestAModeThatIsNotThereIsRefused(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	text := filepath.Join(t.TempDir(), "text")
	require.NoError(t, os.WriteFile(text, []byte("no certificate"), 0o600))
	for name, c := range map[string]struct {
		o    redisq.Options
		want string
	}{
		"a single one is no cluster":        {redisq.Options{Mode: conn.ModeCluster}, "the server is not a node of a cluster"},
		"several addresses are a cluster's": {redisq.Options{URL: server.URL() + "?addr=" + server.Addr()}, "the server is not a node of a cluster"},
		"several addresses are not one":     {redisq.Options{Mode: conn.ModeSingle, URL: server.URL() + "?addr=127.0.0.1:1"}, "has several addr="},
		"an unknown mode":                   {redisq.Options{Mode: "ring"}, `REDIS_MODE="ring" is not`},
		"sentinels without a name":          {redisq.Options{Mode: conn.ModeSentinel}, "needs REDIS_MASTER"},
		"a name without sentinels":          {redisq.Options{Mode: conn.ModeSingle, Master: "m"}, "REDIS_MASTER=m is for sentinels"},
		"a server that is no sentinel":      {redisq.Options{Master: "m"}, "unknown command"},
		"a cluster's only database":         {redisq.Options{Mode: conn.ModeCluster, URL: "redis://127.0.0.1:1/3"}, "names database 3"},
		"reading from replicas":             {redisq.Options{Mode: conn.ModeCluster, URL: "redis://127.0.0.1:1?read_only=true"}, "replicas are behind"},
		"reading from a sentinel's replicas": {redisq.Options{Master: "m", URL: "redis://127.0.0.1:1?route_randomly=true"},
			"replicas are behind"},
		"a parameter that nobody knows":  {redisq.Options{URL: "redis://127.0.0.1:1?colour=red"}, "bad REDIS_URL: it has a parameter that go-redis does not know"},
		"a certificate without TLS":      {redisq.Options{CAFile: text}, "REDIS_CA_FILE needs a REDIS_URL that begins with rediss://"},
		"a file without a certificate":   {redisq.Options{URL: "rediss://127.0.0.1:1", CAFile: text}, "holds no PEM block"},
		"nobody there":                   {redisq.Options{URL: "redis://127.0.0.1:1"}, "queue unavailable"},
		"nobody there, said to be one":   {redisq.Options{URL: "redis://127.0.0.1:1", Mode: conn.ModeSingle}, "queue unavailable"},
		"nobody there, of several":       {redisq.Options{URL: "redis://127.0.0.1:1?addr=127.0.0.1:2"}, "queue unavailable"},
		"no sentinel there":              {redisq.Options{URL: "redis://127.0.0.1:1", Master: "m"}, "queue unavailable"},
		"a URL that is none":             {redisq.Options{URL: "redis://:secretword@[::1"}, "bad REDIS_URL"},
		"a slash in the password":        {redisq.Options{URL: "redis://:12345/secretword@127.0.0.1:1"}, "percent-encode / ? # @"},
		"a query in the password":        {redisq.Options{URL: "redis://:12345?secretword=1"}, "a parameter that go-redis does not know"},
		"a database that is none":        {redisq.Options{URL: "redis://:secretword@127.0.0.1/x"}, "bad REDIS_URL"},
		"TLS that is not there":          {redisq.Options{URL: strings.Replace(server.URL(), "redis://", "rediss://", 1)}, "does this port speak TLS?"},
		"a password that is another one": {redisq.Options{URL: strings.Replace(server.URL(), "redis://", "redis://nobody:secretword@", 1)}, "WRONGPASS"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.o.URL == "" {
				c.o.URL = server.URL()
			}
			c.o.Project = "refused"
			store, err := redisqtest.OpenRaw(t.Context(), c.o)
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), "secretword")
			require.Nil(t, store)
		})
	}
}

// What the URL says of a user is the master's: the sentinel knows none.
func TestSentinelsLeadToTheMaster(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	master := redistest.Start(t)
	replica := redistest.StartReplica(t, master)
	for _, server := range []*redistest.Server{master, replica} {
		setUser(t, server, "worker", "+@all")
	}
	sentinels := redistest.StartSentinels(t, master, 1, "orders")
	options := redisq.Options{
		URL: strings.Replace(sentinels.URL(), "redis://", "redis://worker:secret@", 1), Master: sentinels.Name(),
		Project: "sentinel", LaneMaxInFlight: 128, Permits: 1024, Log: slog.New(slog.DiscardHandler),
		Durability: dispatcher.Durability{Replicas: 1},
	}
	store := openTestStore(t, options)
	who, err := store.Client().Do(ctx, "acl", "whoami").Text()
	require.NoError(t, err)
	require.Equal(t, "worker", who)
	heard := make(chan struct{}, 100)
	var watch sync.WaitGroup
	defer watch.Wait()
	watching, stop := context.WithCancel(ctx)
	defer stop()
	watch.Go(func() {
		for watching.Err() == nil {
			_ = store.Queue().Watch(watching, "one", dispatcher.Subscriber{OnGap: func() {
				select {
				case heard <- struct{}{}:
				default:
				}
			}})
		}
	})
	<-heard
	require.NoError(t, schedule(ctx, store, faultEntries(3, 0)...))

	// The old master is told some seconds after the sentinels agreed that it is a
	// replica now. Until then it takes what reaches it, and forgets it afterwards: so
	// it must not acknowledge it, of which the wait for a replica keeps it.
	require.Equal(t, replica.Addr(), sentinels.Failover())
	took := eventually(t, "accepting at the new master", func(ctx context.Context) error {
		return schedule(ctx, store, faultEntries(5, 0)...)
	})
	t.Logf("accepted %s after the sentinels agreed", took.Round(time.Millisecond))
	mustFollow(t, master, replica)
	select {
	case <-heard: // it may know less
	case <-time.After(patient):
		t.Error("nobody was told of the takeover")
	}
	st, err := store.Stats(ctx)
	require.NoError(t, err)
	require.Equal(t, int64(5), st.Counts[dispatcher.StatusReady])

	for name, c := range map[string]struct {
		change func(o *redisq.Options)
		want   string
	}{
		"another master":       {func(o *redisq.Options) { o.Master = "nobody" }, `REDIS_MASTER: no sentinel knows a master named "nobody"`},
		"a password of theirs": {func(o *redisq.Options) { o.URL += "?sentinel_password=wrong&sentinel_username=nobody" }, "set sentinel_username= and sentinel_password="},
	} {
		o := options
		c.change(&o)
		_, err = redisqtest.OpenRaw(ctx, o)
		require.ErrorIs(t, err, conn.ErrSettings, name)
		require.ErrorContains(t, err, c.want, name)
	}
}

// mustFollow fails the test where a server is no replica of another.
func mustFollow(t *testing.T, replica, master *redistest.Server) {
	t.Helper()
	role, err := adminOf(t, replica).Do(t.Context(), "role").Slice()
	require.NoError(t, err)
	require.Equal(t, []any{"slave", "127.0.0.1", int64(master.Port())}, role[:3])
}

// setUser makes a user with the password secret.
func setUser(t *testing.T, server *redistest.Server, name string, rules ...string) {
	t.Helper()
	opts, err := redis.ParseURL(server.URL())
	require.NoError(t, err)
	client := redis.NewClient(opts)
	defer client.Close()
	args := []any{"acl", "setuser", name, "reset", "on", ">secret", "~*", "&*"}
	for _, rule := range rules {
		args = append(args, rule)
	}
	require.NoError(t, client.Do(t.Context(), args...).Err())
}

func TestTLSTrustsTheFileGiven(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	addr, roots := startTLS(t, server.Addr(), "127.0.0.1")
	options := redisq.Options{
		URL: "rediss://" + addr, Project: "tls", LaneMaxInFlight: 128, Permits: 1024, CAFile: roots, Log: slog.New(slog.DiscardHandler),
	}
	for _, mode := range []conn.Mode{conn.ModeAuto, conn.ModeSingle} {
		options.Mode = mode
		require.NoError(t, openTestStore(t, options).Ping(t.Context()))
	}
	unknown := options
	unknown.CAFile = ""
	_, err := redisqtest.OpenRaw(t.Context(), unknown)
	require.ErrorIs(t, err, dispatcher.ErrUnavailable)
	require.ErrorContains(t, err, "certificate")
	unknown.URL += "?skip_verify=true"
	require.NoError(t, openTestStore(t, unknown).Ping(t.Context()))
}

// A sentinel reports its master by an address, and each server has a certificate of its own.
func TestTheCertificateOfEachServerIsForItsOwnAddress(t *testing.T) {
	t.Parallel()
	cert, key := kit.MustCertificate(t.TempDir(), "127.0.0.1")
	master := redistest.StartTLS(t, &kit.RedisTLS{Cert: cert, Key: key, CA: cert})
	sentinels := redistest.StartSentinels(t, master, 1, "orders")
	addr, roots := startTLS(t, sentinels.Nodes()[0].Addr(), "localhost")
	_, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	text, err := os.ReadFile(cert)
	require.NoError(t, err)
	more, err := os.ReadFile(roots)
	require.NoError(t, err)
	both := filepath.Join(t.TempDir(), "both.pem")
	require.NoError(t, os.WriteFile(both, append(text, more...), 0o600))
	options := redisq.Options{
		URL: "rediss://localhost:" + port, Mode: conn.ModeSentinel, Master: "orders", CAFile: both,
		Project: "tls", LaneMaxInFlight: 128, Permits: 1024, Log: slog.New(slog.DiscardHandler),
	}
	require.NoError(t, openTestStore(t, options).Ping(t.Context()))

	options.CAFile = roots
	_, err = redisqtest.OpenRaw(t.Context(), options)
	require.ErrorContains(t, err, "certificate", "nobody vouches for the master")
	other, otherKey := kit.MustCertificate(t.TempDir(), "redis.example")
	wrong := redistest.StartTLS(t, &kit.RedisTLS{Cert: other, Key: otherKey, CA: other})
	_, err = redisqtest.OpenRaw(t.Context(), redisq.Options{
		URL: fmt.Sprintf("rediss://127.0.0.1:%d", wrong.TLSPort), CAFile: other, Project: "tls", LaneMaxInFlight: 128, Permits: 1024, Log: slog.New(slog.DiscardHandler),
	})
	require.ErrorContains(t, err, "certificate", "it is for another server")
}

// startTLS is a way to a server through TLS, and a file with whom to trust. The certificate is
// valid for the hosts.
func startTLS(t *testing.T, target string, hosts ...string) (addr, roots string) {
	t.Helper()
	roots, key := kit.MustCertificate(t.TempDir(), hosts...)
	pair, err := tls.LoadX509KeyPair(roots, key)
	require.NoError(t, err)
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}})
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
			for _, pair := range [][2]net.Conn{{near, far}, {far, near}} {
				serving.Go(func() {
					_, _ = io.Copy(pair[0], pair[1]) // until either ends
					_ = near.Close()
					_ = far.Close()
				})
			}
		}
	})
	return ln.Addr().String(), roots
}

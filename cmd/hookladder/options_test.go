package main

import (
	"bytes"
	"log/slog"
	"net/netip"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/cmd/hookladder/internal/settings"
	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/app"
	"github.com/hookladder/hookladder/signer"
)

const testKey = "hk_0123456789abcdef:admin"

// testSealKey is an ENCRYPTION_KEY, the base64 of 32 bytes.
const testSealKey = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="

func mustRead(t testing.TB, environ map[string]string) (settings.Settings, []settings.Found) {
	t.Helper()
	s, found, err := settings.Read(settings.Sources{Environ: environ})
	require.NoError(t, err)
	return s, found
}

func TestEverySettingReachesTheProcess(t *testing.T) {
	secret := signer.NewSecret()
	cert, key := kit.MustCertificate(t.TempDir())
	s, found := mustRead(t, map[string]string{
		"LISTEN": "127.0.0.1:1", "PROJECT": "p", "REDIS_URL": "rediss://r:2", "REDIS_MODE": "sentinel", "REDIS_MASTER": "m",
		"REDIS_CA_FILE": cert, "DURABILITY": "replicas:1", "WAKE": "poll", "METRICS_LISTEN": ":24", "PARTITIONS": "3", "API_KEYS": testKey,
		"SIGNING_SECRET": secret.Reveal(), "LADDER": "4s", "LADDER_JITTER": "0.5", "SUCCESS": "206", "ATTEMPT_TIMEOUT": "6s",
		"MAX_IN_FLIGHT": "7", "MAX_IN_FLIGHT_BYTES": "2MiB", "MAX_CONNECTIONS": "24", "ENDPOINT_MAX_IN_FLIGHT": "8", "CLAIM_BATCH": "9", "FANOUT_MAX": "12", "QUICK_RETRIES": "2", "OPS_URL": "https://ops.example/token",
		"ARCHIVE_URL": "postgres://u:p@h/d", "ARCHIVE_BODIES": "failed", "ARCHIVE_BACKLOG": "27MiB", "ARCHIVE_RETENTION": "28d",
		"OUTBOX_URL": "postgres://u:p@h/shop",
		"PUBLIC_URL": "https://hooks.example/pay/", "CONSOLE": "off", "CONSOLE_NAME": "Shop", "CONSOLE_LOGO": "https://a.example/logo.png", "CONSOLE_COLOR": "#012345",
		"ALLOW_NETS": "10.0.0.0/8:9000", "LINK_ALLOW_NETS": "10.2.0.0/16", "TRUSTED_PROXIES": "10.1.0.0/16", "HTTPS_ONLY": "true", "MAX_BODY": "11KiB", "EXCERPT": "12B", "RETENTION": "13s",
		"RETENTION_MAX": "14", "DEDUP_MAX": "15", "DEAD_RETENTION": "16s", "DEAD_MAX": "17", "GUARD_INTERVAL": "18s",
		"SHUTDOWN_GRACE": "19s", "SHUTDOWN_DELAY": "29s", "BREAKER": "20/21s", "FAILING_AFTER": "25s", "DISABLE_AFTER": "26s", "ENDPOINT_MAX_WAITING": "22", "EGRESS_PROXY": "http://proxy.example:23",
		"SIGNING_DERIVE": "tenant", "ENCRYPTION_KEY": testSealKey, "USER_AGENT": "Notifier 2", "HEADER_PREFIX": "x-pay-",
		"EGRESS_CA_FILE": cert, "EGRESS_CERT_FILE": cert, "EGRESS_KEY_FILE": key,
	})
	o := options(s, found)
	require.Len(t, o.Console.Settings, len(found))
	for _, one := range o.Console.Settings {
		for _, hidden := range []string{testKey, secret.Reveal(), "u:p@", "/token"} {
			require.NotContains(t, one.Value, hidden, one.Name)
		}
	}
	require.Contains(t, o.Console.Settings, app.Setting{Name: "LADDER", Value: "4s", Source: "environment"})
	o.Console.Settings = nil // all settings, once more
	require.Equal(t, app.Options{
		Listen: "127.0.0.1:1", Project: "p", RedisURL: "rediss://r:2", Partitions: 3,
		RedisMode: "sentinel", RedisMaster: "m", RedisCAFile: cert, Durability: dispatcher.Durability{Replicas: 1}, Poll: true,
		MetricsListen: ":24", Keys: s.APIKeys, MaxConnections: 24,
		LaneMaxInFlight: 8, MaxWaiting: 22, BreakerFailures: 20, BreakerWait: 21 * time.Second, QuickRetries: 2, OpsURL: "https://ops.example/token",
		Archive: app.ArchiveOptions{URL: "postgres://u:p@h/d", Bodies: "failed", Backlog: 27 << 20, Retention: 28 * 24 * time.Hour}, OutboxURL: "postgres://u:p@h/shop",
		Console: app.ConsoleOptions{
			Off: true, PublicURL: &url.URL{Scheme: "https", Host: "hooks.example", Path: "/pay"}, Name: "Shop", Logo: "https://a.example/logo.png", Color: "#012345",
		},
		Seal: s.EncryptionKey.Box, Proxy: &url.URL{Scheme: "http", Host: "proxy.example:23"}, CAFile: cert, CertFile: cert, KeyFile: key, AllowNets: []app.Net{{Prefix: netip.MustParsePrefix("10.0.0.0/8"), Port: 9000}},
		LinkNets: []app.Net{{Prefix: netip.MustParsePrefix("10.2.0.0/16")}}, Proxies: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")},
		HTTPSOnly: true, MaxBody: 11 << 10, Version: release(), Delay: 29 * time.Second,
		Engine: app.EngineOptions{
			Secrets: []signer.Secret{secret}, Ladder: s.Ladder, Jitter: 0.5, Success: s.Success, Timeout: 6 * time.Second, FailingAfter: 25 * time.Second, DisableAfter: 26 * time.Second,
			DeriveTenant: true, MaxInFlight: 7, MaxBytes: 2 << 20, ClaimBatch: 9, FanoutMax: 12, Excerpt: 12, PollEvery: 18 * time.Second, Grace: 19 * time.Second,
			UserAgent: "Notifier 2", HeaderPrefix: "x-pay-",
			Keep: dispatcher.Keep{
				Finished: 13 * time.Second, FinishedMax: 14, SeenMax: 15, Dead: 16 * time.Second, DeadMax: 17, Backlog: 27 << 20,
			},
		},
	}, o)
	require.Equal(t, "4s", s.Ladder.String())
	require.NotNil(t, s.EncryptionKey.Box)
}

func TestListenOffMeansNoAPI(t *testing.T) {
	require.Empty(t, options(mustRead(t, map[string]string{"LISTEN": "off"})).Listen)
}

func TestTheLogIsAsAskedFor(t *testing.T) {
	lines := func(environ map[string]string) string {
		var out bytes.Buffer
		s, found := mustRead(t, environ)
		log := newLog(s, found, &out)
		log.Debug("quiet")
		log.Warn("loud")
		return out.String()
	}
	require.Contains(t, lines(nil), `"level":"WARN","msg":"loud"`)
	require.NotContains(t, lines(nil), "quiet")
	require.Contains(t, lines(map[string]string{"LOG_FORMAT": "text"}), "level=WARN msg=loud")
	require.Contains(t, lines(map[string]string{"LOG_LEVEL": slog.LevelDebug.String()}), "quiet")
}

func TestListenWinsOverPort(t *testing.T) {
	for want, environ := range map[string]map[string]string{
		"127.0.0.1:8080": {},
		":80":            {"PORT": "80"},
		"[::1]:99":       {"PORT": "80", "LISTEN": "[::1]:99"},
		"off":            {"PORT": "80", "LISTEN": "off"},
	} {
		require.Equal(t, want, listenAddr(mustRead(t, environ)))
	}
}

package settings

import (
	"encoding/base64"
	"errors"
	"io/fs"
	"log/slog"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/app"
	"github.com/hookladder/hookladder/ladder"
	"github.com/hookladder/hookladder/signer"
)

const testKey = "hk_0123456789abcdef:admin"

// testSealKey is an ENCRYPTION_KEY, the base64 of 32 bytes.
const testSealKey = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="

func mustRead(t testing.TB, environ map[string]string) (Settings, []Found) {
	t.Helper()
	s, found, err := Read(Sources{Environ: environ})
	require.NoError(t, err)
	return s, found
}

func TestAnEmptyEnvironmentGivesTheDefaultsOfTheContract(t *testing.T) {
	s, found := mustRead(t, nil)
	require.Equal(t, "127.0.0.1:8080", s.Listen)
	require.Equal(t, "default", s.Project)
	require.Equal(t, ladder.Default(), s.Ladder)
	require.Equal(t, 15*time.Second, s.AttemptTimeout)
	require.Equal(t, 4096, s.MaxInFlight)
	require.Equal(t, 128, s.LaneMaxInFlight)
	require.Zero(t, s.MaxWaiting)
	require.Equal(t, Breaker{Failures: 20, Wait: 30 * time.Second}, s.Breaker)
	require.Equal(t, "none", s.SigningDerive)
	require.Equal(t, "auto", s.RedisMode)
	require.Equal(t, "auto", s.Wake)
	require.False(t, s.Durability.Waits())
	require.Nil(t, s.EgressProxy)
	require.Equal(t, Size(256<<10), s.MaxBody)
	require.Equal(t, Size(1<<10), s.Excerpt)
	require.Equal(t, 24*time.Hour, s.Retention)
	require.Equal(t, 720*time.Hour, s.DeadRetention)
	require.Equal(t, 20*time.Second, s.ShutdownGrace)
	require.Equal(t, slog.LevelInfo, s.LogLevel)
	require.True(t, s.Success.Status(204))
	require.False(t, s.Success.Status(302))
	require.True(t, s.APIKeys.Empty())
	require.Empty(t, s.SigningSecret)
	for _, c := range found {
		require.Equal(t, SourceDefault, c.Source, c.Name)
	}
}

func TestEverySettingIsRead(t *testing.T) {
	secret := signer.NewSecret()
	cert, key := kit.MustCertificate(t.TempDir())
	given := map[string]string{
		"LISTEN": "off", "PORT": "9999", "PROJECT": "pay-1", "REDIS_URL": "rediss://u:p@redis.example:6380/2",
		"REDIS_MODE": "sentinel", "REDIS_MASTER": "pay", "REDIS_CA_FILE": cert, "WAKE": "poll", "DATA_DIR": "", "METRICS_LISTEN": "127.0.0.1:9090",
		"PARTITIONS": "8", "DURABILITY": "replicas:2", "API_KEYS": testKey, "SIGNING_SECRET": secret.Reveal(),
		"LADDER": "10 30/1d", "LADDER_JITTER": "0.25", "SUCCESS": "2xx,404", "ATTEMPT_TIMEOUT": "10",
		"MAX_IN_FLIGHT": "0", "MAX_IN_FLIGHT_BYTES": "64MiB", "MAX_CONNECTIONS": "900", "ENDPOINT_MAX_IN_FLIGHT": "7", "CLAIM_BATCH": "5", "FANOUT_MAX": "3", "QUICK_RETRIES": "0",
		"ALLOW_NETS": "10.0.0.0/8, 192.168.1.7,127.0.0.0/8:9000, fd00::/8:9000,[::1]:9000,10.1.2.8:9001", "LINK_ALLOW_NETS": "10.2.0.0/16", "TRUSTED_PROXIES": "10.1.0.0/16", "HTTPS_ONLY": "true", "MAX_BODY": "1MiB", "EXCERPT": "2000",
		"RETENTION": "1d", "RETENTION_MAX": "10", "DEDUP_MAX": "20", "DEAD_RETENTION": "30d", "DEAD_MAX": "30",
		"GUARD_INTERVAL": "5s", "SHUTDOWN_GRACE": "0s", "SHUTDOWN_DELAY": "5s", "LOG_LEVEL": "debug", "LOG_FORMAT": "text",
		"BREAKER": "5/1m", "FAILING_AFTER": "1h", "DISABLE_AFTER": "2d", "ENDPOINT_MAX_WAITING": "9", "SIGNING_DERIVE": "tenant",
		"ENCRYPTION_KEY": testSealKey, "EGRESS_PROXY": "http://u:p@proxy.example:3128", "OPS_URL": "https://ops.example/token",
		"OUTBOX_URL": "postgres://u:p@db.example/shop",
		"PUBLIC_URL": "https://hooks.example", "CONSOLE": "off", "CONSOLE_NAME": "Shop", "CONSOLE_LOGO": "https://a.example/logo.png", "CONSOLE_COLOR": "#012345",
		"ARCHIVE_URL": "postgres://u:p@db.example/a", "ARCHIVE_BODIES": "none", "ARCHIVE_BACKLOG": "1GiB", "ARCHIVE_RETENTION": "3650d",
		"EGRESS_CA_FILE": cert, "EGRESS_CERT_FILE": cert, "EGRESS_KEY_FILE": key, "USER_AGENT": "Notifier/2.0 (+https://a.example)", "HEADER_PREFIX": "a-",
	}
	for _, row := range Table() {
		require.Contains(t, given, row.Name, "this test has to know every setting")
	}
	s, found := mustRead(t, given)
	for i, c := range found {
		if given[c.Name] == "" {
			continue // DATA_DIR and REDIS_URL exclude each other
		}
		require.Equal(t, SourceEnviron, c.Source, c.Name)
		field := reflect.ValueOf(s).Field(i)
		if c.Name != "MAX_IN_FLIGHT" && c.Name != "QUICK_RETRIES" && c.Name != "SHUTDOWN_GRACE" {
			require.False(t, field.IsZero(), "%s was not read", c.Name)
		}
	}
	climb, err := ladder.New(10*time.Second, 30*time.Second, 24*time.Hour)
	require.NoError(t, err)
	require.Equal(t, climb, s.Ladder)
	require.Equal(t, 10*time.Second, s.AttemptTimeout)
	require.Equal(t, []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}, s.TrustedProxies)
	require.Equal(t, []app.Net{
		{Prefix: netip.MustParsePrefix("10.0.0.0/8")}, {Prefix: netip.MustParsePrefix("192.168.1.7/32")}, {Prefix: netip.MustParsePrefix("127.0.0.0/8"), Port: 9000},
		{Prefix: netip.MustParsePrefix("fd00::/8"), Port: 9000}, {Prefix: netip.MustParsePrefix("::1/128"), Port: 9000}, {Prefix: netip.MustParsePrefix("10.1.2.8/32"), Port: 9001},
	}, s.AllowNets)
	require.Equal(t, []app.Net{{Prefix: netip.MustParsePrefix("10.2.0.0/16")}}, s.LinkNets)
	require.Equal(t, Size(1<<20), s.MaxBody)
	require.Equal(t, Size(2000), s.Excerpt)
	require.Equal(t, 30*24*time.Hour, s.DeadRetention)
	require.True(t, s.Success.Status(404))
	require.Equal(t, []signer.Secret{secret}, s.SigningSecret)
	require.Equal(t, slog.LevelDebug, s.LogLevel)
	require.Equal(t, Breaker{Failures: 5, Wait: time.Minute}, s.Breaker)
	require.Equal(t, "http://u:p@proxy.example:3128", s.EgressProxy.String())
	require.Equal(t, dispatcher.Durability{Replicas: 2}, s.Durability)
	s, _ = mustRead(t, map[string]string{"DATA_DIR": "/data", "DURABILITY": "fsync"})
	require.Equal(t, "/data", s.DataDir)
	require.Equal(t, dispatcher.Durability{Fsync: true}, s.Durability)
}

func TestASettingOutsideWhatIsAcceptedIsRefusedByName(t *testing.T) {
	for text, want := range map[string]string{
		"LISTEN=8080":                `LISTEN="8080": must be host:port`,
		"LISTEN=:http":               "the port must be a number from 0 to 65535",
		"PORT=0":                     `PORT="0": must be a whole number from 1 to 65535`,
		"PORT=70000":                 "from 1 to 65535",
		"METRICS_LISTEN=9090":        `METRICS_LISTEN="9090": must be host:port`,
		"PROJECT=a b":                `PROJECT="a b": must be 1 to 64 of A-Z a-z 0-9 _ -`,
		"PROJECT={x}":                "PROJECT=",
		"REDIS_URL=localhost:6379":   "REDIS_URL: must be redis://",
		"REDIS_URL=unix://":          "REDIS_URL: must be",
		"PARTITIONS=0":               "from 1 to 1024",
		"REDIS_MODE=ring":            `REDIS_MODE="ring": must be auto, single, cluster or sentinel`,
		"REDIS_MODE=sentinel":        "REDIS_MASTER is not set",
		"REDIS_CA_FILE=/none":        "(open /none: no such file or directory)",
		"DURABILITY=disk":            `DURABILITY="disk": must be none, fsync or replicas:<n>`,
		"DURABILITY=replicas:0":      `DURABILITY="replicas:0": must be none, fsync`,
		"DURABILITY=replicas:10":     "from 1 to 9",
		"WAKE=never":                 `WAKE="never": must be auto or poll`,
		"API_KEYS=short:admin":       "API_KEYS: must be key:scope",
		"SIGNING_SECRET=hunter2":     "SIGNING_SECRET: must be whsec_",
		"LADDER=15s,soon":            `rung 2 "soon"`,
		"LADDER_JITTER=1.5":          `LADDER_JITTER="1.5": must be a number from 0 to 1`,
		"LADDER_JITTER=NaN":          "from 0 to 1",
		"SUCCESS=200ish":             `SUCCESS="200ish": must be statuses`,
		"ATTEMPT_TIMEOUT=61s":        "from 1s to 60s",
		"ATTEMPT_TIMEOUT=999ms":      "from 1s to 60s",
		"MAX_IN_FLIGHT=-1":           "from 0 to 65536",
		"MAX_IN_FLIGHT=many":         `MAX_IN_FLIGHT="many": must be a whole number`,
		"ENDPOINT_MAX_IN_FLIGHT=0":   "from 1 to 65536",
		"ENDPOINT_MAX_WAITING=-1":    "from 0 to 1000000000",
		"SIGNING_DERIVE=merchant":    `SIGNING_DERIVE="merchant": must be none or tenant`,
		"ENCRYPTION_KEY=hunter2":     "ENCRYPTION_KEY: must be the base64 of 32 bytes",
		"ENCRYPTION_KEY=MDEyMw==":    "key 1: not a key",
		"BREAKER=on":                 `BREAKER="on": must be failures and the first wait such as 20/30s, or off`,
		"BREAKER=20":                 "or off",
		"BREAKER=0/30s":              "(from 1 to 10000 failures)",
		"BREAKER=20/soon":            "BREAKER=",
		"BREAKER=20/0s":              "(a wait from 1ms to 10m)",
		"BREAKER=20/11m":             "(a wait from 1ms to 10m)",
		"EGRESS_PROXY=proxy:3128":    "EGRESS_PROXY: must be the URL of a proxy",
		"EGRESS_PROXY=ftp://p":       "(it must begin with http:// or https://)",
		"EGRESS_PROXY=http://:3128":  "(has no host)",
		"EGRESS_PROXY=http://p/way":  "(must end after its port: a proxy has no path)",
		"CLAIM_BATCH=65":             "from 1 to 64",
		"FANOUT_MAX=0":               "from 1 to 1000000",
		"MAX_IN_FLIGHT_BYTES=1KiB":   `MAX_IN_FLIGHT_BYTES="1KiB": must be a size from 1MiB`,
		"QUICK_RETRIES=1.5":          "from 0 to 5",
		"ALLOW_NETS=10.0.0.0/8,home": `"home" is no network`,
		"ALLOW_NETS=0.0.0.0/0":       "0.0.0.0/0 is a large part of the internet: name the networks that are meant, of at least /8 for IPv4 and /16 for IPv6",
		"ALLOW_NETS=0.0.0.0/0:443":   "0.0.0.0/0 is a large part of the internet",
		"LINK_ALLOW_NETS=::/0":       "::/0 is a large part of the internet",
		"TRUSTED_PROXIES=::/0":       "::/0 is a large part of the internet",
		"TRUSTED_PROXIES=2000::/3":   "2000::/3 is a large part of the internet",
		"TRUSTED_PROXIES=10.0.0.0/8,0.0.0.0/1,128.0.0.0/1": "0.0.0.0/1 is a large part of the internet",
		"ALLOW_NETS=10.0.0.1/8":                            "meant is perhaps 10.0.0.0/8",
		"ALLOW_NETS=10.0.0.0":                              "10.0.0.0 is one address: write the length of the network behind it, as in 10.0.0.0/8",
		"ALLOW_NETS=fd00::":                                "as in fd00::/8",
		"ALLOW_NETS=10.0.0.0:9000":                         "10.0.0.0 is one address: write the length of the network behind it, as in 10.0.0.0/8",
		"ALLOW_NETS=10.0.0.0/8:0":                          `"0" is no port`,
		"ALLOW_NETS=10.0.0.0/8:http":                       `"http" is no port`,
		"ALLOW_NETS=10.0.0.0/8:":                           "no port",
		"LINK_ALLOW_NETS=::1/129:9000":                     "no network",
		"TRUSTED_PROXIES=10.0.0.0/8:80":                    "no network",
		"USER_AGENT=Bäcker":                                `USER_AGENT="Bäcker": must be 1 to 256 printable ASCII characters`,
		"USER_AGENT= a":                                    "USER_AGENT=",
		"HEADER_PREFIX=x-pay":                              `HEADER_PREFIX="x-pay": must be 2 to 32 of a-z 0-9 -, with - at its end`,
		"HEADER_PREFIX=X-Pay-":                             "HEADER_PREFIX=",
		"HEADER_PREFIX=webhook-x-":                         "(must not begin with webhook-",
		"HTTPS_ONLY=maybe":                                 "must be true or false",
		"MAX_BODY=8MiB":                                    `MAX_BODY="8MiB": must be a size from 1KiB to 4MiB`,
		"MAX_BODY=lots":                                    "MAX_BODY=",
		"EXCERPT=-1":                                       "from 0B to 64KiB",
		"RETENTION=forever":                                "must be a duration from 1s to 365d",
		"DEAD_MAX=1e9":                                     "must be a whole number",
		"GUARD_INTERVAL=0":                                 "from 1s to 1h",
		"SHUTDOWN_GRACE=2h":                                "from 0s to 1h",
		"SHUTDOWN_DELAY=2m":                                "from 0s to 60s",
		"LOG_LEVEL=loud":                                   "must be debug, info, warn or error",
		"LOG_FORMAT=xml":                                   "must be json or text",
	} {
		t.Run(text, func(t *testing.T) {
			name, value, _ := strings.Cut(text, "=")
			_, _, err := Read(Sources{Environ: map[string]string{name: value}})
			require.ErrorContains(t, err, want)
			require.Regexp(t, "^"+name, err.Error())
			require.NotContains(t, err.Error(), "\n", "one mistake is one line")
		})
	}
}

func TestAllMistakesAreReportedTogether(t *testing.T) {
	_, _, err := Read(Sources{Environ: map[string]string{
		"MAX_IN_FLIGHT": "x", "PROJECT": "!", "WAKE": "now", "LADDER": "never", "API_KEYS": testKey, "API_KEYS_FILE": "f",
	}})
	require.NotContains(t, err.Error(), "slog")
	lines := strings.Split(err.Error(), "\n")
	require.Len(t, lines, 5)
	for i, name := range []string{"API_KEYS", "LADDER", "MAX_IN_FLIGHT", "PROJECT", "WAKE"} {
		require.Regexp(t, "^"+name, lines[i])
	}
}

func TestNoErrorHoldsASecret(t *testing.T) {
	for name, value := range map[string]string{
		"API_KEYS":       "Geheim-Geheim-Geheim:root",
		"SIGNING_SECRET": "whsec_Geheim",
		"REDIS_URL":      "redis://:Geheim@%zz",
		"ENCRYPTION_KEY": "Geheim",
		"EGRESS_PROXY":   "http://:Geheim@%zz",
		"ARCHIVE_URL":    "mysql://u:Geheim@h/d",
		"OUTBOX_URL":     "postgres://u:Geheim@%zz/d",
		"OPS_URL":        "ftp://ops.example/Geheim",
	} {
		_, _, err := Read(Sources{Environ: map[string]string{name: value}})
		require.ErrorContains(t, err, name)
		require.NotContains(t, err.Error(), "Geheim")
	}
}

func TestAnArchiveNeedsAKeyThatSealsWhatItHolds(t *testing.T) {
	archive := map[string]string{"ARCHIVE_URL": "postgres://u:Geheim@db.example/a"}
	_, _, err := Read(Sources{Environ: archive})
	require.ErrorContains(t, err, "ENCRYPTION_KEY is not set: endpoints' secrets would not be encrypted in the database")
	require.NotContains(t, err.Error(), "Geheim")
	require.NotContains(t, err.Error(), "must be postgres://", "the URL is right")
	archive["ENCRYPTION_KEY"] = testSealKey
	mustRead(t, archive)
	archive["ARCHIVE_BODIES"] = "some"
	_, _, err = Read(Sources{Environ: archive})
	require.ErrorContains(t, err, "ARCHIVE_BODIES")
}

func TestAnArchiveIsKeptForYears(t *testing.T) {
	for text, days := range map[string]int{"0": 0, "90d": 90, "7y": 7 * 365, "36h": 1, "100y": 36500} {
		s, _ := mustRead(t, map[string]string{"ARCHIVE_RETENTION": text})
		require.Equal(t, days, int(time.Duration(s.ArchiveRetention)/(24*time.Hour)), text)
	}
	for _, text := range []string{"101y", "36501d", "-1d", "y", "1.5y", "99999y", "for ever"} {
		_, _, err := Read(Sources{Environ: map[string]string{"ARCHIVE_RETENTION": text}})
		require.ErrorContains(t, err, "ARCHIVE_RETENTION", text)
	}
}

func TestABreakerCanBeOff(t *testing.T) {
	s, _ := mustRead(t, map[string]string{"BREAKER": "off"})
	require.Zero(t, s.Breaker)
}

func TestAFileGivesASecret(t *testing.T) {
	files := map[string]string{"/keys": testKey + "\n", "/empty": "\n"}
	from := func(environ map[string]string) Sources {
		return Sources{Environ: environ, ReadFile: func(name string) ([]byte, error) {
			text, ok := files[name]
			if !ok {
				return nil, fs.ErrNotExist
			}
			return []byte(text), nil
		}}
	}
	s, found, err := Read(from(map[string]string{"API_KEYS_FILE": "/keys"}))
	require.NoError(t, err)
	require.False(t, s.APIKeys.Empty(), "the newline at the end is no part of it")
	for _, c := range found {
		if c.Name == "API_KEYS" {
			require.Equal(t, "file /keys", c.Source)
		}
	}
	for want, environ := range map[string]map[string]string{
		"API_KEYS and API_KEYS_FILE are both set":                                   {"API_KEYS_FILE": "/keys", "API_KEYS": testKey},
		"REDIS_URL_FILE: the file that it names can't be read: file does not exist": {"REDIS_URL_FILE": "/none"},
		`SIGNING_SECRET_FILE="/empty": the file is emp`:                             {"SIGNING_SECRET_FILE": "/empty"},
	} {
		_, _, err := Read(from(environ))
		require.ErrorContains(t, err, want)
		require.Len(t, strings.Split(err.Error(), "\n"), 1)
	}
}

func TestTheEnvironmentWinsOverTheEnvFile(t *testing.T) {
	from := Sources{
		Environ:  map[string]string{"PROJECT": "real", "EXCERPT": ""},
		Dotenv:   map[string]string{"PROJECT": "file", "EXCERPT": "2KiB"},
		Defaults: map[string]string{"EXCERPT": "3KiB", "LOG_LEVEL": "warn"},
	}
	s, found, err := Read(from)
	require.NoError(t, err)
	require.Equal(t, "real", s.Project)
	require.Equal(t, Size(2<<10), s.Excerpt, "an empty variable is an unset one")
	require.Equal(t, slog.LevelWarn, s.LogLevel)
	sources := map[string]string{}
	for _, c := range found {
		sources[c.Name] = c.Source
	}
	require.Equal(t, SourceEnviron, sources["PROJECT"])
	require.Equal(t, SourceDotenv, sources["EXCERPT"])
	require.Equal(t, SourceDev, sources["LOG_LEVEL"])
	require.Equal(t, SourceDefault, sources["LADDER"])
}

func TestHowPeopleReachTheAPIIsAnOriginAndAPath(t *testing.T) {
	for text, want := range map[string]string{
		"https://hooks.example":          "https://hooks.example",
		"https://hooks.example/":         "https://hooks.example",
		"http://127.0.0.1:8080/a/b//":    "http://127.0.0.1:8080/a/b",
		"https://[2001:db8::1]:8443/pay": "https://[2001:db8::1]:8443/pay",
	} {
		s, _ := mustRead(t, map[string]string{"PUBLIC_URL": text})
		require.Equal(t, want, s.PublicURL.URL.String())
		require.Equal(t, want+"/link/x", s.PublicURL.URL.JoinPath("link", "x").String())
	}
	s, _ := mustRead(t, nil)
	require.Nil(t, s.PublicURL.URL)
	for _, text := range []string{
		"hooks.example", "ftp://hooks.example", "https://", "https://u:p@hooks.example", "https://hooks.example?", "https://hooks.example/?a=1",
		"https://hooks.example#", "https://hooks.example/#a", "https://hooks.example/a/../b", "https://hooks.example//a", "https://hooks.example/%2e%2e/a", "https://hooks.example/a b", "https://hooks.example/a%20b",
	} {
		_, _, err := Read(Sources{Environ: map[string]string{"PUBLIC_URL": text}})
		require.ErrorContains(t, err, "PUBLIC_URL", text)
	}
}

func TestWhatPagesOfLinksShowFitsThem(t *testing.T) {
	png := "data:image/png;base64," + base64.StdEncoding.EncodeToString([]byte("\x89PNG\r\n\x1a\nrest"))
	for _, good := range []map[string]string{
		{"CONSOLE": "off"},
		{"CONSOLE_NAME": strings.Repeat("é", 64)},
		{"CONSOLE_LOGO": png},
		{"CONSOLE_LOGO": "https://cdn.example/logo.svg?v=2"},
		{"CONSOLE_COLOR": "#3F4bd1"},
	} {
		mustRead(t, good)
	}
	for text, want := range map[string]string{
		"CONSOLE=no": "must be on or off",
		"CONSOLE_NAME=" + strings.Repeat("é", 65):           "1 to 64 characters",
		"CONSOLE_NAME=a\nb":                                 "1 to 64 characters",
		"CONSOLE_NAME=\xff":                                 "1 to 64 characters",
		"CONSOLE_LOGO=http://cdn.example/logo.png":          "must be an https URL",
		"CONSOLE_LOGO=https://":                             "has no host",
		"CONSOLE_LOGO=data:image/svg+xml;base64,PHN2Zz4":    "must be an https URL",
		"CONSOLE_LOGO=data:image/png;base64,!":              "it is not base64",
		"CONSOLE_LOGO=data:image/png;base64,PHN2Zz4=":       "it is not a PNG",
		"CONSOLE_LOGO=" + png + strings.Repeat("A", 64<<10): "bytes)",
		"CONSOLE_COLOR=3f4bd1":                              "must be # and 6 hex digits",
		"CONSOLE_COLOR=#3f4bd":                              "must be # and 6 hex digits",
		"CONSOLE_COLOR=#3f4bd1;":                            "must be # and 6 hex digits",
	} {
		name, value, _ := strings.Cut(text, "=")
		_, _, err := Read(Sources{Environ: map[string]string{name: value}})
		require.ErrorContains(t, err, want)
		require.Less(t, len(err.Error()), 1000, "a picture fills no screen")
	}
}

func TestNamesThatAreAlmostOursAreWarnedAbout(t *testing.T) {
	for name, meant := range map[string]string{
		"MAX_INFLIGHT":         "MAX_IN_FLIGHT",
		"SIGNING_SECRETS":      "SIGNING_SECRET",
		"REDIS_URI":            "REDIS_URL",
		"HOOKLADDER_REDIS_URL": "REDIS_URL",
		"HOOKLADDER_PORT":      "PORT",
		"LADER":                "LADDER",
		"LISTNE":               "LISTEN",
		"API_KEY":              "API_KEYS",
		"API_KEYS_FILES":       "API_KEYS_FILE",
		"redis_url":            "REDIS_URL",
		"ENCRYPTION_KEYS":      "ENCRYPTION_KEY",
	} {
		require.Equal(t, []string{name + " is not a setting and has no effect: did you mean " + meant + "?"},
			Near(map[string]string{name: "x"}))
	}
	for _, name := range []string{
		"PATH", "HOME", "PWD", "LANG", "SORT", "LISTEN_FDS", "LISTEN_PID", "GOGC", "GOMEMLIMIT", "HOSTNAME", "LOGNAME",
		"HOOKLADDER_URL", "HOOKLADDER_KEY", "REDIS_URL", "API_KEYS_FILE", "WAKE", "KUBERNETES_PORT",
	} {
		require.Empty(t, Near(map[string]string{name: "x"}), name)
	}
	require.Empty(t, Near(map[string]string{"HOOKLADDER_PORT": "tcp://10.96.0.7:8080"}), "Kubernetes sets it for a service of this name")
}

func TestTheBoundsOfTheTableCanBeRead(t *testing.T) {
	for _, row := range Table() {
		if low, ok := row.field.Tag.Lookup("min"); ok {
			require.True(t, quantities[row.field.Type].within(low, low, row.field.Tag.Get("max")), row.Name)
		}
		require.NotEmpty(t, row.Accepts, row.Name)
		require.False(t, row.Secret && row.Default != "", row.Name)
	}
}

func TestTheReasonOfAFaultIsOneLine(t *testing.T) {
	require.Equal(t, "a; b", reasonOf(errors.Join(errors.New("a"), errors.New("b"))))
	require.Empty(t, reasonOf(errNumber))
	require.False(t, quantities[reflect.TypeFor[float64]()].within("NaN", "0", "1"))
}

func TestAFileOfCertificatesThatCantBeUsedIsRefusedByName(t *testing.T) {
	cert, key := kit.MustCertificate(t.TempDir())
	_, other := kit.MustCertificate(t.TempDir())
	for want, environ := range map[string]map[string]string{
		`^EGRESS_CA_FILE="/none": must be a file of PEM certificates \(open /none: no such file`: {"EGRESS_CA_FILE": "/none"},
		`^EGRESS_CA_FILE=.*holds no certificate`:                                                 {"EGRESS_CA_FILE": key},
		`^EGRESS_CERT_FILE=.*: EGRESS_KEY_FILE is not set`:                                       {"EGRESS_CERT_FILE": cert},
		`^EGRESS_KEY_FILE=.*: EGRESS_CERT_FILE is not set`:                                       {"EGRESS_KEY_FILE": key},
		`^EGRESS_CERT_FILE=.*holds no private key`:                                               {"EGRESS_CERT_FILE": cert, "EGRESS_KEY_FILE": cert},
		`^EGRESS_CERT_FILE=.*does not match`:                                                     {"EGRESS_CERT_FILE": cert, "EGRESS_KEY_FILE": other},
	} {
		_, _, err := Read(Sources{Environ: environ})
		require.Error(t, err, want)
		require.Regexp(t, want, err.Error())
		require.NotContains(t, err.Error(), "\n", "one mistake is one line")
	}
	mustRead(t, map[string]string{"EGRESS_CA_FILE": cert, "EGRESS_CERT_FILE": cert, "EGRESS_KEY_FILE": key})
}

func TestSettingsOfTheStoreThatContradictEachOtherAreRefusedByName(t *testing.T) {
	cert, key := kit.MustCertificate(t.TempDir())
	const plain, data = "redis://r:1", "/data"
	for want, environ := range map[string]map[string]string{
		`^REDIS_MASTER="m": .*belongs to REDIS_MODE=sentinel, not to cluster`: {"REDIS_URL": plain, "REDIS_MODE": "cluster", "REDIS_MASTER": "m"},
		`^REDIS_MASTER="m": .*not to single`:                                  {"REDIS_URL": plain, "REDIS_MODE": "single", "REDIS_MASTER": "m"},
		`^REDIS_MODE="sentinel": .*REDIS_MASTER is not set`:                   {"REDIS_URL": plain, "REDIS_MODE": "sentinel"},
		`^REDIS_CA_FILE=.*begins with rediss://`:                              {"REDIS_URL": plain, "REDIS_CA_FILE": cert},
		`^REDIS_CA_FILE=.*holds no certificate`:                               {"REDIS_URL": "rediss://r:1", "REDIS_CA_FILE": key},
		`^DATA_DIR="/data": .*REDIS_URL is set too: use one of them`:          {"REDIS_URL": plain, "DATA_DIR": data},
		`^DURABILITY="replicas:2": .*has no replicas; fsync`:                  {"DATA_DIR": data, "DURABILITY": "replicas:2"},
		`^REDIS_MODE="cluster": .*DATA_DIR is a single one`:                   {"DATA_DIR": data, "REDIS_MODE": "cluster"},
		`^REDIS_MASTER="m": .*DATA_DIR has no sentinels`:                      {"DATA_DIR": data, "REDIS_MASTER": "m"},
		`^REDIS_CA_FILE=.*DATA_DIR is reached without TLS`:                    {"DATA_DIR": data, "REDIS_CA_FILE": cert},
	} {
		_, _, err := Read(Sources{Environ: environ})
		require.Error(t, err, want)
		require.Regexp(t, want, err.Error())
		require.NotContains(t, err.Error(), "\n", "one mistake is told once")
	}
	for _, environ := range []map[string]string{
		{"REDIS_URL": plain, "REDIS_MASTER": "m"}, // auto takes the name for what it says
		{"REDIS_URL": plain, "REDIS_MASTER": "m", "REDIS_MODE": "sentinel"},
		{"REDIS_URL": "rediss://r:1", "REDIS_CA_FILE": cert, "REDIS_MODE": "cluster"},
		{"DATA_DIR": data, "REDIS_MODE": "single", "DURABILITY": "fsync"},
	} {
		mustRead(t, environ)
	}
}

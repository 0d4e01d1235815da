package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/cmd/hookladder/internal/settings"
)

// TestMain has every machine show times in UTC, as the golden files do.
func TestMain(m *testing.M) {
	time.Local = time.UTC
	os.Exit(m.Run())
}

// patience bounds how long a test waits for something that always comes. It only
// ends a test that hangs.
const patience = 3 * time.Minute

// result is what became of one command line.
type result struct {
	code     int
	out, err string
}

// command carries out one command line to its end.
func command(t testing.TB, environ []string, in string, args ...string) result {
	t.Helper()
	var out, errs bytes.Buffer
	code := run(t.Context(), world{args: args, environ: environ, in: strings.NewReader(in), out: &out, err: &errs})
	return result{code: code, out: out.String(), err: errs.String()}
}

// afterDev returns the errors of a command after the line that reports dev.
func afterDev(r result) string {
	_, rest, _ := strings.Cut(r.err, "\n")
	return rest
}

// running is a command that goes on until it is stopped.
type running struct {
	t     testing.TB
	lines chan string
	stop  context.CancelFunc
	code  chan int
	errs  *bytes.Buffer // read once it has ended
	seen  strings.Builder
}

// start starts a command and ends it with the test, if not before.
func start(t testing.TB, environ []string, args ...string) *running {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	r := &running{t: t, lines: make(chan string, 1024), stop: stop, code: make(chan int, 1), errs: &bytes.Buffer{}}
	read, write := io.Pipe()
	go func() {
		r.code <- run(ctx, world{args: args, environ: environ, in: strings.NewReader(""), out: write, err: r.errs})
		_ = write.Close()
	}()
	go func() {
		defer close(r.lines)
		for scan := bufio.NewScanner(read); scan.Scan(); {
			r.lines <- scan.Text()
		}
	}()
	t.Cleanup(func() {
		stop()
		for range r.lines { // ends with the command
		}
	})
	return r
}

// until reads lines to the first one that holds all of the words, and answers it.
func (r *running) until(words ...string) string {
	r.t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		select {
		case line, ok := <-r.lines:
			if !ok {
				require.FailNow(r.t, "it ended before a line with "+strings.Join(words, " and "), "%s%s", r.seen.String(), r.errs)
			}
			r.seen.WriteString(line + "\n")
			if holds(line, words) {
				return line
			}
		case <-late.C:
			require.FailNow(r.t, "no line with "+strings.Join(words, " and "), r.seen.String())
		}
	}
}

// end stops it and answers its exit code.
func (r *running) end() int {
	r.t.Helper()
	r.stop()
	select {
	case code := <-r.code:
		return code
	case <-time.After(patience):
		require.FailNow(r.t, "it does not end")
		return -1
	}
}

func holds(line string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(line, w) {
			return false
		}
	}
	return true
}

func TestEveryCommandTeaches(t *testing.T) {
	var names []string
	for _, cmd := range newRoot(world{}).Commands() {
		names = append(names, cmd.Name())
		for _, cmd := range append(cmd.Commands(), cmd) {
			require.NotEmpty(t, cmd.Short, cmd.CommandPath())
			require.Contains(t, cmd.Example, cmd.CommandPath(), "an example of it")
			got := command(t, nil, "", append(strings.Fields(cmd.CommandPath())[1:], "--help")...)
			require.Equal(t, exitOK, got.code)
			require.Contains(t, got.out, cmd.Example)
		}
	}
	require.ElementsMatch(t, []string{
		"serve", "dev", "send", "get", "why", "cancel", "retry", "deliveries", "dead", "jobs", "endpoints", "lanes", "pause", "resume", "tail", "tick", "audit", "link", "secret",
		"verify", "check", "listen", "consume", "config", "ping", "completion", "version", "repartition", "restore", "forget", "doctor", "outbox", "export",
	}, names)
	require.Contains(t, command(t, nil, "").out, "hookladder dev")
}

func TestAMistakeInTheCommandLineExitsWith2(t *testing.T) {
	for line, want := range map[string]string{
		"srve":                             "did you mean serve?",
		"frobnicate":                       `unknown command "frobnicate"`,
		"--frob":                           "unknown flag: --frob",
		"serve now":                        `serve takes no arguments, not "now"`,
		"get":                              "get needs the id of one message",
		"export":                           "ARCHIVE_URL is not set: set the one that serve uses",
		"export endpoints":                 "export takes deliveries or messages",
		"export --csv --json":              "--csv and --json exclude each other",
		"lanes --tenant a":                 "--tenant needs a --destination",
		"lanes --destination a --limit 5":  "leave --limit and --cursor out",
		"export --bodies":                  "add --json",
		"get a b":                          "get needs the id of one message",
		"send --url u":                     "send needs --topic",
		"send --url u --topic t --delay x": "--delay",
		"send --url u --topic t --body 1 --header x":    `must be as in "name: value"`,
		"send --url u --topic t --body 1 --body-file f": "not both",
		"send --url u --topic t --body-file nowhere":    "--body-file",
		"ping --server ftp://x":                         "--server: it must begin with http:// or https://",
		"ping --key-file nowhere":                       "--key-file",
		"listen":                                        "set SIGNING_SECRET or give --secret",
		"listen --secret x":                             "--secret",
		"listen --signature sha1":                       "--signature: not a signature scheme",
		"listen --signature github":                     "nothing to verify github with: give --secret",
		"listen --secret whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz --status 99": "from 200 to 599",
		"endpoints frob":                                 `endpoints has no command "frob"`,
		"endpoints create":                               "create needs --url",
		"endpoints create now":                           "create takes no arguments",
		"endpoints create --url u --ladder x":            "--ladder",
		"endpoints create --url u --success x":           `--success "x"`,
		"endpoints create --url u --header x":            `--header "x": must be as in "name: text"`,
		"endpoints create --url u --secret-file nowhere": "--secret-file",
		"endpoints get":                                  "get needs the id or uid of one endpoint",
		"endpoints delete m":                             "pass --yes",
		"send --url u --topic t --body 1 --deliver-at x": `--deliver-at "x": must be a time such as`,
		"send --url u --topic t --body 1 --expires-at 5": `--expires-at "5": must be a time such as`,
		"send --url u --topic t --body 1 --timeout x":    "--timeout",
		"send --url u --topic t --body 1 --success x":    `--success "x"`,
		"endpoints get a b":                              "get needs the id or uid of one endpoint",
		"endpoints update m":                             "update needs a flag that changes something",
		"endpoints update m --rate 1/s --unset rate":     "--unset rate: another flag sets it",
		"endpoints rotate-secret m --overlap x":          "--overlap",
		"pause":                                          "pause needs one destination",
		"resume a b":                                     "resume needs one destination",
		"secret --scheme x":                              "--scheme: not a signature scheme",
		"secret --tenant a --scheme github":              "a tenant's secret is always a standard one",
		"secret --tenant=":                               "set SIGNING_SECRET", // of messages without a tenant
		"secret --tenant a":                              "set SIGNING_SECRET",
		"serve":                                          "neither REDIS_URL nor DATA_DIR is set",
		"retry --yes":                                    "hookladder retry needs a filter, or --all",
		"repartition":                                    "--to is needed",
		"repartition --to 1025":                          "from 1 to 1024",
		"repartition --to 8":                             "neither REDIS_URL nor DATA_DIR is set",
		"forget":                                         "forget needs --tenant, --subject, --since or --until",
		"forget --tenant a":                              "can't be restored: add --yes",
		"forget --tenant a --yes":                        "neither REDIS_URL nor DATA_DIR is set",
		"restore":                                        "ARCHIVE_URL is not set",
		"tick":                                           "--server",
		"tick now":                                       "tick takes no arguments",
		"tick --for 0.5s":                                "--for",
		"dev --speed 0":                                  "--speed 0",
		"dev --speed NaN":                                "--speed NaN",
	} {
		t.Run(line, func(t *testing.T) {
			got := command(t, nil, "", strings.Fields(line)...)
			require.Contains(t, got.err, want)
			require.Equal(t, exitUsage, got.code)
			require.Empty(t, got.out)
		})
	}
}

func TestServeRefusesToStart(t *testing.T) {
	const redis = "REDIS_URL=redis://127.0.0.1:1"
	for name, c := range map[string]struct {
		environ []string
		want    string
		code    int
	}{
		"with a bad setting":        {[]string{redis, "MAX_BODY=x", "LADDER=y"}, "LADDER=", exitUsage},
		"in the open without a key": {[]string{redis, "PORT=8080"}, "set API_KEYS=hk_", exitUsage},
		"in the open by name":       {[]string{redis, "LISTEN=example.com:0"}, "set API_KEYS=hk_", exitUsage},
		"with nothing to do":        {[]string{redis, "LISTEN=off", "MAX_IN_FLIGHT=0"}, "it would do nothing", exitUsage},
	} {
		t.Run(name, func(t *testing.T) {
			got := command(t, c.environ, "", "serve")
			require.Contains(t, got.err, c.want)
			require.Equal(t, c.code, got.code)
		})
	}
	got := command(t, []string{redis, "MAX_IN_FLIGHT=0"}, "", "tick")
	require.Contains(t, got.err, "MAX_IN_FLIGHT=4096", "it would attempt nothing")
	require.Equal(t, exitUsage, got.code)
}

func TestTheFreshKeyOfTheRefusalIsTaken(t *testing.T) {
	got := command(t, []string{"REDIS_URL=redis://127.0.0.1:1", "PORT=8080"}, "", "serve")
	_, rest, _ := strings.Cut(got.err, "API_KEYS=")
	key, _, _ := strings.Cut(rest, " ")
	s, _ := mustRead(t, map[string]string{"API_KEYS": key})
	require.False(t, s.APIKeys.Empty())
	require.NotContains(t, command(t, []string{"REDIS_URL=redis://127.0.0.1:1", "PORT=8080"}, "", "serve").err, key)
}

func TestConfigShowsEverythingButSecrets(t *testing.T) {
	got := command(t, []string{
		"API_KEYS=" + testKey, "REDIS_URL=redis://user:Geheim@redis.example:6379/1", "PROJECT=pay", "API_KEY=x",
		"EGRESS_PROXY=http://user:Geheim@proxy.example:3128",
	}, "", "config")
	require.Equal(t, exitOK, got.code)
	for _, row := range settings.Table() {
		require.Regexp(t, `(?m)^`+row.Name+` `, got.out)
	}
	require.Regexp(t, `(?m)^PROJECT +pay +environment$`, got.out)
	require.Regexp(t, `(?m)^PORT +\(unset\) +default$`, got.out)
	require.Regexp(t, `(?m)^API_KEYS +\(set, not shown\) +environment$`, got.out)
	require.Contains(t, got.out, "redis://...@redis.example:6379/1")
	require.Regexp(t, `(?m)^EGRESS_PROXY +http://...@proxy.example:3128 +environment$`, got.out)
	require.NotContains(t, got.out+got.err, "Geheim")
	require.NotContains(t, got.out+got.err, testKey)
	require.Contains(t, got.err, "did you mean API_KEYS?")

	got = command(t, []string{"PROJECT=!", "WAKE=now"}, "", "config")
	require.Equal(t, exitUsage, got.code)
	require.Contains(t, got.out, "PROJECT", "the table helps to see what is wrong")
	require.Contains(t, got.err, "WAKE")
}

func TestConfigShowsWhatDevSees(t *testing.T) {
	t.Chdir(t.TempDir())
	mustWrite(t, ".env", "PROJECT=fromfile\nLADDER=1s\n")
	got := command(t, []string{"LADDER=2s"}, "", "config", "--dev")
	require.Equal(t, exitOK, got.code)
	require.Regexp(t, `(?m)^PROJECT +fromfile +\.env$`, got.out)
	require.Regexp(t, `(?m)^LADDER +2s +environment$`, got.out)
	require.Regexp(t, `(?m)^ALLOW_NETS +127\.0\.0\.0/8,::1/128 +default of dev$`, got.out)
	require.NotContains(t, command(t, nil, "", "config").out, "fromfile", "only dev reads .env")
}

func TestVersionTellsWhatItIs(t *testing.T) {
	got := command(t, nil, "", "version")
	require.Equal(t, exitOK, got.code)
	require.Regexp(t, `^hookladder \d+\.\d+\.\d+.* go1\.\d+`, got.out)
}

func TestPingOfNobodyExitsWith4(t *testing.T) {
	got := command(t, nil, "", "ping", "--server", "http://127.0.0.1:1")
	require.Equal(t, exitUnreachable, got.code)
	require.Contains(t, got.err, "can't be reached")
}

func TestAClientFindsTheServerOfItsEnvironment(t *testing.T) {
	for want, vars := range map[string]map[string]string{
		"http://127.0.0.1:8080": {},
		"http://127.0.0.1:9000": {"PORT": "9000"},
		"http://127.0.0.1:9001": {"LISTEN": "0.0.0.0:9001", "PORT": "9000"},
		"http://[::1]:9002":     {"LISTEN": "[::1]:9002"},
		"http://10.0.0.7:9003":  {"LISTEN": "10.0.0.7:9003"},
	} {
		for _, find := range []func(map[string]string) (string, error){localServer, healthServer} {
			got, err := find(vars)
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
	}
}

// Services and cron give their commands the null device, at which no person sits.
func TestTheNullDeviceIsNoTerminal(t *testing.T) {
	null, err := os.Open(os.DevNull)
	require.NoError(t, err)
	t.Cleanup(func() { _ = null.Close() })
	require.False(t, isTerminal(null), "a delete would ask it")
	_, err = (&sendFlags{}).read(null)
	require.ErrorContains(t, err, "needs a body")
}

// A release is stamped by the linker. go install builds a module, which has its version from the
// build info. Everything else is the version in development.
func TestTheVersionIsThatOfTheReleaseOrModule(t *testing.T) {
	require.Equal(t, development, release())
	for want, build := range map[string]debug.BuildInfo{
		"0.3.1":                             {Main: debug.Module{Version: "v0.3.1"}},
		"0.0.0-20261127000000-0123456789ab": {Main: debug.Module{Version: "v0.0.0-20261127000000-0123456789ab"}},
		"":                                  {Main: debug.Module{Version: "v0.3.1"}, Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef"}}},
	} {
		require.Equal(t, want, installed(&build))
	}
	require.Empty(t, installed(nil))
	require.Empty(t, installed(&debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}))

	t.Cleanup(func() { version = "" })
	version = "9.8.7"
	require.Regexp(t, `^hookladder 9\.8\.7[ ,]`, versionLine())
}

package stack_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/types"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/deploy/kit/pgtest"
)

// topology has the services of compose.yaml as processes on loopback. Their programs come from
// Debian's packages, and their commands, files, settings, secrets and health checks from
// compose.yaml. Only addresses and folders are replaced.
type topology struct {
	t       *testing.T
	project *types.Project
	binary  string         // hookladder
	dir     string         // the files that take the place of a container's
	ports   map[string]int // service:port of a container, and its port on loopback
	running map[string]*kit.Process
	heard   []*kit.Output // of each receiver that ran
}

// quicker are the settings that the test shortens. LADDER and the wait of BREAKER are the
// defaults, divided as the times of Prometheus are.
var quicker = []string{"LADDER=500ms,6s,20s,1m,1m,2m,4m,12m,30m", "BREAKER=20/1s", "FAILING_AFTER=2s"}

func newTopology(t *testing.T) *topology {
	t.Helper()
	s := &topology{t: t, project: mustLoad(t), dir: t.TempDir(), ports: map[string]int{}, running: map[string]*kit.Process{}}
	var err error
	s.binary, err = kit.FastBinary()
	require.NoError(t, err)
	t.Cleanup(func() {
		for _, p := range s.running {
			p.Kill()
		}
	})
	listens := []string{"nginx:80", "prometheus:9090", "redis:6379", "receiver:9000", "neighbour:9000"}
	for _, name := range dispatchers(s.project) {
		for _, variable := range []string{"LISTEN", "METRICS_LISTEN"} {
			listens = append(listens, name+setting(s.project.Services[name], variable))
		}
	}
	for _, listen := range listens {
		s.ports[listen], err = kit.FreePort()
		require.NoError(t, err)
	}
	return s
}

// at returns the address on loopback of a port of a container.
func (s *topology) at(listen string) string {
	s.t.Helper()
	require.NotZero(s.t, s.ports[listen], "%s has no port here", listen)
	return kit.Loopback(s.ports[listen])
}

// local replaces the addresses of containers in a text of a service.
func (s *topology) local(service, text string) string {
	var pairs []string
	for listen, number := range s.ports {
		name, inside, _ := strings.Cut(listen, ":")
		here := kit.Loopback(number)
		pairs = append(pairs, listen, here)
		if own := address(s.project.Services[name]); own != "" {
			pairs = append(pairs, own+":"+inside, here)
		}
		if name == service {
			pairs = append(pairs, "127.0.0.1:"+inside, here)
			if text == ":"+inside {
				return here
			}
		}
	}
	for _, other := range s.project.Services {
		if own := address(other); own != "" {
			pairs = append(pairs, own+"/", "127.0.0.1/")
		}
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// path replaces the files and folders of a container in a text of a service.
func (s *topology) path(service, text string) string {
	pairs := []string{"/run/secrets", filepath.Join(s.dir, "secrets")}
	for _, v := range s.project.Services[service].Volumes {
		source := v.Source
		if v.Type == types.VolumeTypeVolume {
			source = filepath.Join(s.dir, v.Source)
			require.NoError(s.t, os.MkdirAll(source, 0o700))
		}
		if copied := filepath.Join(s.dir, service, filepath.Base(source)); exists(copied) {
			source = copied
		}
		pairs = append(pairs, v.Target, source)
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// replaced writes a changed copy of a service's file, which path then uses.
func (s *topology) replaced(service, file, text string) string {
	s.t.Helper()
	copied := filepath.Join(s.dir, service, filepath.Base(file))
	require.NoError(s.t, os.MkdirAll(filepath.Dir(copied), 0o700))
	require.NoError(s.t, os.WriteFile(copied, []byte(text), 0o600))
	return copied
}

// environment is a service's, with what more overrides.
func (s *topology) environment(service string, more ...string) (all []string) {
	for name, value := range s.project.Services[service].Environment {
		all = append(all, name+"="+s.local(service, s.path(service, *value)))
	}
	return append(all, more...)
}

// start starts the command of a service, with more arguments, and waits until it is healthy.
func (s *topology) start(service, program string, args ...string) *kit.Process {
	s.t.Helper()
	p, err := kit.Start(kit.Command{Name: service, Path: program, Args: args, Dir: s.dir, Env: s.environment(service, quicker...)})
	require.NoError(s.t, err)
	p.Guard(func(err error) { s.t.Error(err) })
	s.running[service] = p
	s.untilHealthy(service)
	return p
}

// command is the command of a service, from an argument on.
func (s *topology) command(service string, from int) (args []string) {
	for _, arg := range s.project.Services[service].Command[from:] {
		args = append(args, s.local(service, s.path(service, arg)))
	}
	return args
}

// program is the path of a program. Debian keeps some out of PATH.
func program(t testing.TB, name string) string {
	t.Helper()
	for _, path := range []string{name, "/usr/sbin/" + name} {
		if path, err := exec.LookPath(path); err == nil {
			return path
		}
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	require.NotEmpty(t, found, "%s is missing; make stack-check installs it", name)
	return found[0]
}

// longest is the timeout of each wait. The longest one takes half a minute, and several times as
// much on a busy machine.
const longest = 2 * time.Minute

// wait polls until ok returns no error.
func (s *topology) wait(what string, ok func() error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), longest)
	defer cancel()
	require.NoError(s.t, kit.Until(ctx, what, ok))
}

// untilHealthy runs the health check of a service until it succeeds.
func (s *topology) untilHealthy(service string) {
	s.t.Helper()
	s.wait(service+" is healthy", func() error {
		if p := s.running[service]; p != nil && p.Gone() {
			return kit.Stop(p.Death())
		}
		return s.healthy(service)
	})
}

// healthy runs the health check of a service once.
func (s *topology) healthy(service string) error {
	test := s.project.Services[service].HealthCheck.Test
	args := slices.Clone(test[1:])
	if test[0] == "CMD-SHELL" {
		args = []string{"sh", "-c", strings.ReplaceAll(args[0], "$$", "$")}
	}
	for i := range args {
		args[i] = s.local(service, args[i])
		args[i] = regexp.MustCompile(`^hookladder\b`).ReplaceAllLiteralString(args[i], s.binary)
		args[i] = strings.ReplaceAll(args[i], "redis-cli", "redis-cli -p "+strconv.Itoa(s.ports["redis:6379"]))
	}
	switch args[0] {
	case "wget": // Debian has it in no package that is needed here
		args = append([]string{"curl", "-fsS"}, args[2:]...)
	case "pg_isready":
		args = append(args, "-p", strconv.Itoa(s.ports["postgres:5432"]))
		args[0] = program(s.t, args[0])
	}
	cmd := exec.CommandContext(s.t.Context(), args[0], args[1:]...)
	cmd.Env = append(os.Environ(), s.environment(service)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", service, err, out)
	}
	return nil
}

// all starts every service but Grafana, in the order of their dependencies.
func (s *topology) all() {
	s.t.Helper()
	made := makeSecrets(s.t)
	s.postgres(made)
	for name := range s.project.Secrets {
		text, err := os.ReadFile(filepath.Join(made, name))
		require.NoError(s.t, err)
		s.replaced("secrets", name, s.local("", string(text)))
	}
	s.initDatabase()
	s.redis()
	s.receiver()
	s.neighbour()
	for _, name := range dispatchers(s.project) {
		s.dispatcher(name)
	}
	s.nginx()
	s.prometheus()
}

// postgres starts a server that wants the passwords of all users but the superuser.
func (s *topology) postgres(secrets string) {
	s.t.Helper()
	for dir := s.dir; dir != os.TempDir(); dir = filepath.Dir(dir) {
		require.NoError(s.t, os.Chmod(dir, 0o711), "the server reads a file in it")
	}
	rules := filepath.Join(s.dir, "pg_hba.conf")
	require.NoError(s.t, os.WriteFile(rules, []byte("host all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n"), 0o644))
	server := pgtest.Start(s.t, pgtest.Options{Settings: []string{"hba_file = '" + rules + "'"}})
	u, err := url.Parse(server.URL())
	require.NoError(s.t, err)
	s.ports["postgres:5432"], err = strconv.Atoi(u.Port())
	require.NoError(s.t, err)
	require.DirExists(s.t, secrets)
}

// initDatabase runs the script that PostgreSQL's image runs.
func (s *topology) initDatabase() {
	s.t.Helper()
	s.untilHealthy("postgres")
	const script = "/docker-entrypoint-initdb.d/hookladder.sh"
	cmd := exec.CommandContext(s.t.Context(), s.path("postgres", script))
	cmd.Env = append(s.environment("postgres"), "PATH="+os.Getenv("PATH"), "PGHOST=127.0.0.1", fmt.Sprint("PGPORT=", s.ports["postgres:5432"]),
		"OUTBOX_SCHEMA="+s.path("postgres", "/schema/outbox.sql"))
	out, err := cmd.CombinedOutput()
	require.NoError(s.t, err, string(out))
}

func (s *topology) redis() {
	s.t.Helper()
	args := append(s.command("redis", 1), "--bind", "127.0.0.1", "--port", strconv.Itoa(s.ports["redis:6379"]))
	s.start("redis", program(s.t, s.project.Services["redis"].Command[0]), args...)
}

func (s *topology) receiver() {
	s.t.Helper()
	s.heard = append(s.heard, s.start("receiver", s.binary, s.command("receiver", 0)...).Output)
}

// neighbour starts a second receiver, which is never away.
func (s *topology) neighbour() {
	s.t.Helper()
	args := s.command("receiver", 0)
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], s.at("receiver:9000"), s.at("neighbour:9000"))
	}
	p, err := kit.Start(kit.Command{Name: "neighbour", Path: s.binary, Args: args, Dir: s.dir})
	require.NoError(s.t, err)
	s.running["neighbour"] = p
	s.heard = append(s.heard, p.Output)
	_, err = p.Line(s.t.Context(), "listening on ")
	require.NoError(s.t, err)
}

// dispatcher starts a dispatcher with traces, whose collector is away.
func (s *topology) dispatcher(name string) {
	s.t.Helper()
	collector := "http://127.0.0.1:1" // the system gives out no such port
	s.project.Services[name].Environment["OTEL_EXPORTER_OTLP_ENDPOINT"] = &collector
	s.start(name, s.binary, "serve")
}

// nginx starts nginx with the file that compose.yaml mounts, inside the least that includes it.
func (s *topology) nginx() {
	s.t.Helper()
	const inside = "/etc/nginx/conf.d/default.conf"
	text := s.local("nginx", mustReadFile(s.t, s.path("nginx", inside)))
	require.Equal(s.t, 1, strings.Count(text, "listen 80;"))
	file := s.replaced("nginx", "hookladder.conf", strings.Replace(text, "listen 80;", "listen "+s.at("nginx:80")+";", 1))
	main := "daemon off; master_process off; pid nginx.pid; events {}\nhttp {\naccess_log off;\n"
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		main += kind + "_temp_path " + filepath.Join(s.dir, "nginx", kind) + ";\n"
	}
	conf := s.replaced("nginx", "nginx.conf", main+"include "+file+";\n}\n")
	s.start("nginx", program(s.t, "nginx"), "-p", s.dir, "-c", conf, "-e", "stderr")
}

func mustReadFile(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

// upgraded ends a dispatcher as compose does, and starts another one in its place.
func (s *topology) upgraded(name string) error {
	service := s.project.Services[name]
	p := s.running[name]
	var late error
	timer := afterGrace(service, func() {
		late = errors.New(name + " takes longer to end than stop_grace_period")
		_ = p.Signal(syscall.SIGKILL)
	})
	err := p.Terminate()
	timer.Stop()
	if err := errors.Join(late, err); err != nil {
		return err
	}
	s.dispatcher(name)
	return nil
}

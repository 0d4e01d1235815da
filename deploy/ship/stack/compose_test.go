// Package stack_test starts the services of deploy/compose.yaml from Debian's packages, breaks
// them under load, and checks the alerts and the dashboard with a real Prometheus. No container
// engine is needed: compose-go validates the file itself.
package stack_test

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/docker/go-units"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
)

// deploy is the folder of the files that ship.
var deploy = mustAbs(filepath.Join("..", ".."))

func mustAbs(path string) string {
	path, err := filepath.Abs(path)
	if err != nil {
		panic(err) // no test finds its files then
	}
	return path
}

func mustRead(t testing.TB, parts ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{deploy}, parts...)...))
	require.NoError(t, err)
	return string(text)
}

// load reads a compose file of the folder deploy as compose does. It also validates it by the
// schema.
func load(ctx context.Context, file string) (*types.Project, error) {
	options, err := cli.NewProjectOptions([]string{file}, cli.WithWorkingDirectory(deploy), cli.WithResolvedPaths(true))
	if err != nil {
		return nil, err
	}
	return options.LoadProject(ctx)
}

func mustLoad(t testing.TB) *types.Project {
	t.Helper()
	project, err := load(t.Context(), filepath.Join(deploy, "compose.yaml"))
	require.NoError(t, err)
	return project
}

// dispatchers are the services that run hookladder serve, in order.
func dispatchers(p *types.Project) (names []string) {
	for name := range p.Services {
		if strings.HasPrefix(name, "dispatcher-") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// setting returns an environment variable of a service; empty: it is not set.
func setting(s types.ServiceConfig, name string) string {
	if value := s.Environment[name]; value != nil {
		return *value
	}
	return ""
}

func TestComposeIsValidAndHardened(t *testing.T) {
	t.Parallel()
	p := mustLoad(t)
	require.Len(t, dispatchers(p), 2)
	require.Empty(t, faults(p))
}

// Each check reports its fault.
func TestEachCheckOfComposeCanFail(t *testing.T) {
	t.Parallel()
	text := mustRead(t, "compose.yaml")
	for name, c := range map[string]struct{ from, to, want string }{
		"no fixed version":           {"redis:8.0.3", "redis:8", "redis: image"},
		"a writable root":            {"read_only: true\n", "read_only: false\n", "nginx: its root can be written"},
		"new privileges":             {`["no-new-privileges:true"]`, "[]", "nginx: no-new-privileges"},
		"capabilities":               {"cap_drop: [ALL]", "cap_drop: [CHOWN]", "nginx: cap_drop"},
		"a log without an end":       {"options: {max-size: 10m, max-file: \"3\"}", "options: {}", "nginx: its log has no limit"},
		"no memory limit":            {"mem_limit: 512m\n\nservices", "\nservices", "dispatcher-1: mem_limit"},
		"little memory for Redis":    {"mem_limit: 1g  # maxmemory", "mem_limit: 600m  # maxmemory", "redis: mem_limit"},
		"no health check":            {"test: [CMD, hookladder, ping]", "disable: true", "dispatcher-1: no health check"},
		"a kill before the end":      {"stop_grace_period: 50s", "stop_grace_period: 30s", "dispatcher-1: stop_grace_period"},
		"an open port":               {`"127.0.0.1:9090:9090"`, `"9090:9090"`, "prometheus: port 9090"},
		"an open store":              {"networks: [store]\n    healthcheck:\n      test: [CMD-SHELL, \"redis-cli", "networks: [front]\n    healthcheck:\n      test: [CMD-SHELL, \"redis-cli", "redis: network front"},
		"no volume":                  {"- redis:/data", "- ./redis.conf:/data:ro", "redis: no volume at /data"},
		"a file that is not there":   {"./redis.conf:", "./redis.config:", "redis.config"},
		"a file that can be changed": {"redis.conf:/etc/redis.conf:ro", "redis.conf:/etc/redis.conf", "redis: /etc/redis.conf can be written"},
		"a secret in plain text":     {"SHUTDOWN_DELAY: 5s", "SHUTDOWN_DELAY: 5s\n    SIGNING_SECRET: whsec_", "SIGNING_SECRET is a secret"},
		"an unknown setting":         {"SHUTDOWN_DELAY: 5s", "SHUTDOWN_DELAY: 5s\n    SHUTDOWN_WAIT: 1s", "SHUTDOWN_WAIT is no setting"},
		"a secret that is not given": {"secrets: [redis_url, postgres_url, ", "secrets: [redis_url, ", "dispatcher-1: /run/secrets/postgres_url is no secret"},
		"a proxy that is not nginx":  {"TRUSTED_PROXIES: 172.30.77.2/32", "TRUSTED_PROXIES: 172.30.77.0/24", "dispatcher-1: TRUSTED_PROXIES"},
		"calls to every service":     {"ALLOW_NETS: 172.30.77.70/32", "ALLOW_NETS: 172.30.77.0/24", "dispatcher-1: ALLOW_NETS"},
		"root":                       {"user: \"101:101\"", "user: \"0:0\"", "nginx: user"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Contains(t, text, c.from)
			file := filepath.Join(t.TempDir(), "compose.yaml")
			require.NoError(t, os.WriteFile(file, []byte(strings.Replace(text, c.from, c.to, 1)), 0o600))
			p, err := load(t.Context(), file)
			require.NoError(t, err)
			require.Contains(t, strings.Join(faults(p), "\n"), c.want)
		})
	}
}

// faults are all faults of a project.
func faults(p *types.Project) (found []string) {
	for _, name := range slices.Sorted(mapKeys(p.Services)) {
		s := p.Services[name]
		for _, check := range []func(*types.Project, types.ServiceConfig) []string{hardened, bounded, reachable, mounted, ended} {
			for _, fault := range check(p, s) {
				found = append(found, name+": "+fault)
			}
		}
	}
	for _, name := range dispatchers(p) {
		for _, fault := range set(p, p.Services[name]) {
			found = append(found, name+": "+fault)
		}
	}
	return found
}

func mapKeys[V any](m map[string]V) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// rootless are images whose own user is not root: ours, Prometheus' and Grafana's.
var rootless = []string{"hookladder:", "prom/prometheus:", "grafana/grafana:"}

func hardened(_ *types.Project, s types.ServiceConfig) (found []string) {
	if !s.ReadOnly {
		found = append(found, "its root can be written")
	}
	if !slices.Contains(s.SecurityOpt, "no-new-privileges:true") {
		found = append(found, "no-new-privileges is missing")
	}
	if !slices.Equal(s.CapDrop, []string{"ALL"}) || len(s.CapAdd) > 0 || s.Privileged {
		found = append(found, "cap_drop is not ALL")
	}
	own := slices.ContainsFunc(rootless, func(image string) bool { return strings.HasPrefix(s.Image, image) })
	if uid, _, _ := strings.Cut(s.User, ":"); uid == "0" || uid == "root" || uid == "" && !own {
		found = append(found, "user is root")
	}
	if !strings.HasPrefix(s.Image, "hookladder:") && !regexp.MustCompile(`:v?\d+\.\d+(\.\d+)?(-[a-z]+)?$`).MatchString(s.Image) {
		found = append(found, "image "+s.Image+" has no fixed version")
	}
	return found
}

func bounded(_ *types.Project, s types.ServiceConfig) (found []string) {
	if s.Logging == nil || s.Logging.Options["max-size"] == "" || s.Logging.Options["max-file"] == "" {
		found = append(found, "its log has no limit")
	}
	if s.MemLimit == 0 || s.PidsLimit == 0 {
		found = append(found, "mem_limit or pids_limit is missing")
	}
	if s.Name == "redis" && int64(s.MemLimit) < 2*maxMemory() {
		found = append(found, "mem_limit is too low for a rewrite of the append-only file")
	}
	if s.HealthCheck == nil || s.HealthCheck.Disable || len(s.HealthCheck.Test) == 0 {
		found = append(found, "no health check")
	}
	if s.Restart != types.RestartPolicyUnlessStopped {
		found = append(found, "it is not restarted")
	}
	return found
}

// maxMemory is the limit of redis.conf. A rewrite of its file may take as much again.
func maxMemory() int64 {
	text, err := os.ReadFile(filepath.Join(deploy, "redis.conf"))
	if err != nil {
		panic(err)
	}
	most, err := units.RAMInBytes(regexp.MustCompile(`(?m)^maxmemory (\S+)$`).FindStringSubmatch(string(text))[1])
	if err != nil {
		panic(err)
	}
	return most
}

// published are the services with a port of this machine. Only loopback reaches them.
var published = []string{"grafana", "nginx", "prometheus"}

func reachable(p *types.Project, s types.ServiceConfig) (found []string) {
	for _, port := range s.Ports {
		if port.HostIP != "127.0.0.1" || !slices.Contains(published, s.Name) {
			found = append(found, "port "+port.Published+" is open to others")
		}
	}
	if s.Name != "redis" && s.Name != "postgres" {
		return found
	}
	for network := range s.Networks {
		if !p.Networks[network].Internal {
			found = append(found, "network "+network+" leads to others")
		}
	}
	return found
}

// state are the folders that must outlive a container.
var state = map[string]string{"redis": "/data", "postgres": "/var/lib/postgresql/data", "prometheus": "/prometheus", "grafana": "/var/lib/grafana"}

func mounted(p *types.Project, s types.ServiceConfig) (found []string) {
	kept := ""
	for _, v := range s.Volumes {
		if v.Type == types.VolumeTypeVolume && v.Source != "" {
			kept = v.Target
			continue
		}
		if _, err := os.Stat(v.Source); err != nil {
			found = append(found, err.Error())
		}
		if !v.ReadOnly {
			found = append(found, v.Target+" can be written")
		}
	}
	if kept != state[s.Name] {
		found = append(found, "no volume at "+state[s.Name])
	}
	for _, secret := range s.Secrets {
		if file := p.Secrets[secret.Source].File; filepath.Base(filepath.Dir(file)) != "secrets" {
			found = append(found, secret.Source+" is not in the folder of the secrets")
		}
	}
	return found
}

// ended checks the time that a stop may take: the settings, and 15 s for the store.
func ended(_ *types.Project, s types.ServiceConfig) (found []string) {
	if !strings.HasPrefix(s.Name, "dispatcher-") {
		return nil
	}
	needed := 15 * time.Second
	for _, name := range []string{"SHUTDOWN_DELAY", "SHUTDOWN_GRACE"} {
		d, err := time.ParseDuration(setting(s, name))
		if err != nil {
			found = append(found, name+" is not set")
		}
		needed += d
	}
	if s.StopGracePeriod == nil || time.Duration(*s.StopGracePeriod) < needed {
		found = append(found, fmt.Sprintf("stop_grace_period is shorter than %s", needed))
	}
	return found
}

// settingRow is a row of the table of settings in the documents, which a test of cmd/hookladder
// compares with the program.
var settingRow = regexp.MustCompile("(?m)^\\| `([A-Z_]+)` \\|")

// set checks the settings of a dispatcher.
func set(p *types.Project, s types.ServiceConfig) (found []string) {
	page, err := os.ReadFile(filepath.Join(deploy, "docs", "settings.md"))
	if err != nil {
		return []string{err.Error()}
	}
	var known []string
	for _, m := range settingRow.FindAllStringSubmatch(string(page), -1) {
		known = append(known, m[1])
	}
	_, files, _ := strings.Cut(string(page), "\n## Settings from files\n")
	for name, value := range s.Environment {
		plain, fromFile := strings.CutSuffix(name, "_FILE")
		fromFile = fromFile && strings.Contains(files, "`"+name+"`")
		switch {
		case fromFile && !slices.ContainsFunc(s.Secrets, func(c types.ServiceSecretConfig) bool { return "/run/secrets/"+c.Source == *value }):
			found = append(found, *value+" is no secret of this service")
		case !fromFile && strings.Contains(files, "`"+name+"_FILE`"):
			found = append(found, name+" is a secret: use "+name+"_FILE")
		case !slices.Contains(known, name) && !(fromFile && slices.Contains(known, plain)):
			found = append(found, name+" is no setting")
		}
	}
	for name, service := range map[string]string{"TRUSTED_PROXIES": "nginx", "ALLOW_NETS": "receiver"} {
		nets, err := netip.ParsePrefix(setting(s, name))
		if own := address(p.Services[service]); err != nil || nets.String() != own+"/32" {
			found = append(found, name+" is not the address of "+service)
		}
	}
	return found
}

// address is the fixed address of a service; empty: it has none.
func address(s types.ServiceConfig) string {
	for _, network := range s.Networks {
		if network != nil && network.Ipv4Address != "" {
			return network.Ipv4Address
		}
	}
	return ""
}

// The file for nginx is the block of the documents, with the addresses of the dispatchers.
func TestNginxHasTheBlockOfTheDocuments(t *testing.T) {
	t.Parallel()
	p := mustLoad(t)
	_, block, found := strings.Cut(mustRead(t, "README.md"), "\n```nginx\n")
	require.True(t, found)
	block, _, _ = strings.Cut(block, "\n```")
	servers := regexp.MustCompile(`(?m)^\tserver (\S+) max_fails=0;\n`)
	var want []string
	for _, name := range dispatchers(p) {
		want = append(want, address(p.Services[name])+setting(p.Services[name], "LISTEN"))
	}
	var got []string
	shipped := mustRead(t, "nginx", "hookladder.conf")
	for _, m := range servers.FindAllStringSubmatch(shipped, -1) {
		got = append(got, m[1])
	}
	require.Equal(t, want, got)
	_, shipped, _ = strings.Cut(shipped, "upstream ")
	_, block, _ = strings.Cut(block, "upstream ")
	require.Equal(t, strings.TrimSpace(servers.ReplaceAllString(block, "")), strings.TrimSpace(servers.ReplaceAllString(shipped, "")))
}

// The program accepts the settings, and the secrets that the documents make.
func TestTheProgramAcceptsTheSettingsAndSecrets(t *testing.T) {
	t.Parallel()
	binary, err := kit.FastBinary()
	require.NoError(t, err)
	p, secrets := mustLoad(t), makeSecrets(t)
	for name := range p.Secrets {
		info, err := os.Stat(filepath.Join(secrets, name))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o644), info.Mode(), "the user of a container reads %s", name)
	}
	folder, err := os.Stat(secrets)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), folder.Mode().Perm(), "no other user of this machine does")
	for _, name := range dispatchers(p) {
		cmd := exec.CommandContext(t.Context(), binary, "config")
		for variable, value := range p.Services[name].Environment {
			cmd.Env = append(cmd.Env, variable+"="+strings.Replace(*value, "/run/secrets", secrets, 1))
		}
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		require.NoError(t, cmd.Run(), out.String())
	}
}

// makeSecrets runs the block of deploy/README.md that makes the secrets, and returns their folder.
func makeSecrets(t testing.TB) string {
	t.Helper()
	const begin = "( set -e; umask 077; mkdir deploy/secrets;"
	_, after, found := strings.Cut(mustRead(t, "README.md"), "\n```sh\n"+begin)
	require.True(t, found, "deploy/README.md has no block for the secrets")
	script, _, _ := strings.Cut(begin+after, "\n```")
	top := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(top, "deploy"), 0o700))
	require.NoError(t, os.Symlink(filepath.Join(deploy, "docs"), filepath.Join(top, "deploy", "docs")))
	cmd := exec.CommandContext(t.Context(), "sh", "-eu", "-c", script)
	cmd.Dir = top
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return filepath.Join(top, "deploy", "secrets")
}

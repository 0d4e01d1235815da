package docs_test

import (
	"errors"
	"fmt"
	neturl "net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/pgtest"
	"github.com/hookladder/hookladder/deploy/kit/redistest"
)

// site is what a page about deploying makes with programs that this machine has not, or that
// would change it. Stubs record their calls, and judge says what is wrong with them.
type site struct {
	v          *visitor
	root       string            // in place of / for the files of a service
	images     map[string]string // the tags that were built, and their targets
	pushed     map[string]bool
	volumes    map[string]bool
	namespaces map[string]bool
	secrets    map[string]bool // of Kubernetes
	installed  map[string]bool // packages
	users      map[string]bool
	app        string // of Fly
}

// call is one call of a stub.
type call struct {
	dir  string
	name string
	args []string
}

func (c call) String() string { return c.name + " " + strings.Join(c.args, " ") }

// path returns a path that the call names.
func (c call) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(c.dir, name)
}

// values returns the values of a flag, written as "-f value" or "--flag=value".
func (c call) values(flag string) (found []string) {
	for n, arg := range c.args {
		if value, ok := strings.CutPrefix(arg, flag+"="); ok {
			found = append(found, value)
		} else if arg == flag && n+1 < len(c.args) {
			found = append(found, c.args[n+1])
		}
	}
	return found
}

// value returns the only value of a flag; empty: it has none, or several.
func (c call) value(flag string) string {
	if all := c.values(flag); len(all) == 1 {
		return all[0]
	}
	return ""
}

func (c call) last() string { return c.args[len(c.args)-1] }

// stub puts a program in front of the PATH. It records how it is called, and then runs body.
func (v *visitor) stub(name, body string) {
	v.t.Helper()
	record := `#!/bin/sh
record=$(printf '\036%s' "$PWD"; printf '\037%s' ` + name + ` "$@")
printf '%s' "$record" >> "` + filepath.Join(v.dir, "calls") + `"
`
	require.NoError(v.t, os.WriteFile(filepath.Join(v.dir, "bin", name), []byte(record+body+"\n"), 0o700))
}

// dryRun is the body of make's stub: the task has to be there, and build has to make the program.
func dryRun(t testing.TB) string {
	t.Helper()
	program, err := exec.LookPath("make")
	require.NoError(t, err)
	return `commands=$(` + program + ` -n -C ` + top(t) + ` "$@") || exit
[ "$1" != build ] || printf '%s' "$commands" | grep -q -- '-o bin/hookladder ./cmd/hookladder'`
}

// deploys prepares a page that deploys from a checkout.
func (v *visitor) deploys() *site {
	v.t.Helper()
	s := &site{
		v: v, root: filepath.Join(v.dir, "root"), images: map[string]string{}, pushed: map[string]bool{}, volumes: map[string]bool{},
		namespaces: map[string]bool{}, secrets: map[string]bool{}, installed: map[string]bool{}, users: map[string]bool{},
	}
	v.site = s
	for _, path := range []string{"Dockerfile", "fly.toml", "deploy/compose.yaml", "deploy/docs/operate.md", "deploy/systemd", "deploy/chart", "deploy/kubernetes", "deploy/interop"} {
		from, to := filepath.Join(top(v.t), path), filepath.Join(v.dir, path)
		require.NoError(v.t, os.MkdirAll(filepath.Dir(to), 0o700))
		if about, err := os.Stat(from); err == nil && about.IsDir() {
			require.NoError(v.t, os.CopyFS(to, os.DirFS(from)))
			continue
		}
		text, err := os.ReadFile(from)
		require.NoError(v.t, err)
		require.NoError(v.t, os.WriteFile(to, text, 0o600))
	}
	for _, folder := range []string{"usr/bin", "etc/systemd/system"} {
		require.NoError(v.t, os.MkdirAll(filepath.Join(s.root, folder), 0o700))
	}
	for _, name := range []string{"docker", "kubectl", "helm", "systemctl", "apt-get", "useradd", "editor", "npm", "node", "go"} {
		v.stub(name, "")
	}
	v.stub("fly", `[ "$1 $2" != "secrets import" ] || cat > "`+filepath.Join(v.dir, "imported")+`"`)
	v.stub("git", "echo 0123abcd")
	v.stub("make", dryRun(v.t))
	v.swaps = append(v.swaps, "/usr/bin/", s.root+"/usr/bin/", "/etc/", s.root+"/etc/", "https://my-hookladder.fly.dev", "http://"+v.addr)
	return s
}

// deployPage prepares the page of all ways to deploy.
func deployPage(v *visitor) {
	s := v.deploys()
	deb := "hookladder_" + s.version() + "_amd64.deb"
	v.hooks["sha256sum --check"] = pageHook{before: func() { v.run("echo a package > " + deb + "; sha256sum " + deb + " > checksums.txt") }, after: func(string) {
		require.NoError(v.t, os.RemoveAll(s.root)) // the next service is one without the package
		for _, folder := range []string{"usr/bin", "etc/systemd/system"} {
			require.NoError(v.t, os.MkdirAll(filepath.Join(s.root, folder), 0o700))
		}
		clear(s.installed)
		clear(s.users)
	}}
	v.hooks["compose.yaml up"] = pageHook{before: func() { // with the keys of the folder, as in the containers
		keys := filepath.Join(v.dir, "deploy", "secrets", "api_keys")
		v.serve("API_KEYS_FILE="+keys, "ALLOW_NETS=172.30.77.70/32")
	}, after: func(output string) { require.Contains(v.t, output, `"id":"msg_`) }}
	v.hooks["create role hookladder"] = pageHook{before: func() {
		url, err := neturl.Parse(pgtest.Start(v.t, pgtest.Options{}).URL()) // its role is no other page's
		require.NoError(v.t, err)
		v.env = append(v.env, "PGHOST="+url.Hostname(), "PGPORT="+url.Port(), "PGUSER="+url.User.Username())
	}}
}

// terminal returns a script that begins where the one before has ended: in the same folder,
// with the same umask and variables.
func (s *site) terminal(script string) string {
	state := filepath.Join(s.v.dir, "terminal")
	return "[ ! -f " + state + " ] || . " + state + "\n" + script + "\n{ printf 'cd %q\\numask %s\\n' \"$PWD\" \"$(umask)\"; export -p; } > " + state + ".new; mv " + state + ".new " + state + "\n"
}

// version is that of the chart's program.
func (s *site) version() string {
	text, err := os.ReadFile(filepath.Join(top(s.v.t), "deploy", "chart", "Chart.yaml"))
	require.NoError(s.v.t, err)
	return found(string(text), `(?m)^appVersion: (.+)$`)
}

// found returns what the first group of a pattern matches.
func found(text, pattern string) string {
	if m := regexp.MustCompile(pattern).FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return ""
}

// judge judges the calls since the last one, in order.
func (s *site) judge() error {
	file := filepath.Join(s.v.dir, "calls")
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, record := range strings.Split(string(text), "\036")[1:] {
		fields := strings.Split(record, "\037")
		c := call{dir: fields[0], name: fields[1], args: fields[2:]}
		if err := s.carryOut(c); err != nil {
			return fmt.Errorf("%s: %w", c, err)
		}
	}
	return os.Remove(file)
}

// carryOut returns what is wrong with a call, after those before it.
func (s *site) carryOut(c call) error {
	switch c.name {
	case "docker":
		return s.docker(c)
	case "kubectl":
		return s.kubectl(c)
	case "helm":
		return s.helm(c)
	case "fly":
		return s.fly(c)
	case "systemctl":
		return s.systemctl(c)
	case "apt-get":
		return s.install(c)
	case "useradd":
		s.users[c.last()] = true
	case "editor": // a person writes the settings
		return os.WriteFile(c.last(), []byte("DATA_DIR=/var/lib/hookladder\nSIGNING_SECRET="+secretOfPages+"\n"), 0o600)
	case "npm":
		_, err := os.Stat(c.path("package-lock.json"))
		return err
	case "go", "node":
		_, err := os.Stat(c.path(c.last()))
		return err
	}
	return nil
}

func (s *site) docker(c call) error {
	switch c.args[0] {
	case "build":
		file, err := os.ReadFile(filepath.Join(c.path(c.last()), "Dockerfile"))
		if err != nil {
			return err
		}
		target := c.value("--target")
		if target != "" && !strings.Contains(string(file), " AS "+target+"\n") {
			return errors.New("the Dockerfile has no such target")
		}
		if c.value("--build-arg") != "REVISION=0123abcd" {
			return errors.New("it has no commit")
		}
		s.images[c.value("-t")] = target
	case "push":
		if _, built := s.images[c.last()]; !built {
			return errors.New("it was not built")
		}
		s.pushed[c.last()] = true
	case "volume":
		s.volumes[c.last()] = true
	case "run":
		return s.dockerRun(c)
	case "compose":
		return s.compose(c)
	default:
		return errors.New("nobody judges this")
	}
	return nil
}

func (s *site) dockerRun(c call) error {
	target, built := s.images[c.last()]
	if !built {
		return errors.New("it was not built")
	}
	if c.value("--stop-timeout") != "50" {
		return errors.New("it is killed before it has stopped")
	}
	env := append(c.values("-e"), "PORT=8080", "METRICS_LISTEN=127.0.0.1:9464")
	for _, file := range c.values("--env-file") {
		more, err := private(c.path(file))
		if err != nil {
			return err
		}
		env = append(env, more...)
	}
	volume, _, mounted := strings.Cut(c.value("-v"), ":/data")
	if ownRedis := slices.Contains(env, "DATA_DIR=/data"); ownRedis != (mounted && s.volumes[volume]) || ownRedis == (target == "slim") {
		return errors.New("DATA_DIR needs a volume, and the image that has a Redis")
	}
	return s.settings(env)
}

// private returns the lines of a file of secrets.
func private(file string) ([]string, error) {
	about, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if about.Mode().Perm() != 0o600 {
		return nil, fmt.Errorf("others can read %s: %s", file, about.Mode())
	}
	text, err := os.ReadFile(file)
	return lines(string(text)), err
}

// settings returns the mistakes of an environment.
func (s *site) settings(env []string) error {
	cmd := exec.CommandContext(s.v.ctx, filepath.Join(s.v.dir, "bin", "hookladder"), "config")
	cmd.Env = env
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Contains(string(out), "warning: ") {
		return fmt.Errorf("config: %w\n%s", err, out)
	}
	for _, name := range []string{"API_KEYS", "SIGNING_SECRET", "ENCRYPTION_KEY"} {
		if !slices.ContainsFunc(env, func(e string) bool { return strings.HasPrefix(e, name+"=") }) {
			return errors.New("there is no " + name)
		}
	}
	if !slices.ContainsFunc(env, func(e string) bool { return strings.HasPrefix(e, "REDIS_URL=") || strings.HasPrefix(e, "DATA_DIR=") }) {
		return errors.New("there is no Redis")
	}
	return nil
}

func (s *site) compose(c call) error {
	file := c.path(c.args[2]) // behind -f
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	for _, m := range regexp.MustCompile(`(?m)^    file: (.+)$|\{file: ([^}]+)\}`).FindAllStringSubmatch(string(text), -1) {
		secret := filepath.Join(filepath.Dir(file), m[1]+m[2])
		about, err := os.Stat(secret)
		if err != nil {
			return err
		}
		if about.Mode().Perm() != 0o644 {
			return fmt.Errorf("a container can't read %s, or you can't overwrite it: %s", filepath.Base(secret), about.Mode())
		}
	}
	for _, arg := range c.args[4:] {
		if service := regexp.MustCompile(`^[a-z]+(-\d)?$`).MatchString(arg); service && !strings.Contains(string(text), "\n  "+arg+":\n") {
			return errors.New("there is no service " + arg)
		}
	}
	if c.args[3] == "build" { // of another version than the one that runs
		version, err := os.ReadFile(filepath.Join(filepath.Dir(file), ".env"))
		if err != nil || string(version) != "HOOKLADDER_VERSION=0123abcd\n" {
			return fmt.Errorf("the version to build is %q, %w", version, err)
		}
	}
	return nil
}

func (s *site) kubectl(c call) error {
	namespace := c.value("--namespace")
	text := c.String()
	switch {
	case strings.Contains(text, " create namespace "):
		s.namespaces[c.last()] = true
		return nil
	case !s.namespaces[namespace]:
		return errors.New("there is no such namespace")
	case strings.Contains(text, " create secret generic "):
		var env []string
		for _, file := range c.values("--from-env-file") {
			more, err := private(c.path(file))
			if err != nil {
				return err
			}
			env = append(env, more...)
		}
		s.secrets[found(text, ` generic (\S+)`)] = true
		return s.settings(env)
	case strings.Contains(text, " rollout restart deployment/"):
		objects, err := os.ReadFile(filepath.Join(s.v.dir, "deploy", "kubernetes", "default.yaml"))
		if err != nil {
			return err
		}
		if name := found(string(objects), `(?m)^kind: Deployment\nmetadata:\n  name: (.+)$`); !strings.HasSuffix(text, "deployment/"+name) {
			return errors.New("the chart's is " + name)
		}
		return nil
	}
	return errors.New("nobody judges this")
}

func (s *site) helm(c call) error {
	if _, err := os.Stat(filepath.Join(c.path(c.args[2]), "Chart.yaml")); err != nil {
		return err
	}
	image := strings.TrimPrefix(c.value("--set"), "image.repository=") + ":" + s.version()
	if !s.pushed[image] || s.images[image] != "slim" {
		return errors.New("the chart pulls " + image + ", which was not pushed")
	}
	if !s.namespaces[c.value("--namespace")] || !s.secrets["hookladder"] {
		return errors.New("its namespace or its Secret is not there")
	}
	return nil
}

func (s *site) fly(c call) error {
	if c.args[0] == "apps" {
		s.app = c.last()
		return nil
	}
	config, err := os.ReadFile(c.path("fly.toml"))
	if err != nil {
		return err
	}
	if app := found(string(config), `(?m)^app = "(.+)"$`); app != s.app {
		return errors.New("fly.toml is for " + app)
	}
	if c.args[0] == "secrets" {
		text, err := os.ReadFile(filepath.Join(s.v.dir, "imported"))
		if err != nil {
			return err
		}
		return s.settings(lines(string(text)))
	}
	return nil
}

// install puts the files of our package to where a service looks for them.
func (s *site) install(c call) error {
	name := c.last()
	s.installed[name] = true
	if !strings.HasSuffix(name, ".deb") {
		return nil
	}
	if _, err := os.Stat(c.path(name)); err != nil {
		return err
	}
	s.installed["redis-server"], s.users["hookladder"] = true, true
	s.v.run("cd " + s.v.dir + " && install -m 0755 bin/hookladder /usr/bin/hookladder && install -m 0644 deploy/systemd/hookladder.service /etc/systemd/system/ && install -d -m 0700 /etc/hookladder/keys")
	return nil
}

// systemctl checks that the service can start.
func (s *site) systemctl(c call) error {
	unit, err := os.ReadFile(filepath.Join(s.root, "etc/systemd/system", c.last()+".service"))
	if err != nil {
		return err
	}
	of := func(name string) string { return found(string(unit), `(?m)^`+name+`=(?:keys:)?(\S+)`) }
	program, err := os.Stat(filepath.Join(s.root, of("ExecStart")))
	if err != nil {
		return err
	}
	if program.Mode().Perm() != 0o755 {
		return fmt.Errorf("the program is %s", program.Mode())
	}
	keys, err := os.Stat(filepath.Join(s.root, of("LoadCredential")))
	if err != nil {
		return err
	}
	if keys.Mode().Perm() != 0o700 {
		return fmt.Errorf("the folder of the keys is %s", keys.Mode())
	}
	if !s.users[of("User")] {
		return errors.New("there is no user " + of("User"))
	}
	env, err := private(filepath.Join(s.root, of("EnvironmentFile")))
	if err != nil {
		return err
	}
	if slices.Contains(env, "DATA_DIR=/var/lib/hookladder") && !s.installed["redis-server"] {
		return errors.New("DATA_DIR needs a redis-server")
	}
	return s.settings(append(env, "API_KEYS=0123456789abcdef:admin", "ENCRYPTION_KEY=MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="))
}

// trial is a test that may fail: it keeps what a real one would report.
type trial struct {
	testing.TB
	said string
}

func (t *trial) Helper() {}

func (t *trial) Errorf(format string, args ...any) { t.said += fmt.Sprintf(format, args...) }

func (t *trial) FailNow() { runtime.Goexit() }

// The stubs notice what a person would who pastes a wrong block.
func TestAWrongBlockOfDeployingFails(t *testing.T) {
	redistest.Long(t)
	blocks := mustReadPage(t, "deploy/README.md")
	for name, c := range map[string]struct{ from, to, want string }{
		"an image without a tag":          {"docker build -t hookladder --", "docker build -t hookladder:1 --", "it was not built"},
		"a stop that kills":               {"--stop-timeout 50 -p 8080:8080 -v", "-p 8080:8080 -v", "killed before"},
		"secrets that all may read":       {"( umask 077; random()", "( umask 022; random()", "others can read"},
		"no Redis":                        {" --env-file redis.env hookladder:slim", " hookladder:slim", "there is no Redis"},
		"another folder":                  {"( set -e; umask 077; mkdir deploy/secrets", "{ umask 022; mkdir deploy/secrets", "api_keys: No such file"},
		"secrets that no container has":   {"chmod 0644 *", "true", "a container can't read"},
		"a call without its media type":   {"-H 'Content-Type: application/json' ", "", "415"},
		"a version that is not written":   {"> deploy/.env", "> .env", "the version to build"},
		"a service that is not there":     {"up -d --no-deps --wait dispatcher-2", "up -d --no-deps --wait dispatcher", "no service dispatcher"},
		"no program":                      {"make build && install -m 0755 bin/hookladder /usr/bin/hookladder", "make build", "usr/bin/hookladder: no such file"},
		"no redis-server":                 {"apt-get install -y redis-server", "true", "needs a redis-server"},
		"settings that all may read":      {"install -m 0600 hookladder.env", "install -m 0644 hookladder.env", "others can read"},
		"no user":                         {"useradd --system --no-create-home hookladder", "true", "no user hookladder"},
		"the app of somebody else":        {"sed -i 's/^app = ", "echo 's/^app = ", "fly.toml is for"},
		"an image that the chart has not": {"docker push registry.example/hookladder:$version", "docker push registry.example/hookladder:latest", "it was not built"},
		"a chart of another tag":          {"sed -n 's/^appVersion: //p'", "sed -n 's/^apiVersion: //p'", "which was not pushed"},
		"a task that is not there":        {"make build &&", "make built &&", "usr/bin/hookladder: no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wrong := slices.Clone(blocks)
			n := slices.IndexFunc(wrong, func(b pageBlock) bool { return strings.Contains(b.text, c.from) })
			require.NotEqual(t, -1, n, "no block has %q", c.from)
			wrong[n].text = strings.Replace(wrong[n].text, c.from, c.to, 1)
			if strings.HasPrefix(c.to, "{ ") {
				wrong[n].text = strings.Replace(wrong[n].text, "0644 * )", "0644 *; }", 1)
			}
			v := newVisitor(t)
			deployPage(v)
			said := &trial{TB: t}
			v.t = said
			done := make(chan struct{})
			go func() {
				defer close(done)
				v.read(wrong)
			}()
			<-done
			v.t = t
			require.Contains(t, said.said, c.want)
		})
	}
}

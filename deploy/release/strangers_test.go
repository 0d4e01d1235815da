//go:build ship

package release_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Three strangers do a whole job in bare systems, each by what the pages show: the first one from a
// checkout with Go, the others with the package. They type only what a page leaves to them, such as
// a password. Each test logs how long the job took.

// shown returns the only block of a page that has a text.
func shown(t testing.TB, page, text string) string {
	t.Helper()
	all, err := os.ReadFile(filepath.Join(topFolder(t), page))
	require.NoError(t, err)
	var found []string
	for _, m := range regexp.MustCompile("(?ms)^```[a-z]+\n(.*?\n)```$").FindAllStringSubmatch(string(all), -1) {
		if strings.Contains(m[1], text) {
			found = append(found, m[1])
		}
	}
	require.Len(t, found, 1, "%s: %s", page, text)
	return found[0]
}

// A network has the ports and addresses that the pages show for itself. What runs in it ends with it.
type network struct{ first int }

func newNetwork(t testing.TB, addresses ...string) network {
	t.Helper()
	ready := filepath.Join(t.TempDir(), "ready")
	script := `ip link set lo up; ready=$1; shift; for address; do ip address add "$address/32" dev lo; done; echo >"$ready"; exec sleep infinity`
	cmd := exec.CommandContext(t.Context(), "unshare", append([]string{"--net", "--pid", "--fork", "--kill-child", "/bin/sh", "-euc", script, "network", ready}, addresses...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // nothing outlives a test that is killed
	require.NoError(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	n := network{}
	until(t, func() error {
		select {
		case err := <-ended:
			ended <- err
			require.Fail(t, "it ended", "%v", err)
		default:
		}
		if _, err := os.Stat(ready); err != nil {
			return err
		}
		children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", cmd.Process.Pid, cmd.Process.Pid))
		if err != nil {
			return err
		}
		n.first, err = strconv.Atoi(strings.TrimSpace(string(children)))
		return err
	})
	return n
}

// join returns the command as one of the network, in a process group of its own.
func (n network) join(t testing.TB, cmd *exec.Cmd) *exec.Cmd {
	t.Helper()
	joined := exec.CommandContext(t.Context(), "nsenter", append([]string{"--net", "--pid", "--target=" + strconv.Itoa(n.first)}, cmd.Args...)...)
	joined.Env, joined.SysProcAttr = cmd.Env, &syscall.SysProcAttr{Setpgid: true}
	joined.WaitDelay = time.Second // a daemon may keep its output
	return joined
}

// A terminal is a shell of a person who pastes blocks into it.
type terminal struct {
	t      testing.TB
	in     *os.File
	out    *buffer
	pasted int
}

// terminal opens one in a folder of the root. It ends with the test, as does everything that was
// started in it.
func (r root) terminal(t testing.TB, n network, folder string) *terminal {
	t.Helper()
	cmd := r.command(t, place{}, "/bin/bash", "-c", `cd "$1"; exec bash`, "terminal", folder)
	cmd.Env = []string{usualPath + ":/usr/local/go/bin", "HOME=/root", "LC_ALL=C.UTF-8"}
	if n != (network{}) {
		cmd = n.join(t, cmd)
	}
	stdin, in, err := os.Pipe()
	require.NoError(t, err)
	p := &terminal{t: t, in: in, out: &buffer{}}
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = stdin, p.out, p.out, &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, cmd.Start())
	require.NoError(t, stdin.Close())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = in.Close()
		killGroup(cmd)
		<-ended
		if t.Failed() {
			t.Logf("the terminal showed:\n%s", p.out)
		}
	})
	p.write("trap 'echo \"== failed: $BASH_COMMAND\"' ERR\n")
	return p
}

// killGroup kills a command with all that it started.
func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

func (p *terminal) write(text string) {
	p.t.Helper()
	_, err := p.in.WriteString(text)
	require.NoError(p.t, err)
}

// paste pastes a block, waits for its end and returns what the terminal has shown meanwhile.
// Each of its commands has to succeed.
func (p *terminal) paste(block string) string {
	p.t.Helper()
	output := p.try(block)
	require.NotContains(p.t, output, "== failed: ")
	return output
}

// try is paste for a block of which a command may fail.
func (p *terminal) try(block string) string {
	p.t.Helper()
	p.pasted++
	before, end := len(p.out.String()), fmt.Sprintf("== end %d\n", p.pasted)
	p.write(block + "\nprintf '== end %d\\n' " + strconv.Itoa(p.pasted) + "\n")
	p.until(end)
	output, _, _ := strings.Cut(p.out.String()[before:], end)
	return output
}

// until waits until the terminal has shown a text.
func (p *terminal) until(text string) {
	p.t.Helper()
	untilWithin(p.t, 20*time.Minute, func() error { // a block may compile a program, or make thousands of calls
		if !strings.Contains(p.out.String(), text) {
			return fmt.Errorf("%q is not shown: %s", text, p.out)
		}
		return nil
	})
}

// untilReady waits until an instance accepts messages.
func (p *terminal) untilReady(address string) {
	p.t.Helper()
	p.paste("until curl -fsS -o /dev/null http://" + address + "/readyz 2>/dev/null; do sleep 0.1; done")
}

func TestAStrangerGetsTheFirstVerifiedWebhookFromACheckout(t *testing.T) {
	r := newRoot(t)
	r.sh(t, "apt-get -qq update && apt-get -qq install -y --no-install-recommends ca-certificates curl git make redis-server")
	env := func(name string) string { return strings.TrimSpace(mustRun(t, "go", "env", name)) }
	require.NoError(t, os.CopyFS(r.path("/usr/local/go"), os.DirFS(env("GOROOT"))))
	require.NoError(t, os.CopyFS(r.path("/root/hookladder"), os.DirFS(mustCheckout(t, topFolder(t)))))
	r.write(t, "/etc/ssl/certs/ca-certificates.crt", readFile(t, "/etc/ssl/certs/ca-certificates.crt"), 0o644) // a proxy of modules may have an authority of its own
	// The stranger's network reaches no proxy, so the modules come before.
	began := time.Now()
	r.sh(t, "cd /root/hookladder && PATH=$PATH:/usr/local/go/bin GOPROXY="+env("GOPROXY")+" GOSUMDB="+env("GOSUMDB")+" GOTOOLCHAIN=local go mod download")
	n := newNetwork(t)
	first, second := r.terminal(t, n, "/root/hookladder"), r.terminal(t, n, "/root/hookladder")

	const page = "README.md"
	first.write(shown(t, page, "redis-server deploy/redis.conf &"))
	second.untilReady("127.0.0.1:8080")
	second.paste(shown(t, page, "send --url http://127.0.0.1:9000/hooks"))
	require.Contains(t, second.paste(shown(t, page, "curl http://127.0.0.1:8080/v1/messages")), `"duplicate":true`)
	first.until("order_17")

	second.paste(shown(t, page, "endpoints create --uid shop-42"))
	r.write(t, "/root/hookladder/receiver.go", shown(t, page, "signer.ParseSecrets"), 0o644)
	second.write("go run receiver.go &\n")
	second.paste(shown(t, page, "send --tenant shop_42"))
	second.until("genuine: order_18") // the first attempt may be before the receiver is compiled
	t.Logf("the first verified webhook on an endpoint of one's own came %s after the checkout, with the modules and all compiling", time.Since(began).Round(time.Second))
	second.paste("until bin/hookladder get order_18 | grep -q delivered; do sleep 0.1; done")
}

// newPackageRoot returns a system with the package, which was installed as the page shows.
func newPackageRoot(t testing.TB, deb, more string) root {
	t.Helper()
	r := newRoot(t)
	r.write(t, "/usr/bin/systemctl", systemctl, 0o755)
	name := filepath.Base(deb)
	r.write(t, "/root/"+name, readFile(t, deb), 0o644)
	r.sh(t, "apt-get -qq update && apt-get -qq install -y --no-install-recommends curl "+more+" && cd /root && sha256sum "+name+" > checksums.txt")
	block := shown(t, "deploy/README.md", "sha256sum --check") // up to the editor
	install, _, _ := strings.Cut(block, "editor ")
	require.Contains(t, install, "apt-get install ./hookladder_"+older+"_amd64.deb")
	r.sh(t, "cd /root && "+strings.NewReplacer("hookladder_"+older+"_amd64.deb", name, "apt-get install", "apt-get -qq install -y").Replace(install))
	return r
}

func readFile(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	return string(text)
}

func TestAStrangerRunsThreeInstancesBehindNginx(t *testing.T) {
	deb := mustPackage(t, "deb", older, mustBuild(t, older))
	began := time.Now()
	data := newPackageRoot(t, deb, "nginx postgresql redis-server")
	const receivers, store = "10.0.0.21", "10.0.0.31"
	instances := []string{"10.0.0.11", "10.0.0.12", "10.0.0.13"}
	n := newNetwork(t, append([]string{receivers, store}, instances...)...)
	const hosts = "127.0.0.1 localhost\n" + store + " redis.example db.example\n"
	data.write(t, "/etc/hosts", hosts, 0o644)
	admin := data.terminal(t, n, "/root")
	const page, password = "deploy/README.md", "0123456789abcdef"

	// Redis with the user of operate.md, PostgreSQL and nginx.
	user := regexp.MustCompile(`(?m)^user hookladder on >PASSWORD .*$`).FindString(readFile(t, filepath.Join(topFolder(t), "deploy", "docs", "operate.md")))
	require.NotEmpty(t, user)
	data.write(t, "/etc/redis/hookladder.conf", readFile(t, filepath.Join(topFolder(t), "deploy", "redis.conf"))+
		"\nbind "+store+"\ndir /var/lib/redis\n"+strings.Replace(user, "PASSWORD", password, 1)+"\n", 0o644)
	admin.paste("redis-server /etc/redis/hookladder.conf --protected-mode no >/root/redis.log &")
	admin.paste(`echo "listen_addresses = '` + store + `'" >> /etc/postgresql/15/main/postgresql.conf; echo "host all all 10.0.0.0/24 scram-sha-256" >> /etc/postgresql/15/main/pg_hba.conf; pg_ctlcluster 15 main start`)
	create, _, _ := strings.Cut(shown(t, page, "create role hookladder"), "\n")
	require.True(t, strings.HasPrefix(create, "psql -c "), create)
	admin.paste("setpriv --reuid=postgres --regid=postgres --init-groups " + strings.Replace(create, "PASSWORD", password, 1))
	data.write(t, "/etc/nginx/conf.d/hookladder.conf", shown(t, page, "upstream hookladder {"), 0o644)
	admin.paste("rm /etc/nginx/sites-enabled/default; nginx")

	// The secrets, and the settings of each instance.
	admin.paste(shown(t, page, "REDIS_URL=rediss://"))
	settings := admin.paste("cat hookladder.env redis.env")
	settings = strings.Replace(strings.Replace(settings, "rediss://", "redis://", 1), "PASSWORD", password, 1) + // a private network without TLS
		"ARCHIVE_URL=postgres://hookladder:" + password + "@db.example/hookladder\nALLOW_NETS=10.0.0.0/24\n"
	units := make([]*exec.Cmd, len(instances))
	for i, address := range instances {
		machine := newPackageRoot(t, deb, "")
		machine.write(t, "/etc/hosts", hosts, 0o644)
		machine.write(t, "/etc/hookladder/hookladder.env", settings+"LISTEN="+address+":8080\nMETRICS_LISTEN="+address+":9464\nSHUTDOWN_DELAY=0s\n", 0o600)
		units[i] = n.join(t, machine.unit(t))
		log := &buffer{}
		units[i].Stdout, units[i].Stderr = log, log
		require.NoError(t, units[i].Start())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = units[i].Wait()
		}()
		t.Cleanup(func() {
			killGroup(units[i])
			<-ended
			if t.Failed() {
				t.Logf("%s:\n%s", address, log)
			}
		})
		admin.untilReady(address + ":8080")
	}

	admin.paste("export HOOKLADDER_URL=http://127.0.0.1 $(grep SIGNING_SECRET hookladder.env); export HOOKLADDER_KEY=$(sed -n 's/API_KEYS=\\([^:]*\\):.*/\\1/p' hookladder.env)")
	receiver := data.terminal(t, n, "/root")
	receiver.paste("export $(grep SIGNING_SECRET hookladder.env)")
	receiver.write("hookladder listen --addr " + receivers + ":9000\n")
	receiver.until(receivers + ":9000")
	t.Logf("three instances were ready %s after the package was there", time.Since(began).Round(time.Second))

	publish := func(from, to int) {
		t.Helper()
		admin.paste(fmt.Sprintf("for i in $(seq %d %d); do hookladder send --url http://%s:9000/hooks --topic order.paid --id order_$i --body '{\"amount\":100}' >/dev/null; done", from, to, receivers))
	}
	publish(1, 20)
	killGroup(units[0]) // nginx uses the others
	publish(21, 40)
	admin.paste(`until [ "$(hookladder deliveries --status delivered --limit 100 | grep -c order_)" = 40 ]; do sleep 0.2; done`)
	for i := range 40 {
		require.Contains(t, receiver.out.String(), fmt.Sprintf("order_%d", i+1))
	}
	require.NotContains(t, receiver.out.String(), "not valid")
	require.Contains(t, admin.paste("REDIS_URL=redis://hookladder:"+password+"@redis.example:6379 hookladder doctor"), "0 findings")
}

// newOtherSystem serves what a script of migrate.md reads, by the rule of a system.
func newOtherSystem(t testing.TB, answer func(r *http.Request) string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer the-key" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = w.Write([]byte(answer(r))) // the script fails then
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// Both systems have a thousand endpoints, of which these are wrong here: each tenth has a private
// URL, and the one after it a topic with a colon or a short secret.
const (
	endpoints = 1000
	wrong     = 200
)

func otherURL(i int) string {
	if i%10 == 0 {
		return fmt.Sprintf("http://192.168.1.%d/hooks", 1+i%200)
	}
	return fmt.Sprintf("https://shop-%d.example/hooks", i)
}

// svix has ten applications.
func svix(r *http.Request) string {
	path := strings.Split(strings.Trim(r.URL.Path, "/"), "/") // api v1 app APP endpoint ID what
	switch len(path) {
	case 3:
		var apps []string
		for i := range 10 {
			apps = append(apps, fmt.Sprintf(`{"id":"app_%d","uid":"tenant-%d","name":"Shop"}`, i, i))
		}
		return `{"data":[` + strings.Join(apps, ",") + `],"iterator":null,"done":true}`
	case 5:
		app, _ := strconv.Atoi(strings.TrimPrefix(path[3], "tenant-"))
		var found []string
		for i := app * 100; i < app*100+100; i++ {
			topic := "invoice.paid"
			if i%10 == 1 {
				topic = "invoice:paid"
			}
			found = append(found, fmt.Sprintf(`{"id":"ep_%d","uid":"shop-%d","url":%q,"filterTypes":[%q],"metadata":{}}`, i, i, otherURL(i), topic))
		}
		return `{"data":[` + strings.Join(found, ",") + `],"iterator":null,"done":true}`
	}
	if path[6] == "secret" {
		return `{"key":"whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"}`
	}
	return `{"headers":{"x-shop":"7"},"sensitive":[]}`
}

// convoy has one project, and a subscription for each endpoint.
func convoy(r *http.Request) string {
	page := func(entry func(i int) string) string {
		from, _ := strconv.Atoi(r.URL.Query().Get("next_page_cursor"))
		var found []string
		for i := from; i < from+100; i++ {
			found = append(found, entry(i))
		}
		return fmt.Sprintf(`{"status":true,"data":{"content":[%s],"pagination":{"has_next_page":%t,"next_page_cursor":"%d"}}}`, strings.Join(found, ","), from+100 < endpoints, from+100)
	}
	switch {
	case strings.HasSuffix(r.URL.Path, "/endpoints"):
		return page(func(i int) string {
			secret := fmt.Sprintf("convoy-secret-%05d", i)
			if i%10 == 1 {
				secret = "short"
			}
			return fmt.Sprintf(`{"uid":"c%d","project_id":"p1","owner_id":"owner-%d","url":%q,"status":"active","secrets":[{"uid":"s","value":%q}],"http_timeout":10,"rate_limit":0,"rate_limit_duration":0,"authentication":null}`,
				i, i/100, otherURL(i), secret)
		})
	case strings.HasSuffix(r.URL.Path, "/subscriptions"):
		return page(func(i int) string {
			return fmt.Sprintf(`{"uid":"sub%d","endpoint_metadata":{"uid":"c%d"},"filter_config":{"event_types":["order.paid"],"filter":{"headers":{},"body":{}}},"function":null}`, i, i)
		})
	}
	return `{"status":true,"data":{"uid":"p1","config":{"signature":{"header":"X-Acme-Signature","versions":[{"uid":"v1","hash":"SHA256","encoding":"hex"}]}}}}`
}

func TestAStrangerMovesAThousandEndpointsFromTwoSystems(t *testing.T) {
	r := newPackageRoot(t, mustPackage(t, "deb", older, mustBuild(t, older)), "jq redis-server")
	address := freePort(t)
	r.write(t, "/etc/hookladder/hookladder.env", "DATA_DIR=/var/lib/hookladder\nSIGNING_SECRET="+secret+"\nSHUTDOWN_DELAY=0s\nLISTEN="+address+"\nAPI_KEYS="+key+":admin:ops\n", 0o600)
	r.startUnit(t, address)
	person := r.terminal(t, network{}, "/root")
	person.paste("export HOOKLADDER_URL=http://" + address + " HOOKLADDER_KEY=" + key)
	const page = "deploy/docs/migrate.md"
	for name, system := range map[string]struct {
		settings string
		uid      func(i int) string
	}{
		"svix":   {"SVIX_KEY=the-key SVIX_URL=" + newOtherSystem(t, svix), func(i int) string { return fmt.Sprintf("tenant-%d:shop-%d", i/100, i) }},
		"convoy": {"CONVOY_KEY=the-key CONVOY_PROJECT=p1 CONVOY_URL=" + newOtherSystem(t, convoy), func(i int) string { return fmt.Sprintf("c%d", i) }},
	} {
		began := time.Now()
		person.paste("export " + system.settings)
		person.paste(shown(t, page, "> "+name+".jsonl"))
		dry, real, _ := strings.Cut(strings.TrimSpace(strings.ReplaceAll(shown(t, page, "endpoints import outpost.jsonl"), "outpost", name)), "\n")
		told := person.try(dry)
		require.Contains(t, told, "== failed: ", "an endpoint is wrong, so the exit code is not 0")
		require.Contains(t, told, fmt.Sprintf("%d created", endpoints-wrong))
		require.Contains(t, told, fmt.Sprintf("%d wrong", wrong))
		for i := range endpoints {
			said := regexp.MustCompile(`(?m)^endpoint \d+: ` + system.uid(i) + `: .+$`).MatchString(told)
			require.Equal(t, i%10 < 2, said, "%s: the dry run names exactly the wrong ones", system.uid(i))
		}
		require.Contains(t, person.try(real), fmt.Sprintf("%d created", endpoints-wrong))
		require.Contains(t, person.try(real), "0 created, 0 changed", "a second import changes nothing")
		t.Logf("%s took %s", name, time.Since(began).Round(time.Second))
	}
}

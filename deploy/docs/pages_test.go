// Package docs_test runs the pages for users. It pastes every block of a page, in order,
// into an empty folder with the real program, and compares the shown output with the
// actual output. Programs that would change this machine or need another one, such as
// docker and systemctl, are stubs. They record how they are called, and a site judges that.
package docs_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	neturl "net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/pgtest"
	"github.com/hookladder/hookladder/deploy/kit/redistest"
)

// prepared has the pages that begin with something that runs already.
var prepared = map[string]func(v *visitor){
	"README.md":                readme,
	"deploy/README.md":         deployPage,
	"deploy/chart/README.md":   func(v *visitor) { v.deploys().namespaces["hookladder"] = true },
	"deploy/docs/archive.md":   archivePage,
	"deploy/docs/commands.md":  func(v *visitor) { v.start("exec hookladder dev") },
	"deploy/docs/endpoints.md": func(v *visitor) { v.serve("PUBLIC_URL=http://" + v.addr) },
	"deploy/docs/find.md":      findPage,
	"deploy/docs/operate.md":   operatePage,
	"deploy/docs/outbox.md":    outboxPage,
	"deploy/docs/publish.md":   func(v *visitor) { v.serve() },
	"deploy/docs/queues.md":    queuesPage,
	"deploy/docs/receive.md":   receivePage,
	"deploy/docs/speed.md":     func(v *visitor) { v.stub("make", dryRun(v.t)) },
}

func TestEachBlockOfThePagesWorksAsShown(t *testing.T) {
	redistest.Long(t)
	for _, page := range pageFiles(t) {
		t.Run(strings.ReplaceAll(page, "/", "-"), func(t *testing.T) {
			t.Parallel()
			v := newVisitor(t)
			if prepare := prepared[page]; prepare != nil {
				prepare(v)
			}
			v.read(mustReadPage(t, page))
			require.Empty(t, v.hooks, "the page has no block with this text")
		})
	}
}

// read pastes the blocks of a page, in order.
func (v *visitor) read(blocks []pageBlock) {
	v.t.Helper()
	for _, b := range blocks {
		if b.mark != (pageMark{}) {
			continue
		}
		var hook pageHook
		for text, h := range v.hooks {
			if strings.Contains(b.text, text) {
				hook = h
				delete(v.hooks, text)
				break
			}
		}
		v.during = hook.during
		if hook.before != nil {
			hook.before()
		}
		began := time.Now()
		v.paste(b)
		v.t.Logf("line %d took %s", b.line, time.Since(began).Round(time.Millisecond))
		if v.site != nil {
			require.NoError(v.t, v.site.judge(), "the block of line %d", b.line)
		}
		if hook.after != nil {
			hook.after(v.last)
		}
	}
}

// readme prepares the folder of the source: a configuration of Redis, and make, which only says what it would do.
func readme(v *visitor) {
	port := redistest.FreePort(v.t)
	config, err := os.ReadFile(filepath.Join(top(v.t), "deploy", "redis.conf"))
	require.NoError(v.t, err)
	require.NoError(v.t, os.Mkdir(filepath.Join(v.dir, "deploy"), 0o700))
	config = append(config, fmt.Sprintf("\nport %d\n", port)...)
	require.NoError(v.t, os.WriteFile(filepath.Join(v.dir, "deploy", "redis.conf"), config, 0o600))
	v.stub("make", dryRun(v.t))
	v.swaps = append([]string{
		"go run ./cmd/hookladder dev", "exec hookladder dev --receiver " + v.swaps[5],
		"go build -o bin/hookladder ./cmd/hookladder", "true", // it is built already
	}, v.swaps...)
	v.swaps = append(v.swaps, "127.0.0.1:6379", fmt.Sprint("127.0.0.1:", port))
	v.hooks["attempt 1  503"] = pageHook{before: v.pastePrinted}
	v.hooks["dev --demo"] = pageHook{after: func(string) { v.untilShown(v.daemon, "") }}
	v.hooks["send --url http://127.0.0.1:9000"] = pageHook{after: func(string) { v.untilStatus("order_17", "delivered") }}
	v.hooks[`curl http://127.0.0.1:8080/v1/messages -H`] = pageHook{after: func(output string) {
		require.Contains(v.t, output, `"duplicate":true`)
	}}
	v.shows = "127.0.0.1:9001"
	v.swaps = append(v.swaps, v.shows, v.other)
	const export = "export WEBHOOK_SECRET="
	v.hooks["endpoints create --uid shop-42"] = pageHook{before: func() { // the next block inherits what this one exports
		v.hooks["send --tenant shop_42"] = pageHook{after: func(string) {
			v.untilStatus("order_18", "delivered")
			require.Contains(v.t, v.receiver.Output.String(), "genuine: order_18", "the story ends so")
		}}
	}, after: func(string) {
		text, err := os.ReadFile(filepath.Join(top(v.t), "README.md"))
		require.NoError(v.t, err)
		_, command, _ := strings.Cut(string(text), export)
		command, _, _ = strings.Cut(command, "\n")
		v.secret = strings.TrimSpace(v.run("echo " + command))
		require.Regexp(v.t, "^whsec_", v.secret)
	}}
	v.hooks["queue.Open"] = pageHook{before: func() {
		v.env = append(v.env, "REDIS_URL="+redistest.Start(v.t).URL())
		v.swaps = append(v.swaps, "30 * time.Minute", "time.Millisecond")
	}}
}

// settled requires that the settle of the last block counted.
func settled(v *visitor) func(string) {
	return func(output string) {
		require.Contains(v.t, output, `{"results":[{"id":"q_order_cancel:cancel_17","result":"ok","status":"delivered"}]}`)
	}
}

func findPage(v *visitor) {
	v.serve()
	v.hooks["hookladder deliveries --subject order_17"] = pageHook{after: func(output string) {
		require.Equal(v.t, 2, strings.Count(output, "payment.paid"), output)
	}}
	v.hooks["?status=dead&status=retrying"] = pageHook{after: func(output string) { require.Contains(v.t, output, `"data":[]`) }}
}

// pastePrinted runs the calls that dev prints. It may be ready before it has printed them all.
func (v *visitor) pastePrinted() {
	v.t.Helper()
	_, err := v.daemon.Line(v.ctx, "Attempts, as they are made")
	require.NoError(v.t, err)
	printed := v.daemon.Output.String()
	require.Equal(v.t, 3, strings.Count(printed, "  curl "))
	for _, call := range strings.Split(printed, "\n  curl ")[1:] {
		call, _, _ = strings.Cut(call, "\n\n")
		v.run("curl " + call)
		if strings.Contains(call, "/flaky") {
			v.untilShown(v.daemon, "")
		}
	}
}

func queuesPage(v *visitor) {
	v.serve()
	v.hooks["/settle"] = pageHook{after: settled(v)}
}

func archivePage(v *visitor) {
	url, err := neturl.Parse(pgtest.New(v.t))
	require.NoError(v.t, err)
	url.Path = "/hookladder"
	v.env = append(v.env, "PGHOST="+url.Hostname(), "PGPORT="+url.Port(), "PGUSER="+url.User.Username())
	v.swaps = append(v.swaps, "postgres://hookladder@db.example/hookladder", url.String(), "redis://127.0.0.1:6379", redistest.Start(v.t).URL())
}

func outboxPage(v *visitor) {
	url := v.postgres("postgres://app@db.example/shop")
	v.swaps = append(v.swaps, "postgres://app@db.example/shop", url, "redis://127.0.0.1:6379", redistest.Start(v.t).URL())
	v.env = append(v.env, "ALLOW_NETS=127.0.0.0/8", "SIGNING_SECRET="+secretOfPages)
	v.hooks["begin;"] = pageHook{
		before: func() { v.run("hookladder endpoints create --uid shop-1 --url https://shop.example/hooks") },
		after: func(string) {
			v.until("the delivery", func() error {
				if out := v.run("hookladder deliveries --topic order.paid"); !strings.Contains(out, "delivered") {
					return fmt.Errorf("the list is: %s", out)
				}
				return nil
			})
		},
	}
}

func operatePage(v *visitor) {
	secret := filepath.Join(v.dir, "secret")
	require.NoError(v.t, os.WriteFile(secret, []byte(secretOfPages), 0o600))
	const admin, tick = "0123456789abcdef0123", "0123456789abcdef4567"
	v.env = append(v.env, "API_KEYS="+admin+":admin,"+tick+":tick", "KEY="+admin, "TICK_KEY="+tick)
	v.swaps = append(v.swaps, "redis://10.0.0.5:6379", redistest.Start(v.t).URL(), "/run/secret", secret,
		"https://hooks.example", "http://"+v.addr, "seconds=10", "seconds=1")
}

func receivePage(v *visitor) {
	app := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	v.t.Cleanup(app.Close)
	addr := strings.TrimPrefix(v.freeAddr(), "http://")
	const admin, merchant = "0123456789abcdef0123", "0123456789abcdef4567"
	keys := filepath.Join(v.dir, "keys")
	write := func(file, text string) { require.NoError(v.t, os.WriteFile(file, []byte(text), 0o600)) }
	write(keys, admin+":admin+publish+read")
	server := v.serve("API_KEYS_FILE=" + keys)
	v.env = append(v.env, "HOOKLADDER_KEY="+admin)
	v.signs = true
	// The sender gives a merchant an endpoint that is pulled, and a key for it.
	endpoint := regexp.MustCompile(`ep_[0-9a-z]+`).FindString(v.run("hookladder endpoints create --pull --uid laptop"))
	write(keys, admin+":admin+publish+read,"+merchant+":consume@"+endpoint)
	write(filepath.Join(v.dir, "key"), merchant)
	require.NoError(v.t, server.Signal(syscall.SIGHUP))
	v.until("the new key", func() error {
		out, err := v.shell("curl -X POST -H 'Authorization: Bearer " + merchant + "' http://" + v.addr + "/v1/queues/" + endpoint + "/take").CombinedOutput()
		if err != nil {
			return fmt.Errorf("take: %w: %s", err, out)
		}
		return nil
	})
	v.swaps = append(v.swaps, "localhost:3000", strings.TrimPrefix(app.URL, "http://"), "whsec_...", secretOfPages,
		"https://hooks.example", "http://"+v.addr, "ep_wpp4dipiy", endpoint)
	v.hooks["--forward-to"] = pageHook{during: func() {
		v.run("hookladder send --topic payment.paid --body '{\"amount\":100}'")
	}}
	v.hooks["hookladder verify webhook.txt"] = pageHook{before: func() {
		v.launch("SIGNING_SECRET=" + secretOfPages + " exec hookladder listen --addr " + addr + " --save webhook.txt")
		v.untilAnswer("http://" + addr + "/")
		v.run(`hookladder send --id saved --topic payment.paid --url http://` + addr + `/ --body '{"order":17,"amount":1050}'`)
		v.untilStatus("saved", "delivered")
		v.run(`sed -i 's/{"order":17,"amount":1050}/{"order": 17, "amount": 1050}/' webhook.txt`)
	}}
}

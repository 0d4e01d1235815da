package docs_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/deploy/kit/pgtest"
	"github.com/hookladder/hookladder/deploy/kit/redistest"
)

// visitor reads one page and pastes its blocks, in order, in a folder that has only the
// program and the files that the page uses.
type visitor struct {
	t      testing.TB
	ctx    context.Context
	dir    string
	env    []string
	swaps  []string            // a shown text and its replacement, in turns
	addr   string              // of the API
	shows  string              // the address of the receivers that the page shows
	other  string              // its replacement
	secret string              // that the page gives them; empty: secretOfPages
	last   string              // output of the last block
	daemon *kit.Process        // the last block, if it does not end
	begun  []*kit.Process      // that the page started
	hooks  map[string]pageHook // by a text of the block
	during func()              // of the present block
	signs  bool                // the server that runs signs with secretOfPages
	site   *site               // judges the calls of stubs; nil: the page has none

	receiver *kit.Process // the last one that a page showed
}

// pageHook runs before and after a block, and after the first shown line of a program that
// does not end. Each may be nil.
type pageHook struct {
	during func()
	before func()
	after  func(output string)
}

func newVisitor(t testing.TB) *visitor {
	t.Helper()
	program, err := kit.FastBinary()
	require.NoError(t, err)
	ctx, stop := context.WithTimeout(t.Context(), 2*kit.Patience) // a page has many waits
	t.Cleanup(stop)
	v := &visitor{t: t, ctx: ctx, dir: t.TempDir(), hooks: map[string]pageHook{}}
	bin := filepath.Join(v.dir, "bin")
	require.NoError(t, os.Mkdir(bin, 0o700))
	require.NoError(t, os.Symlink(program, filepath.Join(bin, "hookladder")))
	require.NoError(t, os.WriteFile(filepath.Join(v.dir, ".curlrc"), []byte("silent\nshow-error\nfail-with-body\n"), 0o600)) // a refusal is an error
	api, receiver, listener, other := v.freeAddr(), v.freeAddr(), v.freeAddr(), v.freeAddr()
	v.addr = api
	v.shows, v.other = "127.0.0.1:9000", other
	merchant := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	t.Cleanup(merchant.Close)
	v.env = append(v.clean(os.Environ()), "PATH="+bin+":"+os.Getenv("PATH"), "LISTEN="+api, "CURL_HOME="+v.dir)
	v.swaps = []string{
		"127.0.0.1:8080", api, "localhost:8080", api, "127.0.0.1:8081", receiver, "127.0.0.1:9000", listener,
		"https://shop.example/hooks", merchant.URL + "/hooks",
		"hookladder dev", "hookladder dev --receiver " + receiver,
		"hookladder listen &", "hookladder listen --addr " + listener + " &",
		"hookladder retry --", "hookladder retry --yes --", // at a terminal it asks
	}
	t.Cleanup(v.leave)
	return v
}

// clean returns an environment without settings of Hookladder.
func (v *visitor) clean(environ []string) []string {
	return slices.DeleteFunc(environ, func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return strings.HasPrefix(name, "HOOKLADDER_") || strings.HasSuffix(name, "_URL") || strings.HasPrefix(name, "PG") ||
			slices.Contains([]string{"PATH", "LISTEN", "PORT", "DATA_DIR", "API_KEYS", "SIGNING_SECRET", "GOWORK"}, name)
	})
}

func (v *visitor) freeAddr() string { return kit.Loopback(redistest.FreePort(v.t)) }

// swapped returns a shown text with the addresses of this run.
func (v *visitor) swapped(text string) string { return strings.NewReplacer(v.swaps...).Replace(text) }

// shown returns an output with the addresses that the page shows.
func (v *visitor) shown(output string) string {
	for n := 0; n+1 < len(v.swaps); n += 2 {
		if strings.Contains(v.swaps[n], ":") { // an address
			output = strings.ReplaceAll(output, v.swaps[n+1], v.swaps[n])
		}
	}
	return output
}

// serve starts serve on a real Redis, as the visitor of a page without a start has it.
func (v *visitor) serve(more ...string) *kit.Process {
	v.t.Helper()
	return v.start("exec hookladder serve", append([]string{
		"REDIS_URL=" + redistest.Start(v.t).URL(), "SIGNING_SECRET=" + secretOfPages, "ALLOW_NETS=127.0.0.0/8",
	}, more...)...)
}

// secretOfPages signs where a page does not make a secret of its own.
const secretOfPages = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// postgres gives the page a database with a table of orders.
func (v *visitor) postgres(shownURL string) (url string) {
	v.t.Helper()
	url = pgtest.New(v.t)
	v.swaps = append(v.swaps, shownURL, url)
	v.env = append(v.env, "OUTBOX="+url)
	v.run("psql -qX -v ON_ERROR_STOP=1 \"$OUTBOX\" -c \"create table orders (id int, state text)\" -c \"insert into orders values (4711, 'new')\"")
	return url
}

// run pastes commands that end into a shell, and returns their output.
func (v *visitor) run(script string) string {
	v.t.Helper()
	cmd := v.shell(script)
	out, err := cmd.CombinedOutput()
	require.NoError(v.t, err, "%s\n%s", script, out)
	return string(out)
}

func (v *visitor) shell(script string) *exec.Cmd {
	cmd := exec.CommandContext(v.ctx, "bash", "-e", "-o", "pipefail", "-c", v.swapped(script))
	cmd.Dir, cmd.Env = v.dir, v.env
	return cmd
}

// launch starts commands that do not end.
func (v *visitor) launch(script string, more ...string) *kit.Process {
	v.t.Helper()
	p, err := kit.Start(kit.Command{Name: "the page's program", Path: "/bin/bash", Args: []string{"-e", "-c", v.swapped(script)}, Dir: v.dir, Env: append(slices.Clone(v.env), more...)})
	require.NoError(v.t, err)
	v.begun = append(v.begun, p)
	return p
}

// start starts a server, and waits until it is ready.
func (v *visitor) start(script string, more ...string) *kit.Process {
	v.t.Helper()
	v.daemon = v.launch(script, more...)
	v.untilAnswer("http://" + v.addr + "/readyz")
	return v.daemon
}

// untilAnswer waits until the last program that was started responds, and is not busy.
func (v *visitor) untilAnswer(url string) {
	v.t.Helper()
	p := v.begun[len(v.begun)-1]
	v.until(url, func() error {
		if p.Gone() {
			return kit.Stop(fmt.Errorf("it has ended: %s", p.Output.Tail()))
		}
		res, err := http.Get(url)
		if err != nil {
			return err
		}
		defer func() { _ = res.Body.Close() }()
		if res.StatusCode == http.StatusServiceUnavailable {
			return fmt.Errorf("status %d", res.StatusCode)
		}
		return nil
	})
}

func (v *visitor) until(what string, ok func() error) {
	v.t.Helper()
	require.NoError(v.t, kit.Until(v.ctx, what, ok))
}

// untilStatus waits until a message has a status.
func (v *visitor) untilStatus(id, status string) {
	v.t.Helper()
	v.until(id+" is "+status, func() error {
		if out := v.run("hookladder get " + id); !strings.Contains(out, status) {
			return fmt.Errorf("it is: %s", out)
		}
		return nil
	})
}

// leave ends all that the page started, with the children.
func (v *visitor) leave() {
	for _, p := range slices.Backward(v.begun) {
		v.end(p)
	}
	v.begun, v.daemon, v.receiver = nil, nil, nil
}

// end ends a process with its children.
func (v *visitor) end(p *kit.Process) {
	_ = syscall.Kill(-p.Pid(), syscall.SIGKILL)
	p.Kill()
}

var endlessEnd = regexp.MustCompile(`hookladder (dev|serve)\b[^|;&]*\n$`)

// paste runs one block as its language says.
func (v *visitor) paste(b pageBlock) {
	v.t.Helper()
	switch b.language {
	case "sh":
		if endlessEnd.MatchString(b.text) {
			v.leave() // the page says to end what ran before
			v.start(b.text)
			return
		}
		script := b.text
		if v.site != nil {
			script = v.site.terminal(script)
		}
		v.last, v.daemon = v.run(script), nil
	case "crontab":
		fields := strings.SplitN(strings.TrimSpace(b.text), " ", 6)
		require.Len(v.t, fields, 6)
		v.last = v.run(fields[5])
	case "sql":
		require.NoError(v.t, os.WriteFile(filepath.Join(v.dir, "page.sql"), []byte(b.text), 0o600))
		v.last = v.run("psql -X -v ON_ERROR_STOP=1 -f page.sql \"$OUTBOX\"")
	case "json":
		var any any
		require.NoError(v.t, json.Unmarshal([]byte(b.text), &any))
		v.last = b.text
	case "go":
		v.last = v.pasteGo(b.text)
	case "python", "php", "ruby", "java", "csharp":
		v.pasteReceiver(b)
	case "js":
		v.last = v.pasteNode(b.text)
	case "":
		v.compare(b)
	default:
		require.FailNow(v.t, "no test runs such a block: "+b.language)
	}
}

// compare runs the commands after "$ " and compares their output. Without commands, it
// compares the output of the last block.
func (v *visitor) compare(b pageBlock) {
	v.t.Helper()
	if v.daemon != nil && !strings.HasPrefix(b.text, "$ ") {
		v.untilShown(v.daemon, b.text)
		return
	}
	if !strings.HasPrefix(b.text, "$ ") {
		require.NoError(v.t, differs(b.text, v.shown(v.last)))
		return
	}
	for _, step := range strings.Split("\n"+b.text, "\n$ ")[1:] {
		command, output, _ := strings.Cut(step, "\n")
		if strings.Contains(command, " --forward-to ") {
			p := v.launch("exec " + command)
			v.untilShown(p, lines(output)[0])
			v.during()
			v.untilShown(p, output)
			continue
		}
		out, _ := v.shell(command).CombinedOutput() // some exit codes are results
		require.NoError(v.t, differs(output, v.shown(string(out))), command)
	}
}

// untilShown waits until a program has written all shown lines.
func (v *visitor) untilShown(p *kit.Process, shown string) {
	v.t.Helper()
	v.until("the shown output", func() error {
		if left := unseen(shown, v.shown(p.Output.String())); len(left) > 0 {
			return fmt.Errorf("%q is shown, but the output is:\n%s", left[0], p.Output)
		}
		return nil
	})
}

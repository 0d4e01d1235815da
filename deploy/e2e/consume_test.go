package e2e_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// app is a program on a developer's machine, which checks who calls it.
type app struct {
	*httptest.Server
	got chan string // topic, attempt and body of each callback

	mu     sync.Mutex
	answer int
}

func newTestApp(t testing.TB, secret string) *app {
	t.Helper()
	a := &app{got: make(chan string, 100), answer: http.StatusOK}
	verifier := verifierOf(t, "standard", secret)
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := verifier.VerifyRequest(r); err != nil {
			w.WriteHeader(http.StatusUnauthorized)
			a.got <- "not genuine: " + err.Error()
			return
		}
		body, _ := io.ReadAll(r.Body)
		a.mu.Lock()
		answer := a.answer
		a.mu.Unlock()
		w.WriteHeader(answer)
		a.got <- r.Header.Get("hookladder-topic") + " " + r.Header.Get("hookladder-attempt") + " " + string(body)
	}))
	t.Cleanup(a.Close)
	return a
}

// run starts one command of the binary that goes on.
func (i *instance) run(t testing.TB, args ...string) *kit.Process {
	t.Helper()
	p, err := kit.Start(kit.Command{
		Name: "hookladder " + args[0], Path: mustBinary(t), Args: args, Env: []string{kit.NoExitSleep, "HOOKLADDER_URL=" + i.URL}, Dir: t.TempDir(),
	})
	require.NoError(t, err)
	t.Cleanup(p.Kill)
	return p
}

func TestListenForwardsToAnAppThatNothingCanReach(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.serve("LADDER=1ms,1ms,1h")
	app := newTestApp(t, w.secret.Reveal())
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte(w.secret.Reveal()), 0o600))
	p := i.run(t, "listen", "--forward-to", app.URL+"/hooks", "--secret-file", secret, "--topic", "payment.*", "--fail", "1")
	_, err := p.Line(t.Context(), "taking from ep_")
	require.NoError(t, err)

	sent := i.publish(wire.Message{Topic: "payment.paid", Body: []byte(`{"a":  1}`)})
	require.Equal(t, `payment.paid 2 {"a":  1}`, <-app.got, "the first attempt failed as asked, without the app")
	d := i.until(sent.ID, "delivered")
	require.Equal(t, 2, d.Attempts)
	require.Zero(t, i.publish(wire.Message{Topic: "other", Body: []byte(`1`), RequireMatch: new(false)}).Matched)
	_, err = p.Line(t.Context(), "payment.paid "+sent.ID+", attempt 1: answered 500 for the app")
	require.NoError(t, err)
	_, err = p.Line(t.Context(), "payment.paid "+sent.ID+", attempt 2: 200 in ")
	require.NoError(t, err)

	require.NoError(t, p.Signal(syscall.SIGINT))
	require.Zero(t, p.ExitCode(), p.Output.String())
	page, err := i.Client.Endpoints(t.Context(), client.EndpointFilter{})
	require.NoError(t, err)
	require.Empty(t, page.Data, "it was deleted")
}

// forwards starts a listener and returns it with the id of its endpoint.
func (i *instance) forwards(t testing.TB, args ...string) (p *kit.Process, endpoint string) {
	t.Helper()
	p = i.run(t, append([]string{"listen", "--forward-to"}, args...)...)
	line, err := p.Line(t.Context(), "taking from ep_")
	require.NoError(t, err)
	_, rest, _ := strings.Cut(line, "taking from ")
	endpoint, _, _ = strings.Cut(rest, " ")
	return p, endpoint
}

func TestListenersOnOneHostAndPortShareNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.serve("LADDER=1h")
	app := newTestApp(t, w.secret.Reveal())
	one, first := i.forwards(t, app.URL+"/a", "--secret", w.secret.Reveal(), "--tenant", "one", "--topic", "x.*")
	two, second := i.forwards(t, app.URL+"/b", "--secret", w.secret.Reveal(), "--tenant", "two", "--topic", "y.*")
	three, _ := i.forwards(t, app.URL+"/a", "--secret", w.secret.Reveal(), "--tenant", "one", "--topic", "x.*") // the same in all
	require.NotEqual(t, first, second)
	sent := i.publish(wire.Message{Topic: "x.a", Tenant: "one", Body: []byte(`1`)})
	require.Equal(t, 2, sent.Matched)
	require.Equal(t, "x.a 1 1", <-app.got)
	require.Equal(t, "x.a 1 1", <-app.got)
	i.publish(wire.Message{Topic: "y.a", Tenant: "two", Body: []byte(`2`)})
	require.Equal(t, "y.a 1 2", <-app.got)

	require.NoError(t, one.Signal(syscall.SIGHUP)) // its terminal was closed
	require.Zero(t, one.ExitCode(), one.Output.String())
	view, err := i.Client.Endpoint(t.Context(), second)
	require.NoError(t, err)
	require.NotEmpty(t, view.Metadata["host"])
	require.NotEmpty(t, view.Metadata["pid"])
	_, err = i.Client.Endpoint(t.Context(), first)
	require.ErrorContains(t, err, "endpoint", "it was deleted")

	_, err = i.Client.DeleteEndpoint(t.Context(), second)
	require.NoError(t, err)
	require.Equal(t, exitNotFound, two.ExitCode())
	require.Contains(t, two.Output.String(), second+" was deleted, so there are no more deliveries")

	require.NoError(t, three.Signal(syscall.SIGINT))
	require.Zero(t, three.ExitCode(), three.Output.String())
	page, err := i.Client.Endpoints(t.Context(), client.EndpointFilter{})
	require.NoError(t, err)
	require.Empty(t, page.Data, "each deleted its own")
}

func TestConsumeHandsEachBodyToAProgram(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.serve("LADDER=1h")
	environ := []string{"HOOKLADDER_URL=" + i.URL, "PATH=" + os.Getenv("PATH")}
	for id, body := range map[string]string{"good": `"exit 0"`, "bad": `"exit 7"`, "dead": `"exit 65"`} {
		i.publish(wire.Message{ID: id, Topic: "a", Queue: "jobs", Body: []byte(body)})
	}
	r := mustRun(t, environ, "", "consume", "jobs", "--drain", "--exec", `read -r body; body=${body#\"}; eval "${body%\"}"`)
	require.Equal(t, result{}, r)
	require.Equal(t, "delivered", i.delivery("good").Status)
	d := i.delivery("bad")
	require.Equal(t, "retrying", d.Status)
	require.Equal(t, "exit status 7", d.LastError)
	d = i.delivery("dead")
	require.Equal(t, "dead", d.Status)
	require.Equal(t, "rejected", d.DeadReason)

	i.publish(wire.Message{ID: "shown", Topic: "a", Queue: "jobs", Body: []byte(`{"n": 1.0}`)})
	r = mustRun(t, environ, "", "consume", "jobs", "--max", "1")
	require.Equal(t, exitOK, r.code, r.err)
	require.Contains(t, r.out, `{"n": 1.0}`, "byte for byte")
	require.Equal(t, "delivered", i.delivery("shown").Status)

	i.publish(wire.Message{ID: "none", Topic: "a", Queue: "jobs", Body: []byte(`1`)})
	r = mustRun(t, environ, "", "consume", "jobs", "--exec", "no-such-program")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.err, "the program can't be started")
	require.Equal(t, exitUsage, mustRun(t, environ, "", "consume", "q_jobs").code)
	require.Equal(t, exitNotFound, mustRun(t, environ, "", "consume", "ep_nothing").code)
}

func TestADeliveryWhoseConsumerDiesComesAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.serve("LADDER=0s,1h")
	i.publish(wire.Message{ID: "m", Topic: "a", Queue: "jobs", Body: []byte(`1`)})
	p := i.run(t, "consume", "jobs", "--lease", "1s", "--exec", "echo begun $$; exec sleep 1000")
	line, err := p.Line(t.Context(), "begun")
	require.NoError(t, err)
	_, number, _ := strings.Cut(line, "begun ")
	pid, err := strconv.Atoi(strings.TrimSpace(number))
	require.NoError(t, err)
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) }) // its parent can't end it any more
	p.Kill()
	eventually(t, "the lease ends", func() bool { return i.delivery("m").Attempts == 1 })
	r := mustRun(t, []string{"HOOKLADDER_URL=" + i.URL}, "", "consume", "jobs", "--max", "1")
	require.Equal(t, exitOK, r.code, r.err)
	require.True(t, strings.Contains(r.out, `"attempt":2`), r.out)
	require.Equal(t, "delivered", i.delivery("m").Status)
}

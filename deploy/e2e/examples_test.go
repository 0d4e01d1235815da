package e2e_test

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/signer"
)

// The services in deploy/docs/examples work with the real program.
const exampleDir = "deploy/docs/examples"

// example starts one of these services, and returns its URL.
func (w *world) example(name, path string, args []string, env ...string) (*kit.Process, string) {
	w.t.Helper()
	p, err := kit.Start(kit.Command{Name: name, Path: path, Args: args, Env: append(env, "LISTEN=127.0.0.1:0")})
	require.NoError(w.t, err)
	w.t.Cleanup(p.Kill)
	const listening = "listening on "
	line, err := p.Line(w.t.Context(), listening)
	require.NoError(w.t, err)
	_, url, _ := strings.Cut(line, listening)
	return p, strings.TrimSpace(url)
}

// post makes a request, and returns the status of the response.
func post(t testing.TB, url, body string, headers map[string]string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	require.NoError(t, err)
	for name, value := range headers {
		req.Header.Set(name, value)
	}
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	return res.StatusCode
}

// signedHeaders are the headers of a callback.
func signedHeaders(secret signer.Secret, id string, at time.Time, body string) map[string]string {
	return map[string]string{
		signer.HeaderID:        id,
		signer.HeaderTimestamp: strconv.FormatInt(at.Unix(), 10),
		signer.HeaderSignature: signer.Sign(secret, id, at, []byte(body)),
	}
}

func TestTheExampleInGoPublishesAndReceives(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	page, err := os.ReadFile(filepath.Join("..", "docs", "publish.md"))
	require.NoError(t, err)
	built := map[string]string{}
	for _, name := range []string{"shop", "merchant"} {
		program := "./" + exampleDir + "/go/" + name
		require.Contains(t, string(page), " go run "+program+"\n", "the page starts it")
		built[name], err = kit.Build(program)
		require.NoError(t, err)
	}
	w.examplesWork([]string{built["shop"]}, []string{built["merchant"]})
}

func TestTheExampleInNodePublishesAndReceives(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	node, err := exec.LookPath("node")
	require.NoError(t, err, "make needs installs it")
	dir := filepath.Join("..", "..", exampleDir, "node")
	w.examplesWork([]string{node, filepath.Join(dir, "shop.mjs")}, []string{node, filepath.Join(dir, "merchant.mjs")})
}

// examplesWork lets a shop publish to a merchant, whose commands are given.
func (w *world) examplesWork(shop, merchant []string) {
	t := w.t
	i, secret := w.serve(), signer.NewSecret()
	receiving, hooks := w.example("merchant", merchant[0], merchant[1:], "WEBHOOK_SECRET="+secret.Reveal())
	_, selling := w.example("shop", shop[0], shop[1:], "HOOKLADDER_URL="+i.URL)

	require.Equal(t, http.StatusUnprocessableEntity, post(t, selling+"/merchants/7/orders/17/paid", "", nil), "no endpoint yet")
	_, created, err := i.CreateEndpoint(t.Context(), &wire.Endpoint{
		UID: "merchant-7", Tenant: "merchant-7", URL: hooks + "/hooks", Topics: []string{"order.*"}, Secret: secret.Reveal(),
	})
	require.NoError(t, err)
	require.True(t, created)

	for range 2 { // the second one is a duplicate
		require.Equal(t, http.StatusOK, post(t, selling+"/merchants/7/orders/17/paid", "", nil))
	}
	const id = "order_17_paid"
	_, err = receiving.Line(t.Context(), "order 17 is paid ("+id+")")
	require.NoError(t, err)
	require.Equal(t, "order-17", i.until(id, string(dispatcher.StatusDelivered)).Subject)

	const body = `{"order":"18","state":"paid"}`
	now := time.Now()
	for name, headers := range map[string]map[string]string{
		"unsigned": nil,
		"forged":   signedHeaders(signer.NewSecret(), "msg_1", now, body),
		"recorded": signedHeaders(secret, "msg_1", now.Add(-time.Hour), body),
		"altered":  signedHeaders(secret, "msg_1", now, body+" "),
	} {
		require.Contains(t, []int{http.StatusBadRequest, http.StatusUnauthorized}, post(t, hooks+"/hooks", body, headers), name)
	}
	require.Equal(t, http.StatusNoContent, post(t, hooks+"/hooks", body, signedHeaders(secret, id, now, body)), "a repeat")
	require.Equal(t, http.StatusBadRequest, post(t, hooks+"/hooks", "no JSON", signedHeaders(secret, "msg_2", now, "no JSON")))

	i.Kill() // its shop says that it may be called again
	require.Equal(t, http.StatusServiceUnavailable, post(t, selling+"/merchants/7/orders/19/paid", "", nil))
	receiving.Kill()
	require.Equal(t, 1, strings.Count(receiving.Output.String(), " is paid"), "each message is handled once, and no forged one")
}

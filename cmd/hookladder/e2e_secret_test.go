package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/signer"
)

func TestE2ERotationIsVerifiedByBothSecretsUntilItEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.serve()
	e := i.endpoint("/e", wire.Endpoint{UID: "shop"})
	overlap := wire.Duration(15 * time.Second) // in which the first attempt has to begin
	_, err := i.RotateSecret(t.Context(), "shop", wire.Rotation{Overlap: &overlap})
	require.NoError(t, err)
	secrets, err := i.EndpointSecret(t.Context(), "shop")
	require.NoError(t, err)
	require.Len(t, secrets.Secrets, 2)
	require.Equal(t, e.Secret, secrets.Secrets[1].Secret)
	until := secrets.Secrets[1].Until.Time
	old, fresh := verifierOf(t, "standard", e.Secret), verifierOf(t, "standard", secrets.Secrets[0].Secret)

	w.receiver.trust("/e", fresh)
	i.publish(wire.Message{ID: "during", Endpoint: "shop"})
	a := w.receiver.wait("during", 1)
	require.NoError(t, accepts(old, a, a.body))
	require.NoError(t, accepts(fresh, a, a.body))
	// The attempt's own time decides, so the delivery is planned for the end, and a little
	// later: the instance's idea of Redis' clock lags behind it by an answer's way.
	i.publish(wire.Message{ID: "after", Endpoint: "shop", DeliverAt: wire.Time{Time: until.Add(time.Second)}})
	a = w.receiver.wait("after", 1)
	require.Error(t, accepts(old, a, a.body))
	require.NoError(t, accepts(fresh, a, a.body))
	require.Equal(t, 1, strings.Count(a.header.Get(signer.HeaderSignature), "v1,"))
}

func TestE2EEverySignatureIsVerifiedAsItsReceiversDo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.serve()
	for _, scheme := range signer.Schemes {
		path := "/" + string(scheme)
		e := wire.Endpoint{UID: "by-" + string(scheme), Signature: string(scheme), URL: w.receiver.URL + path}
		view, _, err := i.CreateEndpoint(t.Context(), &e)
		require.NoError(t, err)
		verifier := verifierOf(t, string(scheme), view.Secret)
		w.receiver.trust(path, verifier)
		id := "to-" + string(scheme)
		i.publish(wire.Message{ID: id, Endpoint: e.UID})
		a := w.receiver.wait(id, 1)
		require.NoError(t, accepts(verifier, a, a.body))
		require.Error(t, accepts(verifier, a, a.body+" "), "%s: a changed body", scheme)
		require.Equal(t, id, a.header.Get("webhook-id"))
		require.NotEmpty(t, a.header.Get("webhook-timestamp"))
	}
}

func TestE2ESecretsAreNeitherLoggedNorAnsweredNorStoredPlainly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key := "ENCRYPTION_KEY=AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
	i := w.serve(key)
	w.receiver.answers(func(rw http.ResponseWriter, req *http.Request, _ string, _ int) {
		rw.WriteHeader(http.StatusInternalServerError)
		_, _ = fmt.Fprint(rw, req.Header) // gives everything back
	})
	e := i.endpoint("/e", wire.Endpoint{UID: "shop", Headers: map[string]string{"Authorization": "Bearer topsecrettoken"}})
	i.publish(wire.Message{ID: "m1", Endpoint: "shop"})
	d := i.until("m1", "retrying")
	require.NotContains(t, d.History[0].ResponseExcerpt, "topsecrettoken")
	require.Contains(t, d.History[0].ResponseExcerpt, "[signature]")
	require.Equal(t, "Bearer topsecrettoken", w.receiver.arrivals("m1")[0].header.Get("authorization"))
	_, page := i.call(http.MethodGet, "/v1/endpoints", "", nil)
	_, config := i.call(http.MethodGet, "/v1/endpoints/shop", "", nil)
	var stored strings.Builder
	for _, name := range w.rdb.Keys(t.Context(), "*").Val() {
		dump, err := w.rdb.Dump(t.Context(), name).Result()
		require.NoError(t, err)
		stored.WriteString(dump)
	}
	all := stored.String()
	fields, err := w.rdb.HGetAll(t.Context(), "{default}:endpoints").Result()
	require.NoError(t, err)
	require.Len(t, fields, 1)
	all += fmt.Sprint(fields)
	for where, text := range map[string]string{"log": i.log.String(), "list": page, "answer": config, "store": all} {
		require.NotContains(t, text, e.Secret, where)
		require.NotContains(t, text, strings.TrimPrefix(e.Secret, signer.SecretPrefix), where)
		require.NotContains(t, text, "topsecrettoken", where)
	}

	// With another key first and the old one behind, it is read all the same.
	i.stop()
	i = w.serve("ENCRYPTION_KEY=" + "/////////////////////////////////////////w8= AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=")
	secrets, err := i.EndpointSecret(t.Context(), "shop")
	require.NoError(t, err)
	require.Equal(t, e.Secret, secrets.Secrets[0].Secret)
}

func TestE2EATenantsBareURLsHaveASecretOfTheirOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.serve("SIGNING_DERIVE=tenant")
	derived := w.secret.Derive("acme")
	w.receiver.trust("/acme", &signer.Verifier{Secrets: []signer.Secret{derived}})
	i.publish(wire.Message{ID: "mine", Tenant: "acme", URL: w.receiver.URL + "/acme"})
	a := w.receiver.wait("mine", 1)
	require.Error(t, accepts(w.receiver.verifier, a, a.body), "with the secret of all")
	w.receiver.trust("/plain", &signer.Verifier{Secrets: []signer.Secret{w.secret.Derive("")}})
	i.publish(wire.Message{ID: "all", URL: w.receiver.URL + "/plain"})
	a = w.receiver.wait("all", 1)
	require.Error(t, accepts(w.receiver.verifier, a, a.body), "who verifies this could derive everybody's else")
	require.Equal(t, w.secret.Derive("").Reveal(), strings.TrimSpace(runSecret(t, w.secret, "--tenant", "")))
	require.Equal(t, derived.Reveal(), strings.TrimSpace(runSecret(t, w.secret, "--tenant", "acme")))
}

// runSecret runs the command that prints secrets.
func runSecret(t *testing.T, of signer.Secret, args ...string) string {
	t.Helper()
	path, err := binary()
	require.NoError(t, err)
	cmd := exec.Command(path, append([]string{"secret"}, args...)...)
	cmd.Env = []string{"SIGNING_SECRET=" + of.Reveal(), raceAtExit}
	out, err := cmd.Output()
	require.NoError(t, err)
	return string(out)
}

// verifierOf checks what secrets sign, as a receiver would: with the public
// keys where the scheme has such.
func verifierOf(t testing.TB, scheme string, secrets ...string) *signer.Verifier {
	t.Helper()
	var keys []string
	for _, text := range secrets {
		s, err := signer.Scheme(scheme).ParseSecret(text)
		require.NoError(t, err)
		if public, ok := s.PublicKey(); ok {
			text = public
		}
		keys = append(keys, text)
	}
	v, err := signer.Scheme(scheme).NewVerifier(strings.Join(keys, " "))
	require.NoError(t, err)
	return v
}

// accepts tells what a receiver with that verifier says to a callback.
func accepts(v *signer.Verifier, a arrival, body string) error {
	req := httptest.NewRequest(http.MethodPost, a.path, strings.NewReader(body))
	req.Header = a.header
	_, err := v.VerifyRequest(req)
	return err
}

const firstKey, secondKey = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", "/////////////////////////////////////////w8="

func TestE2EAStartWithoutTheKeyOfSealedEndpointsIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.serve("ENCRYPTION_KEY=" + firstKey)
	for n := range 3 {
		i.endpoint(fmt.Sprint("/e", n), wire.Endpoint{UID: fmt.Sprint("shop", n)})
	}
	require.Zero(t, i.stop())
	for _, key := range []string{"", secondKey} {
		refused := w.begin("ENCRYPTION_KEY="+key, "SIGNING_SECRET="+w.secret.Reveal())
		<-refused.done
		require.Equal(t, exitUsage, refused.cmd.ProcessState.ExitCode())
		for _, part := range []string{"ENCRYPTION_KEY", "3 endpoints were sealed", "set ENCRYPTION_KEY to the key they were stored with", "doctor --seal"} {
			require.Contains(t, refused.log.String(), part)
		}
		require.NotContains(t, refused.log.String(), secondKey)
		require.NotContains(t, refused.log.String(), `"msg":"started"`)
	}
	i = w.serve("ENCRYPTION_KEY=" + secondKey + " " + firstKey)
	i.publish(wire.Message{ID: "m1", Endpoint: "shop1"})
	require.Equal(t, 1, i.until("m1", "delivered").Attempts)
}

func TestE2EAnEndpointThatOneInstanceCantOpenWaitsAndSpendsNoRung(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	newer := w.serve("ENCRYPTION_KEY="+secondKey+" "+firstKey, "MAX_IN_FLIGHT=0")
	file := filepath.Join(t.TempDir(), "key")
	mustWrite(t, file, firstKey)
	older := w.serve("ENCRYPTION_KEY_FILE="+file, "LADDER=10ms,10ms")
	older.troubled = true
	e := newer.endpoint("/e", wire.Endpoint{UID: "shop"})
	newer.publish(wire.Message{ID: "m1", Endpoint: "shop"})
	older.says(`"msg":"deliveries wait for an endpoint that this instance can't open or read"`)
	for _, i := range []*instance{newer, older} {
		require.Eventually(t, func() bool { return i.until("m1", "ready").WaitingFor == "sealed" }, e2eWait, tick)
		d := i.delivery("m1")
		require.Zero(t, d.Attempts)
		require.Empty(t, d.History)
		require.False(t, d.WaitingUntil.IsZero())
		rows, _ := i.lanes()
		require.Equal(t, []string{"limited", "sealed"}, []string{rows[e.ID].State, rows[e.ID].Why})
	}
	require.Empty(t, w.receiver.arrivals("m1"))
	told := older.lines("deliveries wait for an endpoint that this instance can't open or read")
	require.Equal(t, e.ID, told[0]["lane"])
	require.Contains(t, told[0]["cure"], "ENCRYPTION_KEY")

	mustWrite(t, file, firstKey+" "+secondKey)
	older.hangUp(readAnew, 1)
	require.Equal(t, 1, older.until("m1", "delivered").Attempts, "no rung was spent")
	require.Equal(t, "1", w.receiver.arrivals("m1")[0].attempt)
}

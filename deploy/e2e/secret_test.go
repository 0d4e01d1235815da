package e2e_test

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/signer"
)

// accepts tells what a receiver with that verifier says to a callback.
func accepts(v *signer.Verifier, a arrival, body string) error {
	req := httptest.NewRequest(http.MethodPost, a.path, strings.NewReader(body))
	req.Header = a.header
	_, err := v.VerifyRequest(req)
	return err
}

const firstKey, secondKey = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", "/////////////////////////////////////////w8="

func TestAStartWithoutTheKeyOfSealedEndpointsIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.serve("ENCRYPTION_KEY=" + firstKey)
	for n := range 3 {
		i.endpoint(fmt.Sprint("/e", n), wire.Endpoint{UID: fmt.Sprint("shop", n)})
	}
	require.Zero(t, i.stop())
	for _, key := range []string{"", secondKey} {
		refused := w.begin("ENCRYPTION_KEY="+key, "SIGNING_SECRET="+w.secret.Reveal())
		require.Equal(t, exitUsage, refused.ExitCode())
		for _, part := range []string{"ENCRYPTION_KEY", "3 endpoints were sealed", "set ENCRYPTION_KEY to the key they were stored with", "doctor --seal"} {
			require.Contains(t, refused.log(), part)
		}
		require.NotContains(t, refused.log(), secondKey)
		require.NotContains(t, refused.log(), `"msg":"started"`)
	}
	i = w.serve("ENCRYPTION_KEY=" + secondKey + " " + firstKey)
	i.publish(wire.Message{ID: "m1", Endpoint: "shop1"})
	require.Equal(t, 1, i.until("m1", "delivered").Attempts)
}

func TestAnEndpointThatOneInstanceCantOpenWaitsAndSpendsNoRung(t *testing.T) {
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
		eventually(t, "it waits for its key", func() bool { return i.until("m1", "ready").WaitingFor == "sealed" })
		d := i.delivery("m1")
		require.Zero(t, d.Attempts)
		require.Empty(t, d.History)
		require.False(t, d.WaitingUntil.IsZero())
		page, err := i.LanesOf(t.Context(), "", e.ID)
		require.NoError(t, err)
		require.Equal(t, []string{"limited", "sealed"}, []string{page.Data[0].State, page.Data[0].Why})
	}
	require.Empty(t, w.receiver.arrivals("m1"))
	reported := older.lines("deliveries wait for an endpoint that this instance can't open or read")
	require.Equal(t, e.ID, reported[0]["lane"])
	require.Contains(t, reported[0]["cure"], "ENCRYPTION_KEY")

	mustWrite(t, file, firstKey+" "+secondKey)
	older.hangUp(readAnew, 1)
	require.Equal(t, 1, older.until("m1", "delivered").Attempts, "no rung was spent")
	require.Equal(t, 1, w.receiver.arrivals("m1")[0].attempt)
}

// hangUp sends SIGHUP and waits for as many lines that begin with text.
func (i *instance) hangUp(text string, times int) {
	i.t.Helper()
	require.NoError(i.t, i.Signal(syscall.SIGHUP))
	eventually(i.t, "SIGHUP: "+text, func() bool { return strings.Count(i.log(), `"msg":"SIGHUP: `+text) == times })
}

const readAnew, stayed = "files of keys read anew", "the files of keys can't be used, so the keys stay as they were"

func TestAHangUpReadsTheKeysOfTheAPIAnew(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	file := filepath.Join(t.TempDir(), "keys")
	const first, second = "the-first-key-of-all", "the-second-key-of-all"
	mustWrite(t, file, first+":admin\n")
	i := w.serve("API_KEYS_FILE="+file, "METRICS_LISTEN=127.0.0.1:0")
	i.troubled = true
	allowed := func(key string) bool {
		_, err := i.keyed(key).Stats(t.Context())
		if err != nil {
			require.Equal(t, http.StatusUnauthorized, problemOf(t, err).Status)
		}
		return err == nil
	}
	readsMore := func(key string) bool { // at METRICS_LISTEN
		c, err := client.New("http://"+i.Started("metrics"), key, kit.Once)
		require.NoError(t, err)
		ready, err := c.Ready(t.Context())
		require.NoError(t, err)
		return ready.Store != nil
	}
	require.True(t, allowed(first) && !allowed(second) && readsMore(first))

	mustWrite(t, file, first+":admin,"+second+":admin")
	i.hangUp(readAnew, 1)
	i.says(`"changed":["API_KEYS"]`)
	require.True(t, allowed(first) && allowed(second), "both, while callers change")
	mustWrite(t, file, second+":admin")
	i.hangUp(readAnew, 2)
	require.True(t, !allowed(first) && allowed(second))
	require.True(t, !readsMore(first) && readsMore(second))

	for n, bad := range []string{"short:admin", "", second} {
		mustWrite(t, file, bad)
		i.hangUp(stayed, n+1)
		require.True(t, allowed(second), "%q", bad)
	}
	require.NoError(t, os.Remove(file))
	i.hangUp(stayed, 4)
	require.True(t, allowed(second) && !allowed(first))
	require.NotContains(t, i.log(), second)
	require.Equal(t, exitOK, i.stop())
}

func TestAHangUpReadsTheSigningSecretAnew(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	file := filepath.Join(t.TempDir(), "secret")
	mustWrite(t, file, w.secret.Reveal())
	i := w.serve("SIGNING_SECRET=", "SIGNING_SECRET_FILE="+file)
	i.send("before")
	require.Len(t, strings.Fields(w.receiver.wait("before", 1).header.Get("webhook-signature")), 1)
	next := signer.NewSecret()
	mustWrite(t, file, w.secret.Reveal()+" "+next.Reveal())
	i.hangUp(readAnew, 1)
	i.send("after")
	a := w.receiver.wait("after", 1)
	require.Len(t, strings.Fields(a.header.Get("webhook-signature")), 2, "both sign")
	require.NoError(t, accepts(&signer.Verifier{Secrets: []signer.Secret{next}}, a, a.body))
}

func TestAHangUpTakesAnEncryptionKeyMoreAndNoneLess(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	file := filepath.Join(t.TempDir(), "key")
	first, second := newEncryptionKey(), newEncryptionKey()
	mustWrite(t, file, first)
	i := w.serve("ENCRYPTION_KEY_FILE=" + file)
	i.troubled = true
	create := func(uid string) {
		_, _, err := i.CreateEndpoint(t.Context(), &wire.Endpoint{UID: uid, URL: w.receiver.URL(0), Secret: w.secret.Reveal()})
		require.NoError(t, err)
	}
	create("old")
	mustWrite(t, file, second+" "+first)
	i.hangUp(readAnew, 1)
	create("new")
	mustWrite(t, file, second)
	i.hangUp(stayed, 1)
	i.says("doctor --seal")
	i.publish(wire.Message{ID: "m1", Endpoint: "old"})
	i.publish(wire.Message{ID: "m2", Endpoint: "new"})
	w.receiver.wait("m1", 1)
	w.receiver.wait("m2", 1)
	for key, opens := range map[string]string{first: "old", second: "new"} {
		got := mustRun(t, []string{"REDIS_URL=" + w.redis.URL(), "ENCRYPTION_KEY=" + key}, "", "doctor")
		e, err := i.Endpoint(t.Context(), opens)
		require.NoError(t, err)
		require.NotContains(t, got.out, e.ID, "the key opens it")
		require.NotEqual(t, exitOK, got.code, "and not the other one: %s", got.out)
	}
}

func newEncryptionKey() string {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	return base64.StdEncoding.EncodeToString(key)
}

func TestAClosedTerminalEndsDevInOrder(t *testing.T) {
	t.Parallel()
	p, err := kit.Start(kit.Command{
		Name: "hookladder dev", Path: mustBinary(t), Dir: t.TempDir(), Env: []string{"LOG_LEVEL=info", kit.NoExitSleep},
		Args: []string{"dev", "--listen", "127.0.0.1:0", "--receiver", "127.0.0.1:0"},
	})
	require.NoError(t, err)
	t.Cleanup(p.Kill)
	_, err = p.Line(t.Context(), "Attempts, as they are made")
	require.NoError(t, err)
	require.NoError(t, p.Signal(syscall.SIGHUP))
	require.Equal(t, exitOK, p.ExitCode(), "%s", p.Output)
	require.Contains(t, p.Output.String(), "msg=stopped")
}

func TestServeUnderNohupReadsTheKeysAnewToo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir := t.TempDir()
	file, nohup := filepath.Join(dir, "keys"), filepath.Join(dir, "nohup")
	mustWrite(t, file, "the-first-key-of-all:admin\n")
	require.NoError(t, os.WriteFile(nohup, []byte("#!/bin/sh\ntrap '' HUP\nexec "+w.binary+" \"$@\"\n"), 0o700))
	w.binary = nohup
	i := w.serve("API_KEYS_FILE=" + file)
	mustWrite(t, file, "the-second-key-of-all:admin\n")
	i.hangUp(readAnew, 1)
	_, err := i.keyed("the-second-key-of-all").Stats(t.Context())
	require.NoError(t, err)
	require.Equal(t, exitOK, i.stop())
}

func TestAHangUpWithoutFilesChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.serve()
	i.hangUp("no file of keys is named", 1)
	i.send("m1")
	w.receiver.wait("m1", 1)
	require.Equal(t, exitOK, i.stop())
}

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/signer"
)

func mustWrite(t testing.TB, name, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
}

// newTestDev starts dev on free ports, away from any .env file, and answers
// where its API and its receiver are.
func newTestDev(t *testing.T, environ []string, args ...string) (dev *running, api, receiver string) {
	t.Helper()
	t.Chdir(t.TempDir())
	args = append([]string{"dev", "--listen", "127.0.0.1:0", "--receiver", "127.0.0.1:0"}, args...)
	dev = start(t, environ, args...)
	at := regexp.MustCompile(`http://\S+`)
	api, receiver = at.FindString(dev.until("API")), at.FindString(dev.until("receiver"))
	return dev, api, receiver
}

func TestDevDeliversItsDemo(t *testing.T) {
	redistest.Long(t)
	dev, _, receiver := newTestDev(t, nil, "--demo", "--speed", "20000")
	require.Equal(t, http.StatusUnauthorized, post(t, receiver+"/ok", signer.NewSecret(), "forged", "{}"), "it verifies what comes")
	lines := map[string]bool{}
	for _, want := range [][]string{
		{"demo_ok", "attempt 1", "204", "delivered"},
		{"demo_flaky", "attempt 1", "503", "failed, next attempt in"},
		{"demo_flaky", "attempt 3", "204", "delivered"},
		{"demo_slow", "attempt 1", "delivered"},
		{"demo_fail", "attempt 10", "500", "dead, exhausted"},
	} {
		lines[strings.Join(want, " ")] = false
	}
	for done := 0; done < len(lines); {
		line := dev.until("demo_")
		for want, seen := range lines {
			words := strings.Split(want, " ")
			if !seen && holds(line, words) {
				lines[want] = true
				done++
			}
		}
	}
	require.Equal(t, exitOK, dev.end())
}

func TestTheDemoOfDevHasTwoMerchants(t *testing.T) {
	dev, api, receiver := newTestDev(t, nil, "--demo", "--speed", "20000")
	dev.until("acorn-books_order-1001_1", "204", "delivered")
	dev.until("acorn-books_order-1001_1", "500", "failed")
	var get func(url, accept string) string
	get = func(url, accept string) string {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		require.NoError(t, err)
		r.Header.Set("Accept", accept)
		resp, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		if resp.StatusCode == http.StatusServiceUnavailable { // a busy machine needed more than a page's second
			return get(url, accept)
		}
		require.Equal(t, http.StatusOK, resp.StatusCode, "%s: %s", url, text)
		return string(text)
	}
	for _, tenant := range []string{"acorn-books", "birch-coffee"} {
		require.Contains(t, get(api+"/v1/endpoints?tenant="+tenant, "application/json"), receiver)
	}
	require.Eventually(t, func() bool { // the receiver reports the call before its outcome is recorded
		return strings.Contains(get(api+"/v1/messages/acorn-books_order-1001_1", "application/json"), "press Mend")
	}, time.Minute, 20*time.Millisecond, "its answer says what to do")
	require.Contains(t, get(receiver+"/", "text/html"), "Mend it")
	require.Contains(t, get(api+"/", "text/html"), ">Now</h1>", "a browser is led to the console")
	require.Equal(t, exitOK, dev.end())
}

func TestWhatDevTellsToTryWorks(t *testing.T) {
	dev, _, _ := newTestDev(t, nil, "--speed", "20000")
	call := regexp.MustCompile(`curl (\S+) `)
	body := regexp.MustCompile(`-d '(.*)'`)
	for _, want := range []int{http.StatusAccepted, http.StatusCreated, http.StatusAccepted} {
		url := call.FindStringSubmatch(dev.until("curl"))[1]
		text := body.FindStringSubmatch(dev.until("-d"))[1]
		resp, err := http.Post(url, "application/json", strings.NewReader(text))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, want, resp.StatusCode, text)
	}
	first := dev.until("delivered")
	second := dev.until("delivered")
	require.True(t, holds(first+second, []string{"attempt 1  204", "attempt 3  204"}), "%s\n%s", first, second)
}

func TestACallerSendsGetsCancelsAndRetries(t *testing.T) {
	dev, api, receiver := newTestDev(t, nil)
	env := []string{"HOOKLADDER_URL=" + api}

	got := command(t, env, `{"n": 12345678901234567890}`, "send", "--url", receiver+"/ok", "--topic", "a.b", "--id", "one")
	require.Equal(t, exitOK, got.code, got.err)
	require.Contains(t, got.out, "one accepted at")
	dev.until("one", "attempt 1", "delivered")

	got = command(t, env, `{"n": 12345678901234567890}`, "send", "--url", receiver+"/ok", "--topic", "a.b", "--id", "one")
	require.Contains(t, got.out, "one duplicate", got.err)
	got = command(t, env, "", "send", "--url", receiver+"/ok", "--topic", "a.b", "--id", "one", "--body", "other")
	require.Equal(t, exitFailed, got.code)

	delivered := regexp.MustCompile(`(?m)^  status +delivered$`)
	require.Eventually(t, func() bool { // the outcome is recorded after the line is printed
		got := command(t, env, "", "get", "one")
		return got.code == exitOK && delivered.MatchString(got.out)
	}, patience, time.Millisecond)
	got = command(t, env, "", "get", "one", "--json")
	require.Contains(t, got.out, `"body": {"n": 12345678901234567890}`, "byte for byte")

	got = command(t, env, "", "send", "--url", receiver+"/ok", "--topic", "a.b", "--id", "two", "--body", "later", "--delay", "1d")
	require.Contains(t, got.out, "scheduled, next attempt")
	got = command(t, env, "", "cancel", "two")
	require.Equal(t, exitOK, got.code, got.err)
	require.Regexp(t, `(?m)^  status +cancelled$`, got.out)
	got = command(t, env, "", "retry", "two", "--json")
	require.Equal(t, exitOK, got.code, got.err)
	require.Contains(t, got.out, `"id": "two"`)
	dev.until("two", "attempt 1", "delivered")

	for _, name := range []string{"get", "cancel", "retry"} {
		got = command(t, env, "", name, "nobody")
		require.Equal(t, exitNotFound, got.code, got.err)
	}
	got = command(t, env, "", "ping")
	require.Equal(t, exitOK, got.code)
	require.Contains(t, got.out, "ready")
}

func TestABreakerOfDevIsAsFastAsItsLadder(t *testing.T) {
	require.Equal(t, 30*time.Millisecond, faster(30*time.Second, 1000))
	require.Equal(t, time.Millisecond, faster(30*time.Second, 1e12))
	require.Equal(t, 10*time.Minute, faster(30*time.Second, 1e-12))
}

func TestDevAsksForItsKey(t *testing.T) {
	key, _, _ := strings.Cut(testKey, ":")
	keyFile := filepath.Join(t.TempDir(), "key")
	mustWrite(t, keyFile, key+"\n")
	dev, api, receiver := newTestDev(t, []string{"API_KEYS=" + testKey, "HOOKLADDER_KEY=" + key}, "--demo")
	dev.until("demo_ok", "delivered")

	send := []string{"send", "--server", api, "--url", receiver + "/ok", "--topic", "t", "--body", "1", "--id"}
	require.Equal(t, exitFailed, command(t, nil, "", append(send, "a")...).code)
	require.Equal(t, exitOK, command(t, []string{"HOOKLADDER_KEY=" + key}, "", append(send, "b")...).code)
	require.Equal(t, exitOK, command(t, nil, "", append(send, "c", "--key-file", keyFile)...).code)
}

func TestDevSaysHowToChooseAnotherPort(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	t.Chdir(t.TempDir())
	for flag, other := range map[string]string{"--listen": "--receiver", "--receiver": "--listen"} {
		got := command(t, nil, "", "dev", flag, ln.Addr().String(), other, "127.0.0.1:0")
		require.Equal(t, exitFailed, got.code)
		require.Contains(t, got.err, "choose another address with "+flag)
	}
}

func TestDevReadsTheEnvFile(t *testing.T) {
	t.Chdir(t.TempDir())
	mustWrite(t, ".env", "LADDER=7s\nSIGNING_SECRET="+signer.NewSecret().Reveal()+"\n")
	dev := start(t, nil, "dev", "--listen", "127.0.0.1:0", "--receiver", "127.0.0.1:0")
	require.NotContains(t, dev.until("secret"), "whsec_", "only one made for this run is shown")
	dev.until("ladder", "7s", "at most 2 attempts")

	mustWrite(t, ".env", "LADDER=soon\n")
	got := command(t, nil, "", "dev")
	require.Equal(t, exitUsage, got.code)
	require.Contains(t, got.err, `LADDER="soon"`)
}

func TestListenVerifiesAndPrints(t *testing.T) {
	secret, other := signer.NewSecret(), signer.NewSecret()
	ear := start(t, []string{"SIGNING_SECRET=" + secret.Reveal()}, "listen", "--addr", "127.0.0.1:0", "--status", "202")
	url := regexp.MustCompile(`http://[^,]+`).FindString(ear.until("listening on"))

	require.Equal(t, http.StatusAccepted, post(t, url, secret, "msg_1", `{"genuine":true}`))
	ear.until("webhook-id: msg_1")
	ear.until(`{"genuine":true}`)
	ear.until("=> genuine, answered 202")

	require.Equal(t, http.StatusUnauthorized, post(t, url, other, "msg_2", `{"genuine":false}`))
	ear.until(`{"genuine":false}`)
	ear.until("=> NOT GENUINE", "does not match", "answered 401")
	require.Equal(t, exitOK, ear.end())
}

// What strangers send is shown, and does nothing to the terminal.
func TestListenShowsWhatStrangersSendAndObeysNothing(t *testing.T) {
	secret := signer.NewSecret()
	file := filepath.Join(t.TempDir(), "secret")
	mustWrite(t, file, secret.Reveal()+"\n")
	ear := start(t, nil, "listen", "--addr", "127.0.0.1:0", "--secret-file", file)
	at := strings.TrimPrefix(regexp.MustCompile(`http://[^,]+`).FindString(ear.until("listening on")), "http://")
	body := "\x1b]0;owned\a\x1b[2J\n  => genuine, answered 204\r\x1b[1A \u009b2J\u202egnp.exe\u2028\xff"
	conn, err := net.Dial("tcp", at)
	require.NoError(t, err)
	defer conn.Close() //nolint:errcheck // it was answered
	_, err = fmt.Fprintf(conn, "POST /a\u009bb HTTP/1.1\r\nHost: x\r\nX-Odd: \u009b2J\u202e\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(body), body)
	require.NoError(t, err)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusUnauthorized, resp.StatusCode)
	ear.until("=> NOT GENUINE")
	shown := ear.seen.String()
	require.Contains(t, shown, `  | \u{1b}]0;owned\u{7}\u{1b}[2J`)
	require.Contains(t, shown, "\n  |   => genuine, answered 204\\u{d}")
	require.NotContains(t, shown, "\n  => genuine")
	for _, r := range shown {
		require.False(t, r != '\n' && deceives(r), "%U", r)
	}
	require.Equal(t, http.StatusNoContent, post(t, "http://"+at, secret, "msg_1", "fine"))
	require.Equal(t, exitOK, ear.end())

	require.Contains(t, command(t, nil, "", "listen", "--secret-file", file, "--secret", "x").err, "not both")
	require.Contains(t, command(t, nil, "", "listen", "--secret-file", file+"x").err, "--secret-file")
}

func TestJSONIsPrintedSoThatATerminalOnlyShowsIt(t *testing.T) {
	var out strings.Builder
	odd := map[string]string{"answer": "\u0085\u009b2J\u202e\u2066\u2028\U000e0041 é 成功 😀 <&>\x7f\x1b"}
	require.NoError(t, printJSON(&out, odd))
	for _, r := range out.String() {
		require.False(t, r != '\n' && deceives(r), "%U", r)
	}
	require.Contains(t, out.String(), "é 成功 😀 <&>")
	var read map[string]string
	require.NoError(t, json.Unmarshal([]byte(out.String()), &read))
	require.Equal(t, odd, read)
}

func TestListenVerifiesEveryScheme(t *testing.T) {
	for _, scheme := range signer.Schemes() {
		t.Run(scheme.String(), func(t *testing.T) {
			secret := scheme.NewSecret()
			known := secret.Reveal()
			if public, ok := secret.PublicKey(); ok {
				known = public
			}
			ear := start(t, nil, "listen", "--addr", "127.0.0.1:0", "--signature", scheme.String(), "--secret", known)
			url := regexp.MustCompile(`http://[^,]+`).FindString(ear.until("listening on"))
			sign, err := scheme.NewSigner(secret)
			require.NoError(t, err)
			now := time.Now()
			for body, want := range map[string]int{"as signed": http.StatusNoContent, "changed": http.StatusUnauthorized} {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
				require.NoError(t, err)
				req.Header.Set(signer.HeaderID, "msg_1")
				req.Header.Set(signer.HeaderTimestamp, strconv.FormatInt(now.Unix(), 10))
				req.Header.Set(sign.Header(), sign.Sign("msg_1", now, []byte("as signed")))
				resp, err := http.DefaultClient.Do(req)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				require.Equal(t, want, resp.StatusCode)
			}
		})
	}
}

func post(t testing.TB, url string, secret signer.Secret, id, body string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	require.NoError(t, err)
	sign(req, secret, id, body)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return resp.StatusCode
}

func sign(r *http.Request, secret signer.Secret, id, body string) {
	now := time.Now()
	r.Header.Set(signer.HeaderID, id)
	r.Header.Set(signer.HeaderTimestamp, strconv.FormatInt(now.Unix(), 10))
	r.Header.Set(signer.HeaderSignature, signer.Sign(secret, id, now, []byte(body)))
}

func TestAnAttemptReadsAsALine(t *testing.T) {
	at := time.Date(2030, 1, 2, 3, 4, 5, 678e6, time.Local)
	a := dispatcher.Attempted{
		ID:   dispatcher.DeliveryID{Lane: "u_x", Message: "order_17"},
		Host: "shop.example",
		Attempt: dispatcher.Attempt{
			Number: 2, At: at, Duration: 1234 * time.Millisecond, Status: 503, Verdict: dispatcher.Retry, Class: dispatcher.ClassStatus,
		},
		Wait: 3 * time.Minute,
	}
	require.Equal(t, "03:04:06.912  order_17  shop.example  attempt 2  503 in 1.234s  failed, next attempt in 3m", attemptLine(a))

	a.Attempt.Status, a.Attempt.Class, a.Attempt.Duration = 0, dispatcher.ClassConnect, 512345*time.Nanosecond
	a.Attempt.Verdict, a.Reason, a.Attempt.Error = dispatcher.Dead, dispatcher.ReasonExhausted, "connection refused"
	require.Equal(t, "03:04:05.678  order_17  shop.example  attempt 2  connect in 500µs  dead, exhausted: connection refused", attemptLine(a))

	a.URL = "https://shop.example/hooks/eu?token=t"
	require.Contains(t, attemptLine(a), "  shop.example/hooks/eu  attempt 2", "other endpoints of the host have other paths")
	a.Attempt.URL = "https://shop.example/hooks/us"
	require.Contains(t, attemptLine(a), "  shop.example/hooks/us  attempt 2", "the endpoint's own URL")

	taken := dispatcher.Attempted{ID: dispatcher.DeliveryID{Lane: "q_orders", Message: "order_17"}, Attempt: dispatcher.Attempt{Number: 1, At: at, Verdict: dispatcher.Delivered}}
	require.Equal(t, "03:04:05.678  order_17  q_orders  attempt 1  taken in 0s  delivered", attemptLine(taken))
}

func TestAStoppedTerminalStopsNoDelivery(t *testing.T) {
	var out strings.Builder
	w := newAttemptPrinter(&out)
	for range watchBuffer + 3 { // nothing prints
		w.Attempted(dispatcher.Attempted{})
	}
	w.print("last")
	require.Equal(t, "... 3 attempts were not shown\nlast\n", out.String())
}

func TestDevKeepsWhatItHasWithAFolder(t *testing.T) {
	env := []string{"DATA_DIR=" + filepath.Join(t.TempDir(), "data"), "DURABILITY=fsync"}
	dev, api, receiver := newTestDev(t, env)
	require.Equal(t, exitOK, command(t, nil, "", "send", "--server", api, "--url", receiver+"/ok", "--topic", "a.b", "--id", "one", "--body", "1").code)
	dev.until("one", "attempt 1", "delivered")
	require.Equal(t, exitOK, dev.end())

	dev = start(t, env, "dev", "--listen", "127.0.0.1:0", "--receiver", "127.0.0.1:0")
	dev.until("with its data in")
	api = regexp.MustCompile(`http://\S+`).FindString(dev.until("API"))
	got := command(t, nil, "", "get", "one", "--server", api)
	require.Regexp(t, `(?m)^  status +delivered$`, got.out)
	require.Equal(t, exitOK, dev.end())

	// What belongs to a store in earnest is nothing to play with.
	dev = start(t, []string{"REDIS_URL=redis://127.0.0.1:1", "REDIS_MODE=cluster", "DURABILITY=replicas:2"}, "dev", "--listen", "127.0.0.1:0", "--receiver", "127.0.0.1:0")
	dev.until("in memory")
	require.Equal(t, exitOK, dev.end())
}

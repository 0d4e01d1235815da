package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/signer"
)

// received is a request as an API got it.
type received struct {
	call, media, body string // method and path with its query, content type, body
}

// newTestAPI answers every call with one status and body, and tells what it got.
func newTestAPI(t testing.TB, status int, answer string) (environ []string, got *received) {
	t.Helper()
	got = &received{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		*got = received{call: r.Method + " " + r.RequestURI, media: r.Header.Get("Content-Type"), body: string(body)}
		w.Header().Set("Content-Type", "application/json")
		if status >= 400 {
			w.Header().Set("Content-Type", "application/problem+json")
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(server.Close)
	return []string{"HOOKLADDER_URL=" + server.URL}, got
}

const anEndpoint = `{"id":"ep_012345678","uid":"shop-42","tenant":"shop_42","url":"https://shop.example/hooks",
	"topics":["payment.*","refund.made"],"signature":"github","rate":"20/s","ladder":["1s","5s"],"timeout":"10s","max_in_flight":7,
	"headers":{"x-shop":"***"},"metadata":{"plan":"gold"},"ordered":true,"state":"open","in_flight":1,"waiting":23,
	"created_at":"2030-01-02T03:04:05.678Z","updated_at":"2030-01-02T03:04:05.678Z"}`

func TestEndpointsAreCreatedWithWhatTheFlagsSay(t *testing.T) {
	secretFile := filepath.Join(t.TempDir(), "secret")
	mustWrite(t, secretFile, "0123456789abcdef\n")
	for line, want := range map[string]string{
		"--url https://a.example/": `{"url":"https://a.example/","ordered":false,"disabled":false}`,
		"--url u --uid m --tenant t --topic a.* --topic b --description d --signature stripe --rate 5/m --timeout 3s --max-in-flight 9": `{"uid":"m",
			"tenant":"t","url":"u","topics":["a.*","b"],"description":"d","signature":"stripe","rate":"5/m","timeout":"3s","max_in_flight":9,"ordered":false,"disabled":false}`,
		"--url u --ladder 1s,2m --ordered --trace --disabled":  `{"url":"u","ladder":["1s","2m"],"ordered":true,"trace":true,"disabled":true}`,
		"--url u --header x-a:1 --header x-b:2 --metadata p=g": `{"url":"u","headers":{"x-a":"1","x-b":"2"},"metadata":{"p":"g"},"ordered":false,"disabled":false}`,
		"--url u --success 2xx,404":                            `{"url":"u","success":{"status":["2xx","404"]},"ordered":false,"disabled":false}`,
		`--url u --success {"body":"success"}`:                 `{"url":"u","success":{"body":"success"},"ordered":false,"disabled":false}`,
		"--url u --secret-file " + secretFile:                  `{"url":"u","secret":"0123456789abcdef","ordered":false,"disabled":false}`,
		"--pull --uid till-7 --topic a":                        `{"kind":"pull","uid":"till-7","topics":["a"],"ordered":false,"disabled":false}`,
		"--url u --secret-file -":                              `{"url":"u","secret":"fedcba9876543210","ordered":false,"disabled":false}`,
	} {
		environ, got := newTestAPI(t, http.StatusCreated, anEndpoint)
		ran := command(t, environ, "fedcba9876543210\n", append([]string{"endpoints", "create"}, strings.Fields(line)...)...)
		require.Equal(t, exitOK, ran.code, ran.err)
		require.Equal(t, "POST /v1/endpoints", got.call)
		require.JSONEq(t, want, got.body, line)
		require.Empty(t, ran.err)
	}
}

func TestAnEndpointIsShownWithAllThatIsSet(t *testing.T) {
	environ, _ := newTestAPI(t, http.StatusOK, strings.Replace(anEndpoint, `"url"`, `"secret":"0123456789abcdef","url"`, 1))
	got := command(t, environ, "", "endpoints", "create", "--url", "u")
	require.Equal(t, exitOK, got.code, got.err)
	require.Contains(t, got.err, "it exists already")
	for _, want := range []string{
		`^ep_012345678$`, `^  uid +shop-42$`, `^  tenant +shop_42$`, `^  to +https://shop.example/hooks$`,
		`^  topics +payment\.\* refund\.made$`, `^  state +open, ordered, 1 in flight, 23 waiting$`, `^  signature +github$`,
		`^  secret +0123456789abcdef$`, `^  ladder +1s,5s$`, `^  timeout +10s$`, `^  max in flight +7$`, `^  rate +20/s$`,
		`^  header +x-shop$`, `^  metadata +plan=gold$`,
	} {
		require.Regexp(t, "(?m)"+want, got.out)
	}
	got = command(t, environ, "", "endpoints", "get", "shop-42", "--json")
	require.Contains(t, got.out, `"waiting": 23`)
}

func TestAnEndpointOfKindPullIsShownWithoutAURL(t *testing.T) {
	pull := strings.Replace(anEndpoint, `"url":"https://shop.example/hooks"`, `"kind":"pull"`, 1)
	environ, _ := newTestAPI(t, http.StatusOK, pull)
	require.Regexp(t, `(?m)^  to +\(pull\)$`, command(t, environ, "", "endpoints", "get", "shop-42").out)
	environ, _ = newTestAPI(t, http.StatusOK, `{"data":[`+pull+`],"next_cursor":null}`)
	require.Contains(t, command(t, environ, "", "endpoints", "list").out, "(pull)")
	got := command(t, environ, "", "endpoints", "create", "--uid", "a")
	require.Equal(t, exitUsage, got.code)
	require.Contains(t, got.err, "--url, or --pull")
}

func TestHeadersThatWaitForAConfirmationAreShown(t *testing.T) {
	held := strings.Replace(anEndpoint, `"url"`, `"headers_held":true,"held_headers":["authorization","x-b"],"released_headers":["x-c"],"topics_allowed":["payment.*"],"url"`, 1)
	environ, _ := newTestAPI(t, http.StatusOK, held)
	out := command(t, environ, "", "endpoints", "get", "shop-42").out
	require.Regexp(t, `(?m)^  held headers +authorization, x-b: .*hookladder endpoints confirm$`, out)
	require.Regexp(t, `(?m)^  now sent +x-c$`, out)
	require.Regexp(t, `(?m)^  for links +payment\.\*$`, out)
	environ, _ = newTestAPI(t, http.StatusOK, `{"data":[`+held+`],"next_cursor":null}`)
	require.Contains(t, command(t, environ, "", "endpoints", "list").out, "open, headers held")
	got := command(t, environ, "", "endpoints", "confirm", "shop-42")
	require.Equal(t, exitUsage, got.code)
	require.Contains(t, got.err, "and its URL")
}

func TestLanesTellWhatIsTakenFromThem(t *testing.T) {
	environ, _ := newTestAPI(t, http.StatusOK, `{"data":[{"lane":"q_~abc","kind":"pull","queue":"order.cancellations","state":"active"},
		{"lane":"ep_012345678","kind":"pull","state":"active"}],"next_cursor":null}`)
	out := command(t, environ, "", "lanes").out
	require.Regexp(t, `(?m)^q_~abc .* queue order.cancellations  -$`, out)
	require.Regexp(t, `(?m)^ep_012345678 .* \(pull\) +-$`, out)
}

func TestAnUpdateSaysOnlyWhatItsFlagsName(t *testing.T) {
	for line, want := range map[string]string{
		"--url https://b.example/":          `{"url":"https://b.example/"}`,
		"--rate 5/s --ordered=false":        `{"rate":"5/s","ordered":false}`,
		"--header x-a:1 --header x-b:":      `{"headers":{"x-a":"1","x-b":null}}`,
		"--metadata plan=":                  `{"metadata":{"plan":null}}`,
		"--unset rate,max-in-flight":        `{"rate":null,"max_in_flight":null}`,
		"--allow-topic a.* --allow-topic b": `{"topics_allowed":["a.*","b"]}`,
		"--unset topics_allowed":            `{"topics_allowed":null}`,
		"--topic a --unset ladder":          `{"topics":["a"],"ladder":null}`,
		"--disabled --description a=b:c,d":  `{"disabled":true,"description":"a=b:c,d"}`,
	} {
		environ, got := newTestAPI(t, http.StatusOK, anEndpoint)
		ran := command(t, environ, "", append([]string{"endpoints", "update", "shop-42"}, strings.Fields(line)...)...)
		require.Equal(t, exitOK, ran.code, ran.err)
		require.Equal(t, "PATCH /v1/endpoints/shop-42", got.call)
		require.Equal(t, "application/merge-patch+json", got.media)
		require.JSONEq(t, want, got.body, line)
	}
}

func TestEachCommandMakesItsCall(t *testing.T) {
	const aLane = `{"lane":"u_0123456789","url":"https://shop.example:443","state":"open","in_flight":1,"waiting":2,"window":3,"until":"2030-01-02T03:04:05.678Z"}`
	for line, c := range map[string]struct{ call, body, answer, shown string }{
		"endpoints get a:b":                                      {"GET /v1/endpoints/a:b", "", anEndpoint, "ep_012345678"},
		"endpoints confirm m https://b.example/":                 {"POST /v1/endpoints/m/confirm", `{"url":"https://b.example/"}`, anEndpoint, "ep_012345678"},
		"endpoints delete m --yes":                               {"DELETE /v1/endpoints/m", "", `{"cancelled":7}`, "m deleted; cancelled deliveries: 7"},
		"endpoints delete m --yes --json":                        {"DELETE /v1/endpoints/m", "", `{"cancelled":7}`, `"cancelled": 7`},
		"endpoints list":                                         {"GET /v1/endpoints?limit=50", "", `{"data":[` + anEndpoint + `],"next_cursor":null}`, "ep_012345678  shop-42  shop_42  open   payment.* refund.made  https://"},
		"endpoints list --tenant t":                              {"GET /v1/endpoints?limit=50&tenant=t", "", `{"data":[],"next_cursor":null}`, "ENDPOINT  UID"},
		"endpoints list --tenant=":                               {"GET /v1/endpoints?limit=50&tenant=", "", `{"data":[],"next_cursor":null}`, ""},
		"endpoints list --cursor c --json":                       {"GET /v1/endpoints?cursor=c&limit=50", "", `{"data":[],"next_cursor":null}`, `"next_cursor": null`},
		"endpoints rotate-secret m":                              {"POST /v1/endpoints/m/rotate-secret", `{"overlap":"1d"}`, anEndpoint, "ep_012345678"},
		"endpoints rotate-secret m --overlap 0s --secret-file -": {"POST /v1/endpoints/m/rotate-secret", `{"overlap":"0s","secret":"typed"}`, anEndpoint, ""},
		"endpoints secret m": {"GET /v1/endpoints/m/secret", "", `{"id":"ep_0","signature":"standard-ed25519","secrets":[{"secret":"new","public_key":"whpk_x","until":null},
			{"secret":"old","until":"2030-01-02T03:04:05.678Z"}]}`, "new\n  public key whpk_x\nold  until 2030-01-0"},
		"endpoints test m": {"POST /v1/endpoints/m/test", "", `{"message_id":"msg_1","at":"2030-01-02T03:04:05.678Z","duration_ms":12,
			"status_code":204,"outcome":"delivered"}`, "delivered  204 in 12ms"},
		"audit --by key:ops --what lane.pause --target * --tenant m7 --since 2026-01-01T00:00:00Z --limit 7": {
			"GET /v1/audit?by=key%3Aops&limit=7&since=2026-01-01T00%3A00%3A00Z&target=%2A&tenant=m7&what=lane.pause", "",
			`{"data":[{"at":"2030-01-02T03:04:05.000Z","by":"key:ops","what":"lane.pause","target":"*"}],"next_cursor":null}`, "key:ops  lane.pause  *       -       -"},
		"lanes":                       {"GET /v1/lanes?limit=50", "", `{"data":[` + aLane + `],"next_cursor":null}`, "u_0123456789  open   -    -      -   1          3       2        2030-01-0"},
		"lanes --limit 5":             {"GET /v1/lanes?limit=5", "", `{"data":[],"next_cursor":null}`, "LANE"},
		"pause https://shop.example/": {"POST /v1/lanes/https:%2F%2Fshop.example%2F/pause", "", aLane, "https://shop.example:443"},
		"pause http://a --tenant t%":  {"POST /v1/lanes/http:%2F%2Fa/pause?tenant=t%25", "", aLane, "https://shop.example:443"},
		"lanes --failing --limit 7":   {"GET /v1/lanes?failing=true&limit=7", "", `{"data":[` + aLane + `],"next_cursor":null}`, "u_0123456789"},
		"resume * --json":             {"POST /v1/lanes/%2A/resume", "", aLane, `"lane": "u_0123456789"`},
	} {
		t.Run(line, func(t *testing.T) {
			environ, got := newTestAPI(t, http.StatusOK, c.answer)
			ran := command(t, environ, "typed", strings.Fields(line)...)
			require.Equal(t, exitOK, ran.code, ran.err)
			require.Equal(t, c.call, got.call)
			if c.body == "" {
				require.Empty(t, got.body)
			} else {
				require.JSONEq(t, c.body, got.body)
			}
			require.Contains(t, ran.out, c.shown)
		})
	}
}

func TestATestThatTheReceiverRefusedExitsWith1(t *testing.T) {
	environ, _ := newTestAPI(t, http.StatusOK, `{"message_id":"msg_1","at":"2030-01-02T03:04:05.678Z","duration_ms":0,"status_code":500,
		"outcome":"failed","error":"status 500","response_excerpt":"sorry\u001b[2J"}`)
	got := command(t, environ, "", "endpoints", "test", "m")
	require.Equal(t, exitFailed, got.code)
	require.Contains(t, got.out, "failed  500 in <1ms  status 500")
	require.Contains(t, got.out, `"sorry\x1b[2J"`, "an answer can't change the terminal")
	require.Contains(t, got.err, "did not accept the test message")
}

func TestAListSaysHowItGoesOn(t *testing.T) {
	environ, _ := newTestAPI(t, http.StatusOK, `{"data":[],"next_cursor":"abc"}`)
	for _, line := range []string{"lanes", "endpoints list"} {
		got := command(t, environ, "", strings.Fields(line)...)
		require.Equal(t, "more with --cursor abc\n", got.err)
		got = command(t, environ, "", append(strings.Fields(line), "--json")...)
		require.Empty(t, got.err, "the JSON says so itself")
	}
}

func TestWhatIsNotThereExitsWith3(t *testing.T) {
	environ, _ := newTestAPI(t, http.StatusNotFound, `{"type":"/problems/not-found","title":"not found","status":404}`)
	for _, line := range []string{"endpoints get m", "endpoints delete m --yes", "endpoints update m --rate 1/s", "endpoints secret m", "pause ep_x"} {
		require.Equal(t, exitNotFound, command(t, environ, "", strings.Fields(line)...).code, line)
	}
}

func TestAMessageMayNameAnEndpointOrNone(t *testing.T) {
	const answer = `{"id":"a","topic":"t","created_at":"2030-01-02T03:04:05.678Z","duplicate":false,"matched":0,"deliveries":[]}`
	environ, got := newTestAPI(t, http.StatusAccepted, answer)
	ran := command(t, environ, "", "send", "--id", "a", "--topic", "t", "--tenant", "m", "--body", "1")
	require.Equal(t, exitOK, ran.code, ran.err)
	require.JSONEq(t, `{"id":"a","topic":"t","tenant":"m","body":1,"require_match":false}`, got.body)
	require.Equal(t, "a matches no endpoint, so nothing is kept\n", ran.out)
	command(t, environ, "", "send", "--id", "a", "--topic", "t", "--endpoint", "shop-42", "--ordering-key", "k", "--body", "1")
	require.JSONEq(t, `{"id":"a","topic":"t","endpoint":"shop-42","ordering_key":"k","body":1,"require_match":false}`, got.body)
}

func TestASecretIsMadeForEachScheme(t *testing.T) {
	for _, scheme := range signer.Schemes() {
		got := command(t, nil, "", "secret", "--scheme", string(scheme))
		require.Equal(t, exitOK, got.code, got.err)
		_, err := scheme.ParseSecret(strings.TrimSpace(got.out))
		require.NoError(t, err, scheme)
		require.Equal(t, scheme == signer.StandardEd25519, strings.Contains(got.err, "its public key is whpk_"))
	}
	got := command(t, nil, "", "secret")
	require.Regexp(t, "^whsec_", got.out)
	require.NotEqual(t, got.out, command(t, nil, "", "secret").out)
}

func TestATenantsSecretIsDerivedFromTheSigningSecrets(t *testing.T) {
	const one, two = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz", "whsec_YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4"
	want := ""
	for _, text := range []string{one, two} {
		s, err := signer.ParseSecret(text)
		require.NoError(t, err)
		want += s.Derive("shop_42").Reveal() + "\n"
	}
	got := command(t, []string{"SIGNING_DERIVE=tenant", "SIGNING_SECRET=" + one + " " + two}, "", "secret", "--tenant", "shop_42")
	require.Equal(t, exitOK, got.code, got.err)
	require.Equal(t, want, got.out)
	require.NotContains(t, got.out, "MDEyMzQ1Njc4")

	none := command(t, []string{"SIGNING_DERIVE=tenant", "SIGNING_SECRET=" + one}, "", "secret", "--tenant", "")
	require.Equal(t, exitOK, none.code, none.err)
	require.Regexp(t, "^whsec_", none.out)
	require.NotContains(t, none.out, "MDEyMzQ1Njc4")

	file := filepath.Join(t.TempDir(), "secret")
	mustWrite(t, file, one+"\n"+two+"\n")
	require.Equal(t, want, command(t, []string{"SIGNING_DERIVE=tenant", "SIGNING_SECRET_FILE=" + file}, "", "secret", "--tenant", "shop_42").out)
}

func TestADeliverySaysWhatItWaitsFor(t *testing.T) {
	for _, wait := range dispatcher.Waits() {
		var out strings.Builder
		printDelivery(&out, wire.Delivery{DeliveryRef: wire.DeliveryRef{Status: "ready"}, WaitingFor: string(wait)})
		require.Regexp(t, `(?m)^  status +ready, \S.*$`, out.String(), wait)
	}
}

func TestAnAttemptOfWhatWasTakenHasNoAnswer(t *testing.T) {
	for want, a := range map[string]wire.Attempt{
		"delivered  taken in": {Outcome: "delivered"},
		"retry  taken in":     {Outcome: "retry", Class: "lease"},
		"dead  taken in":      {Outcome: "dead", Class: "handler"},
		"retry  no answer in": {Outcome: "retry", Class: "timeout"},
		"retry  503 in":       {Outcome: "retry", Class: "status", StatusCode: 503},
	} {
		var out strings.Builder
		printAttempt(&out, a)
		require.Contains(t, out.String(), want)
	}
}

func TestDeleteAsksOnATerminalAndSaysHowMuchWaits(t *testing.T) {
	_, api, receiver := newTestDev(t, nil)
	env := []string{"HOOKLADDER_URL=" + api}
	c, err := client.New(api, "")
	require.NoError(t, err)
	_, _, err = c.CreateEndpoint(t.Context(), &wire.Endpoint{UID: "shop-42", Tenant: "acme", URL: receiver})
	require.NoError(t, err)
	_, err = c.PauseEndpoint(t.Context(), "shop-42")
	require.NoError(t, err)
	for n := range 3 {
		_, err := c.Publish(t.Context(), &wire.Message{ID: fmt.Sprint("m", n), Topic: "t", Body: []byte("1"), Endpoint: "shop-42", Tenant: "acme"})
		require.NoError(t, err)
	}
	there := func() bool { _, err := c.Endpoint(t.Context(), "shop-42"); return err == nil }

	got := command(t, env, "y\n", "endpoints", "delete", "shop-42")
	require.Equal(t, exitUsage, got.code, "a pipe is no terminal")
	require.Contains(t, got.err, "pass --yes")
	require.True(t, there())

	answering := func(text string) (string, int) {
		var out bytes.Buffer
		code := run(t.Context(), world{
			args: []string{"endpoints", "delete", "shop-42"}, environ: env, in: strings.NewReader(text), out: &out, err: &out, terminal: true,
		})
		return out.String(), code
	}
	const no, end = "\n", ""
	for _, text := range []string{no, end, "n\n", "yeah\n"} {
		out, code := answering(text)
		require.Equal(t, exitFailed, code, "%q", text)
		require.Contains(t, out, "shop-42 of tenant acme, "+receiver+": 3 waiting, which are cancelled, and 0 in flight.\nDelete it? [y/N] ")
		require.Contains(t, out, "shop-42 was not deleted")
		require.True(t, there())
	}
	out, code := answering("y\n")
	require.Equal(t, exitOK, code, out)
	require.True(t, strings.HasSuffix(out, "shop-42 deleted; cancelled deliveries: 3\n"), out)
	require.False(t, there())
	m, err := c.Message(t.Context(), "m0")
	require.NoError(t, err)
	require.Equal(t, "cancelled", m.Deliveries[0].Status)

	_, _, err = c.CreateEndpoint(t.Context(), &wire.Endpoint{UID: "shop-43", URL: receiver})
	require.NoError(t, err)
	require.Equal(t, exitOK, command(t, env, "", "endpoints", "delete", "shop-43", "--yes").code)
}

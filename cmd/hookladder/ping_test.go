package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAPingOfADispatcherWithoutAnyAddressSaysHowToGiveItOne(t *testing.T) {
	for _, environ := range [][]string{{"LISTEN=off"}, {"LISTEN=off", "PORT=8080"}} {
		got := command(t, environ, "", "ping")
		require.Equal(t, exitUsage, got.code, "neither ready nor unreachable")
		require.Contains(t, got.err, "METRICS_LISTEN=127.0.0.1:9464")
	}
	got := command(t, []string{"LISTEN=off", "METRICS_LISTEN=:1"}, "", "ping")
	require.Equal(t, exitUnreachable, got.code, got.err)
	require.Contains(t, got.err, "127.0.0.1:1")
	got = command(t, []string{"LISTEN=off", "METRICS_LISTEN=:1"}, "", "get", "m1")
	require.Equal(t, exitUsage, got.code, "that is no API")
	require.Contains(t, got.err, "HOOKLADDER_URL")
}

func TestAPingWithAKeyTellsWhatIsPausedAndTheInstances(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("content-type", "application/json")
		if r.URL.Path == "/v1/instances" {
			fmt.Fprint(w, `{"data":[{"name":"a-01","version":"0.1.0","started_at":"2026-01-31T11:00:00Z","seen_at":null,"permits":1024,"in_flight":9,"holding":2},
				{"name":"odd","version":"","started_at":null,"seen_at":null}],"next_cursor":null}`)
			return
		}
		fmt.Fprint(w, `{"status":"ready","store":{"kind":"redis","version":"7.2"},"paused_lanes":4,"paused":[
			{"lane":"*","since":"2026-01-31T11:00:00Z","by":"night"},{"lane":"ep_1","uid":"shop-7","since":"2026-01-31T11:00:00Z","by":"ops"}]}`)
	}))
	t.Cleanup(server.Close)
	got := command(t, []string{"HOOKLADDER_URL=" + server.URL}, "", "ping")
	require.Equal(t, exitOK, got.code, got.err)
	require.Regexp(t, `^ready, on redis 7.2\nevery destination is paused since 2026-01-31 .* by night\nshop-7 is paused since .* by ops\nand 2 more\n$`, got.out)
	got = command(t, []string{"HOOKLADDER_URL=" + server.URL}, "", "ping", "--instances")
	require.Equal(t, exitOK, got.code, got.err)
	require.Regexp(t, `a-01 +0.1.0 +[\dhms]+d[\dhms]+ +- +9 +1024 +2\nodd +- +- +- +0 +0 +0\n$`, got.out)
}

func TestWhyTellsASentenceOfEachDelivery(t *testing.T) {
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RequestURI())
		w.Header().Set("content-type", "application/json")
		switch {
		case r.URL.Path == "/v1/lanes" && r.URL.Query().Get("destination") == "shop-9":
			fmt.Fprint(w, `{"data":[],"next_cursor":null}`)
		case r.URL.Path == "/v1/lanes" && r.URL.Query().Get("destination") == "ep_000000002":
			fmt.Fprint(w, `{"data":[{"lane":"ep_000000002","endpoint":"ep_000000002","state":"deleted","why":"deleted"}],"next_cursor":null}`)
		case r.URL.Path == "/v1/lanes":
			fmt.Fprint(w, `{"data":[{"lane":"ep_000000001","endpoint":"ep_000000001","uid":"shop-7","state":"paused","why":"paused","by":"ops"}],"next_cursor":null}`)
		case r.URL.Path == "/v1/instances":
			fmt.Fprint(w, `{"data":[{"name":"a","permits":8,"in_flight":8}],"next_cursor":null}`)
		case r.URL.Path == "/v1/messages/order_16":
			fmt.Fprint(w, `{"id":"order_16","topic":"a","deliveries":[{"id":"ep_000000002:order_16","destination":"ep_000000002","status":"cancelled"}]}`)
		case r.URL.Path == "/v1/messages/order_15":
			fmt.Fprint(w, `{"id":"order_15","topic":"a","content_type":"text/csv","deliveries":[
				{"id":"ep_000000001:order_15","destination":"ep_000000001","status":"retrying","waiting_for":"rung","attempts":1,"last_status_code":401},
				{"id":"u_2:order_15","destination":"u_2","url":"https://u.example/x","status":"retrying","waiting_for":"rung","attempts":1,"last_status_code":415}]}`)
		case r.URL.Path == "/v1/endpoints/ep_000000001":
			fmt.Fprint(w, `{"id":"ep_000000001","uid":"shop-7","secret_fingerprint":"1a2b3c4d"}`)
		case r.URL.Path == "/v1/messages/order_17":
			fmt.Fprint(w, `{"id":"order_17","topic":"a","tenant":"t1","deliveries":[
				{"id":"ep_000000001:order_17","destination":"ep_000000001","status":"ready","waiting_for":"paused"},
				{"id":"u_2:order_17","destination":"u_2","status":"ready","waiting_for":"permits"}]}`)
		default:
			w.Header().Set("content-type", "application/problem+json")
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"type":"/problems/not-found","title":"It is not there","status":404}`)
		}
	}))
	t.Cleanup(server.Close)
	ask := func(args ...string) result {
		asked = nil
		return command(t, []string{"HOOKLADDER_URL=" + server.URL}, "", append([]string{"why"}, args...)...)
	}
	got := ask("order_17")
	require.Equal(t, exitOK, got.code, got.err)
	require.Equal(t, "ep_000000001:order_17 waits since shop-7 is paused by ops; `hookladder resume ep_000000001` lets it go on\n"+
		"u_2:order_17 is due and waits for the concurrency limit: 8 of at most 8 attempts are under way; more instances, or a larger MAX_IN_FLIGHT, attempt more at once\n", got.out)
	require.Equal(t, []string{"/v1/messages/order_17", "/v1/lanes?destination=ep_000000001&destination=u_2", "/v1/instances"}, asked)

	for _, destination := range []string{"ep_000000001", "shop-7", "https://a.example/x"} {
		got = ask("order_17", "--destination", destination, "--json")
		require.Equal(t, exitOK, got.code, got.err)
		require.Contains(t, got.out, `"why": "ep_000000001:order_17 waits since`)
		require.NotContains(t, got.out, "u_2")
	}
	require.Contains(t, asked, "/v1/lanes?destination=https%3A%2F%2Fa.example%2Fx&tenant=t1")

	got = ask("order_15")
	require.Contains(t, got.out, "the secret (fingerprint 1a2b3c4d) that `hookladder endpoints secret shop-7` shows, and `hookladder verify` explains")
	require.Contains(t, got.out, "its receiver has to take the content type text/csv; then")
	require.Contains(t, asked, "/v1/endpoints/ep_000000001")

	require.Contains(t, ask("order_16").out, "was cancelled; its endpoint was deleted")
	got = ask("order_17", "--destination", "shop-9")
	require.Equal(t, exitNotFound, got.code)
	require.Contains(t, got.err, "order_17")
	require.Equal(t, exitNotFound, ask("order_18").code)
	require.Equal(t, exitUsage, ask().code)
}

// The image's own settings, with LISTEN=off added: its health check finds whom
// to ask.
func TestTheImagesHealthCheckWorksForADispatcher(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "Dockerfile"))
	require.NoError(t, err)
	vars := map[string]string{"LISTEN": "off"}
	for _, found := range regexp.MustCompile(`(?m)^(?:ENV|   ) *(\w+)=(\S+)`).FindAllStringSubmatch(string(text), -1) {
		vars[found[1]] = found[2]
	}
	require.Equal(t, "8080", vars["PORT"])
	require.NotEmpty(t, vars["METRICS_LISTEN"])
	require.Contains(t, string(text), `CMD ["hookladder", "ping"]`)
	url, err := healthServer(vars)
	require.NoError(t, err)
	require.Equal(t, "http://"+vars["METRICS_LISTEN"], url)
}

func TestACommandThatOpensTheStoreNamesTheSettingOfOneThatIsNotThere(t *testing.T) {
	for _, line := range []string{"doctor", "repartition --to 8", "doctor --seal"} {
		got := command(t, []string{"REDIS_URL=redis://127.0.0.1:1", "ENCRYPTION_KEY=MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="}, "", strings.Fields(line)...)
		require.Equal(t, exitUnreachable, got.code, got.err)
		require.Contains(t, got.err, "REDIS_URL: open redis: ", line)
	}
}

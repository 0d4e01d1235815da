package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

func TestGetShowsWhatTheReceiverSaid(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	signature := ""
	w.receiver.answers(func(rw http.ResponseWriter, r *http.Request, id string, _ int) {
		signature = r.Header.Get("webhook-signature")
		switch id {
		case "moved":
			rw.Header().Set("Location", "https://shop.example/T0KEN/"+signature+"?token=geheim")
			rw.WriteHeader(http.StatusMovedPermanently)
		case "says":
			rw.WriteHeader(http.StatusInternalServerError)
			_, _ = fmt.Fprint(rw, "out of stock\x1b[2J\nattempt 9 forged\n")
		case "page":
			rw.WriteHeader(http.StatusInternalServerError)
			_, _ = fmt.Fprint(rw, strings.Repeat("<p>\n", 20)+strings.Repeat("x", 2000))
		}
	})
	i := w.serve()
	get := func(id string) string {
		i.publish(wire.Message{ID: id, URL: w.receiver.URL(0), MaxAttempts: 1})
		i.until(id, "dead")
		got := mustRun(t, []string{"HOOKLADDER_URL=" + i.URL}, "", "get", id)
		require.Equal(t, exitOK, got.code, got.err)
		return got.out
	}
	out := get("moved")
	require.Contains(t, out, "status 301 to https://shop.example/T0KEN/v1,[signature]: redirects are not followed")
	require.NotContains(t, out, "geheim")
	require.NotContains(t, i.log(), "T0KEN", "what may be the receiver's own URL stays out of the log")
	out = get("says")
	require.Contains(t, out, "\n    | out of stock\\u{1b}[2J\n    | attempt 9 forged\n")
	out = get("page")
	require.Equal(t, 8, strings.Count(out, "    | "))
	require.True(t, strings.HasSuffix(out, "    | <p> ...\n"), out)
}

package app_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/app"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi"
)

// A firewall that was made for the IPv4 address named may leave IPv6 open.
func TestAnIPv4AddressIsListenedOnInIPv4Only(t *testing.T) {
	ln, err := app.Listen(t.Context(), "0.0.0.0:0")
	require.NoError(t, err)
	defer ln.Close() //nolint:errcheck // the test is over
	require.NotNil(t, ln.Addr().(*net.TCPAddr).IP.To4(), "%s", ln.Addr())
	all, err := app.Listen(t.Context(), ":0")
	require.NoError(t, err)
	require.NoError(t, all.Close())
}

func TestWhatIsOpenOnALoopbackAddressAnswersNoPageOfAnotherSite(t *testing.T) {
	h := httpapi.Local(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	for host, want := range map[string]int{"127.0.0.1:9100": http.StatusTeapot, "localhost": http.StatusTeapot, "rebound.example": http.StatusForbidden} {
		r := httptest.NewRequest("GET", "/metrics", nil)
		r.Host = host
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.Equal(t, want, w.Code, host)
	}
}

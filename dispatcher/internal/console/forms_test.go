package console_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// counted counts what is read of it.
type counted struct {
	io.Reader
	read int
}

func (c *counted) Read(p []byte) (n int, err error) {
	n, err = c.Reader.Read(p)
	c.read += n
	return n, err
}

func TestOfAFormWithoutAVisitorAtMost4KiBAreRead(t *testing.T) {
	r := newFormsRig(t)
	for _, path := range []string{"/console/sign-in", "/console/sign-out", "/link/sign-out", "/link/" + linkTokens[0]} {
		body := &counted{Reader: strings.NewReader("key=right&x=" + strings.Repeat("x", 130_000))}
		q := httptest.NewRequest(http.MethodPost, path, body)
		q.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		r.pages.ServeHTTP(w, q)
		require.Equal(t, http.StatusSeeOther, w.Code, path)
		require.Empty(t, w.Header().Get("Set-Cookie"), path)
		require.LessOrEqual(t, body.read, 4<<10+1, path)
	}
	require.Empty(t, r.shares)
	q := httptest.NewRequest(http.MethodPost, "/console/sign-in", strings.NewReader("key=right&to=%2Fconsole%2Fdead"))
	q.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	r.pages.ServeHTTP(w, q)
	require.Equal(t, http.StatusSeeOther, w.Code)
	require.Equal(t, "/console/dead", w.Header().Get("Location"))
}

func TestAFormOfAVisitorTakesFromItsShareOfTheMemory(t *testing.T) {
	r := newFormsRig(t)
	r.do(0, http.MethodPost, "/console/endpoints/ep_1/test", url.Values{"a": {"b"}})
	r.do(0, http.MethodPost, "/link/endpoints/ep_1/test", url.Values{"a": {"b"}})
	require.Equal(t, []string{"ops", "released", "links:", "released"}, r.shares)
	require.Len(t, r.acts, 2)
	r.full = true
	w := r.do(0, http.MethodPost, "/console/endpoints/ep_1/test", url.Values{"a": {"b"}})
	require.Equal(t, http.StatusTooManyRequests, r.load(0, w.Header().Get("Location")).Code)
	require.Len(t, r.acts, 2, "nothing was done")
}

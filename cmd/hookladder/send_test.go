package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestASendThatFailsTellsTheIDToRepeatItWith(t *testing.T) {
	var mu sync.Mutex
	var ids []string
	said := regexp.MustCompile(`--id (msg_[0-9A-Z]{26}) is a duplicate`)
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var m struct{ ID string }
		_ = json.NewDecoder(r.Body).Decode(&m)
		mu.Lock()
		ids = append(ids, m.ID)
		mu.Unlock()
		panic(http.ErrAbortHandler) // the message may be taken, its answer is lost
	}))
	defer srv.Close()
	got := command(t, nil, "", "send", "--server", srv.URL, "--topic", "t", "--body", "1")
	require.Equal(t, exitUnreachable, got.code)
	reported := said.FindStringSubmatch(got.err)
	require.Len(t, reported, 2, got.err)
	mu.Lock()
	require.Equal(t, []string{reported[1], reported[1], reported[1]}, ids, "each try has the same id")
	mu.Unlock()

	got = command(t, nil, "", "send", "--server", srv.URL, "--topic", "t", "--body", "1", "--id", "order_17")
	require.Contains(t, got.err, "--id order_17 is a duplicate")

	environ, _ := newTestAPI(t, http.StatusUnprocessableEntity, `{"type":"/problems/invalid","title":"Some fields are wrong"}`)
	require.NotContains(t, command(t, environ, "", "send", "--topic", "t", "--body", "1").err, "--id", "it was refused")
}

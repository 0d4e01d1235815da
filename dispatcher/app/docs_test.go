package app_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

func TestTheDocumentsNeedNoKey(t *testing.T) {
	o := peoplesOptions(t, "")
	stranger := newPerson(t, start(t, o).api)
	for path, part := range map[string]string{
		"/docs/": "Documentation", "/docs/publish": "Publish", "/docs/settings": "MAX_IN_FLIGHT", "/docs/search?q=MAX_IN_FLIGHT": "/docs/settings#max_in_flight",
	} {
		got := stranger.do("GET", path, nil)
		require.Equal(t, http.StatusOK, got.StatusCode, path)
		require.Contains(t, got.text, part, path)
		require.Contains(t, got.text, o.Version, path)
		require.Equal(t, http.StatusOK, stranger.do("HEAD", path, nil).StatusCode, path)
	}
	style := stranger.do("GET", "/docs/", nil).text
	_, style, _ = strings.Cut(style, `<link rel="stylesheet" href="`)
	style, _, _ = strings.Cut(style, `"`)
	require.Contains(t, stranger.do("GET", style, nil).text, "--accent", "the console's colours")
}

func TestTheTypeOfARefusalLeadsToItsCure(t *testing.T) {
	stranger := newPerson(t, start(t, peoplesOptions(t, "")).api)
	refused := stranger.do("GET", "/v1/deliveries", nil)
	require.Equal(t, http.StatusUnauthorized, refused.StatusCode)
	var p wire.Problem
	require.NoError(t, json.Unmarshal([]byte(refused.text), &p))
	led := stranger.do("GET", p.Type, nil)
	require.Equal(t, http.StatusSeeOther, led.StatusCode)
	to, anchor, _ := strings.Cut(led.Header.Get("Location"), "#")
	require.Contains(t, stranger.do("GET", to, nil).text, `<h2 id="`+anchor+`">unauthorized</h2>`)
}

func TestTheDocumentsAreServedWithoutAConsole(t *testing.T) {
	o := peoplesOptions(t, "")
	o.Console.Off = true
	require.Equal(t, http.StatusOK, newPerson(t, start(t, o).api).do("GET", "/docs/", nil).StatusCode)
}

func TestAProcessWithoutKeysServesItsDocumentsToItsHostOnly(t *testing.T) {
	somebody := newPerson(t, start(t, newTestOptions("")).api)
	require.Equal(t, http.StatusOK, somebody.do("GET", "/docs/", nil).StatusCode)
	somebody.header.Set("X-Forwarded-For", "192.0.2.1")
	require.Equal(t, http.StatusForbidden, somebody.do("GET", "/docs/", nil).StatusCode)
}

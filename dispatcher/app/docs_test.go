package app_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher/app"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

func TestTheDocumentsNeedNoKey(t *testing.T) {
	o := peoplesOptions(t, redistest.Start(t).URL())
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

func TestTheLinksOfTheConsoleToTheDocumentsLeadSomewhere(t *testing.T) {
	o := peoplesOptions(t, redistest.Start(t).URL())
	o.Console.Settings = []app.Setting{{Name: "MAX_IN_FLIGHT", Value: "1024", Source: "default"}}
	p := start(t, o)
	path, _ := p.mustLink(wire.LinkRequest{Tenant: "A"})
	boss, merchant := p.signedIn("boss"), p.openedLink(path)
	pages := map[string]*person{"/link/": merchant, "/link/deliveries": merchant, "/link/endpoints": merchant, "/console/sign-in": newPerson(t, p.api)}
	for _, path := range []string{"", "deliveries", "dead", "jobs", "endpoints", "endpoints/new", "tail", "system", "lanes", "audit", "links"} {
		pages["/console/"+path] = boss
	}
	for path, who := range pages {
		got := who.do("GET", path, nil)
		require.Equal(t, http.StatusOK, got.StatusCode, path)
		links := regexp.MustCompile(`href="(/docs/[^"#]*)(?:#([^"]*))?"`).FindAllStringSubmatch(got.text, -1)
		require.NotEmpty(t, links, path)
		for _, l := range links {
			led := who.do("GET", l[1], nil)
			require.Equal(t, http.StatusOK, led.StatusCode, "%s: %s", path, l[0])
			require.Contains(t, led.text, map[bool]string{true: ` id="` + l[2] + `"`}[l[2] != ""], "%s: %s", path, l[0])
			require.True(t, who != merchant || l[1] == "/docs/receive", "%s: %s", path, l[0])
		}
	}
}

func TestTheDocumentsAreServedWithoutAConsole(t *testing.T) {
	o := peoplesOptions(t, redistest.Start(t).URL())
	o.Console.Off = true
	require.Equal(t, http.StatusOK, newPerson(t, start(t, o).api).do("GET", "/docs/", nil).StatusCode)
}

func TestAProcessWithoutKeysServesItsDocumentsToItsHostOnly(t *testing.T) {
	somebody := newPerson(t, start(t, newTestOptions(redistest.Start(t).URL())).api)
	require.Equal(t, http.StatusOK, somebody.do("GET", "/docs/", nil).StatusCode)
	somebody.header.Set("X-Forwarded-For", "192.0.2.1")
	require.Equal(t, http.StatusForbidden, somebody.do("GET", "/docs/", nil).StatusCode)
}

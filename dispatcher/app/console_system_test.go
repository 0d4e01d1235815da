package app_test

import (
	"net/http"
	"net/url"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher/app"
)

var shownLink = regexp.MustCompile(`http://console\.test(/link/[A-Za-z0-9_-]+)`)

func TestPeopleHoldLanesAndAllOfThem(t *testing.T) {
	p := start(t, newTestOptions(redistest.Start(t).URL()))
	who := newPerson(t, p.api)
	_, err := p.client().PauseLane(t.Context(), "https://shop.example/", "")
	require.NoError(t, err)
	list, err := p.client().Lanes(t.Context(), 0, "")
	require.NoError(t, err)
	path := "/console/lanes/" + list.Data[0].Lane

	for _, page := range []string{"/console/system", "/console/lanes"} {
		require.Contains(t, who.get(page).text, `href="`+path+`"`)
	}
	require.Contains(t, who.get(path).text, "It is paused, by local.")
	require.Equal(t, path+"?told=resumed", who.post(path+"/resume", nil).Header.Get("Location"))
	require.NotContains(t, who.get(path).text, "It is paused")
	require.Contains(t, who.get("/console/lanes/u_0123456789").text, "There is no lane of this name now")

	require.Contains(t, who.post("/console/lanes/%2A/pause", nil).Header.Get("Location"), "told=unsure")
	require.NotContains(t, who.get("/console/system").text, "Resume all")
	require.Equal(t, "/console/system?told=paused", who.post("/console/lanes/%2A/pause", url.Values{"sure": {"yes"}}).Header.Get("Location"))
	require.Contains(t, who.get("/console/system").text, "Resume all")
	who.post("/console/lanes/%2A/resume", nil)
	require.NotContains(t, who.get("/console/system").text, "Resume all")
	wrong := who.get("/console/lanes?cursor=wrong")
	require.Equal(t, "/console/lanes", wrong.Header.Get("Location"), "to the first page")
	require.Equal(t, http.StatusSeeOther, wrong.StatusCode)
	require.NoError(t, p.end())
}

func TestPeopleMakeAndRevokeLinksAndReadTheAudit(t *testing.T) {
	p := start(t, peoplesOptions(t, redistest.Start(t).URL()))
	boss := p.signedIn("boss")
	wrong := boss.post("/console/links", url.Values{"tenant": {"A B"}, "name": {"<i>"}, "for": {"soon"}})
	require.Equal(t, http.StatusUnprocessableEntity, wrong.StatusCode)
	require.Contains(t, wrong.text, `id="w-for"`)
	wrong = boss.post("/console/links", url.Values{"tenant": {"A B"}, "name": {"<i>"}, "for": {"2h"}})
	require.Contains(t, wrong.text, `id="w-tenant"`)
	require.Contains(t, wrong.text, `value="&lt;i&gt;"`)

	made := boss.post("/console/links", url.Values{"tenant": {"A"}, "name": {"<i>"}, "for": {"2h"}, "manage": {"yes"}})
	require.Equal(t, http.StatusOK, made.StatusCode, made.text)
	require.Equal(t, "no-store", made.Header.Get("Cache-Control"))
	path := shownLink.FindStringSubmatch(made.text)[1]
	list := boss.get("/console/links").text
	require.Contains(t, list, "&lt;i&gt;")
	require.NotContains(t, list, path)
	merchant := newPerson(t, p.api)
	require.Equal(t, http.StatusSeeOther, merchant.post(path, nil).StatusCode)
	require.Equal(t, http.StatusOK, merchant.get("/link/").StatusCode)

	id := regexp.MustCompile(`/console/links/(lnk_[a-z0-9]+)/revoke`).FindStringSubmatch(list)[1]
	require.Equal(t, "/console/links?told=revoked", boss.post("/console/links/"+id+"/revoke", nil).Header.Get("Location"))
	require.Equal(t, http.StatusNotFound, merchant.get("/link/").StatusCode)
	audit := boss.get("/console/audit?what=link.revoke").text
	require.Contains(t, audit, id)
	require.Contains(t, audit, "key:boss")
	require.NotContains(t, boss.get("/console/audit?by=key:nobody").text, id)
	require.Equal(t, "/console/audit?by=key%3Aboss", boss.get("/console/audit?by=key:boss&cursor=wrong").Header.Get("Location"), "to the first page")
	require.NoError(t, p.end())
}

func TestSystemShowsTheSettingsOfItsProcess(t *testing.T) {
	o := newTestOptions(redistest.Start(t).URL())
	o.Console.Settings = []app.Setting{{Name: "LADDER", Value: "<b>1s</b>", Source: "environment"}}
	p := start(t, o)
	page := newPerson(t, p.api).get("/console/system").text
	require.Regexp(t, `(?s)LADDER.*&lt;b&gt;1s&lt;/b&gt;.*environment`, page)
	require.Contains(t, page, "Lost if its host dies")
	require.NoError(t, p.end())
}

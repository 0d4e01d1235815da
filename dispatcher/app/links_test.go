package app_test

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher/app"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// A link leads to how people reach the process, and all of it is kept in the store.
func TestALinkLeadsToThePublicURL(t *testing.T) {
	o := newTestOptions(redistest.Start(t).URL())
	o.Console.PublicURL = &url.URL{Scheme: "https", Host: "localhost", Path: "/pay"}
	p := start(t, o)
	c, err := client.New(p.api, "")
	require.NoError(t, err)
	made, err := c.CreateLink(t.Context(), wire.LinkRequest{Tenant: "m7", Manage: true})
	require.NoError(t, err)
	require.Regexp(t, `^https://localhost/pay/link/[A-Za-z0-9_-]{43}$`, made.URL)
	var all []wire.Link
	for l, err := range c.EachLink(t.Context()) {
		require.NoError(t, err)
		all = append(all, l)
	}
	require.Len(t, all, 1)
	require.Equal(t, made.ID, all[0].ID)
	require.Equal(t, made.ExpiresAt, all[0].ExpiresAt)
	require.NoError(t, c.RevokeLink(t.Context(), made.ID))
	page, err := c.Links(t.Context(), 0, "")
	require.NoError(t, err)
	require.Empty(t, page.Data)
	var what []string
	for e, err := range c.EachAuditEntry(t.Context(), client.AuditFilter{Targets: []string{made.ID}}) {
		require.NoError(t, err)
		what = append(what, e.What+" "+e.Tenant)
	}
	require.Equal(t, []string{"link.revoke m7", "link.create m7"}, what)
	require.NoError(t, p.end())
}

func TestALinkThatLeadsNowhereIsRefusedByItsSetting(t *testing.T) {
	off := newTestOptions(redistest.Start(t).URL())
	off.Console.Off, off.Console.PublicURL = true, &url.URL{Scheme: "https", Host: "localhost"}
	for name, o := range map[string]app.Options{"PUBLIC_URL": newTestOptions(redistest.Start(t).URL()), "CONSOLE=off": off} {
		p := start(t, o)
		resp, err := http.Post(p.api+"/v1/links", "application/json", strings.NewReader(`{"tenant":"m7"}`))
		require.NoError(t, err)
		require.Equal(t, http.StatusUnprocessableEntity, resp.StatusCode)
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Contains(t, string(text), name)
		require.NoError(t, p.end())
	}
}

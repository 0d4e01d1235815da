package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

func TestALinkIsMadeListedAndRevokedByTheCommand(t *testing.T) {
	_, api, receiver := newTestDev(t, []string{"PUBLIC_URL=https://localhost"})
	env := []string{"HOOKLADDER_URL=" + api}
	c, err := client.New(api, "")
	require.NoError(t, err)
	shop, _, err := c.CreateEndpoint(t.Context(), &wire.Endpoint{UID: "shop-42", Tenant: "m7", URL: receiver})
	require.NoError(t, err)

	got := command(t, env, "", "link", "--tenant", "m7", "--for", "2d", "--manage", "--endpoint", "shop-42", "--name", "Anna")
	require.Equal(t, exitOK, got.code, got.err)
	require.Regexp(t, `^https://localhost/link/[A-Za-z0-9_-]{43}\n  id       lnk_[a-z2-7]{20}\n  expires  \S.*\n$`, got.out)
	token, _, _ := strings.Cut(strings.TrimPrefix(got.out, "https://localhost/link/"), "\n")

	got = command(t, env, "", "link", "--tenant", "m8", "--json")
	require.Equal(t, exitOK, got.code, got.err)
	var made wire.NewLink
	require.NoError(t, json.Unmarshal([]byte(got.out), &made))
	require.Contains(t, made.URL, "https://localhost/link/")

	got = command(t, env, "", "link", "list")
	require.Equal(t, exitOK, got.code, got.err)
	lines := strings.Split(strings.TrimSpace(got.out), "\n")
	require.Len(t, lines, 3)
	require.Regexp(t, `^LINK +TENANT +ENDPOINT +RIGHT +NAME +BY +EXPIRES$`, lines[0])
	require.Regexp(t, `^`+made.ID+` +m8 +all +view +- +local +\S`, lines[1])
	require.Regexp(t, `^lnk_[a-z2-7]{20} +m7 +`+shop.ID+` +manage +Anna +local +\S`, lines[2])
	require.NotContains(t, got.out, token)
	untilOffered(t, []string{made.ID}, env, "link revoke "+made.ID[:9])

	got = command(t, env, "", "link", "revoke", made.ID)
	require.Equal(t, exitOK, got.code, got.err)
	require.Equal(t, made.ID+" is revoked\n", got.out)
	require.NotContains(t, command(t, env, "", "link", "list").out, made.ID)
	got = command(t, env, "", "link", "revoke", made.ID)
	require.Equal(t, exitNotFound, got.code)

	for text, args := range map[string][]string{
		"link needs --tenant":  {"link"},
		"--for: ":              {"link", "--tenant", "m7", "--for", "soon"},
		"takes no arguments":   {"link", "m7"},
		"needs the id of one":  {"link", "revoke"},
		"list takes no argume": {"link", "list", "m7"},
	} {
		got := command(t, env, "", args...)
		require.Equal(t, exitUsage, got.code, text)
		require.Contains(t, got.err, text)
	}
	got = command(t, env, "", "link", "--tenant", "m8", "--endpoint", "shop-42")
	require.Equal(t, exitFailed, got.code)
	require.Contains(t, got.err, "--endpoint: is no endpoint of this tenant")
}

func TestAListOfLinksSaysWhichEndedWithTheirKey(t *testing.T) {
	ends := wire.Time{Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	var out strings.Builder
	printLinks(&out, []wire.Link{{ID: "lnk_1", Tenant: "m7", By: "key:ops", ExpiresAt: ends}, {ID: "lnk_2", Tenant: "m7", By: "key:leaver", ExpiresAt: ends, Ended: "key"}})
	lines := strings.Split(out.String(), "\n")
	require.NotContains(t, lines[1], "ended")
	require.Regexp(t, `lnk_2 .* key:leaver +ended: key$`, lines[2])
}

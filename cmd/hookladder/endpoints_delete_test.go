package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

func TestDeleteAsksOnATerminalAndSaysHowMuchWaits(t *testing.T) {
	_, api, receiver := newTestDev(t, nil)
	env := []string{"HOOKLADDER_URL=" + api}
	c, err := client.New(api, "")
	require.NoError(t, err)
	_, _, err = c.CreateEndpoint(t.Context(), &wire.Endpoint{UID: "shop-42", Tenant: "acme", URL: receiver})
	require.NoError(t, err)
	_, err = c.PauseEndpoint(t.Context(), "shop-42")
	require.NoError(t, err)
	for n := range 3 {
		_, err := c.Publish(t.Context(), &wire.Message{ID: fmt.Sprint("m", n), Topic: "t", Body: []byte("1"), Endpoint: "shop-42", Tenant: "acme"})
		require.NoError(t, err)
	}
	there := func() bool { _, err := c.Endpoint(t.Context(), "shop-42"); return err == nil }

	got := command(t, env, "y\n", "endpoints", "delete", "shop-42")
	require.Equal(t, exitUsage, got.code, "a pipe is no terminal")
	require.Contains(t, got.err, "pass --yes")
	require.True(t, there())

	answering := func(text string) (string, int) {
		var out bytes.Buffer
		code := run(t.Context(), world{
			args: []string{"endpoints", "delete", "shop-42"}, environ: env, in: strings.NewReader(text), out: &out, err: &out, terminal: true,
		})
		return out.String(), code
	}
	const no, end = "\n", ""
	for _, text := range []string{no, end, "n\n", "yeah\n"} {
		out, code := answering(text)
		require.Equal(t, exitFailed, code, "%q", text)
		require.Contains(t, out, "shop-42 of tenant acme, "+receiver+": 3 waiting, which are cancelled, and 0 in flight.\nDelete it? [y/N] ")
		require.Contains(t, out, "shop-42 was not deleted")
		require.True(t, there())
	}
	out, code := answering("y\n")
	require.Equal(t, exitOK, code, out)
	require.True(t, strings.HasSuffix(out, "shop-42 deleted; cancelled deliveries: 3\n"), out)
	require.False(t, there())
	m, err := c.Message(t.Context(), "m0")
	require.NoError(t, err)
	require.Equal(t, "cancelled", m.Deliveries[0].Status)

	_, _, err = c.CreateEndpoint(t.Context(), &wire.Endpoint{UID: "shop-43", URL: receiver})
	require.NoError(t, err)
	require.Equal(t, exitOK, command(t, env, "", "endpoints", "delete", "shop-43", "--yes").code)
}

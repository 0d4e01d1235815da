package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

func TestE2EDeleteAsksOnATerminalAndSaysHowMuchWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.serve()
	env := []string{"HOOKLADDER_URL=" + i.url}
	_, _, err := i.CreateEndpoint(t.Context(), &wire.Endpoint{UID: "shop-42", Tenant: "acme", URL: w.receiver.URL, Secret: w.secret.Reveal()})
	require.NoError(t, err)
	_, err = i.PauseEndpoint(t.Context(), "shop-42")
	require.NoError(t, err)
	for n := range 3 {
		i.publish(wire.Message{ID: fmt.Sprint("m", n), Endpoint: "shop-42", Tenant: "acme"})
	}
	there := func() bool { _, err := i.Endpoint(t.Context(), "shop-42"); return err == nil }

	got := mustRun(t, env, "y\n", "endpoints", "delete", "shop-42")
	require.Equal(t, exitUsage, got.code, "a pipe is no terminal")
	require.Contains(t, got.err, "give --yes")
	require.True(t, there())

	answering := func(text string) (string, int) { // in this process: not every machine has terminals to give
		var out bytes.Buffer
		code := run(t.Context(), stage{
			args: []string{"endpoints", "delete", "shop-42"}, environ: env, in: strings.NewReader(text), out: &out, err: &out, terminal: true,
		})
		return out.String(), code
	}
	const no, end = "\n", ""
	for _, text := range []string{no, end, "n\n", "yeah\n"} {
		out, code := answering(text)
		require.Equal(t, exitFailed, code, "%q", text)
		require.Contains(t, out, "shop-42 of tenant acme, "+w.receiver.URL+": 3 waiting, which are cancelled, and 0 in flight.\nDelete it? [y/N] ")
		require.Contains(t, out, "shop-42 was not deleted")
		require.True(t, there())
	}
	out, code := answering("y\n")
	require.Equal(t, exitOK, code, out)
	require.True(t, strings.HasSuffix(out, "shop-42 deleted; cancelled deliveries: 3\n"), out)
	require.False(t, there())
	i.until("m0", "cancelled")

	_, _, err = i.CreateEndpoint(t.Context(), &wire.Endpoint{UID: "shop-43", URL: w.receiver.URL, Secret: w.secret.Reveal()})
	require.NoError(t, err)
	require.Equal(t, exitOK, mustRun(t, env, "", "endpoints", "delete", "shop-43", "--yes").code)
}

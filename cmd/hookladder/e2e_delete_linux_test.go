package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

// terminal is one that a command sits at, and the hand that types.
func terminal(t *testing.T) (hand, seat *os.File) {
	t.Helper()
	hand, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = hand.Close() })
	require.NoError(t, unix.IoctlSetPointerInt(int(hand.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(hand.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	seat, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = seat.Close() })
	return hand, seat
}

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

	path, err := binary()
	require.NoError(t, err)
	answering := func(text string) (string, int) {
		hand, seat := terminal(t)
		cmd := exec.CommandContext(t.Context(), path, "endpoints", "delete", "shop-42")
		cmd.WaitDelay = time.Minute
		var out bytes.Buffer
		cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = append(env, raceAtExit), seat, &out, &out
		_, err := hand.WriteString(text)
		require.NoError(t, err)
		_ = cmd.Run() // the code says it
		return out.String(), cmd.ProcessState.ExitCode()
	}
	const no, end = "\n", "\x04"
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

package e2e_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

// lossRows are commands, and the exit codes after Redis was emptied. One that fails says that
// the store lost data, and which command helps.
var lossRows = []struct {
	command string
	code    int
}{
	{"get lost", exitFailed},
	{"why lost", exitFailed},
	{"cancel lost", exitFailed},
	{"retry lost", exitFailed},
	{"send --topic order.paid --body 1 --url URL", exitFailed},
	{"deliveries", exitFailed},
	{"deliveries --destination URL", exitFailed},
	{"dead", exitFailed},
	{"lanes", exitFailed},
	{"endpoints list", exitFailed},
	{"endpoints get shop", exitFailed},
	{"endpoints create --url URL", exitFailed},
	{"endpoints delete shop --yes", exitFailed},
	{"pause shop", exitFailed},
	{"pause URL", exitOK}, // a bare URL's lane needs nothing of what was lost
	{"resume URL", exitOK},
	{"jobs", exitFailed},
	{"link list", exitFailed},
	{"tick --server API --for 1s", exitFailed},
	{"ping", exitOK},
	{"ping --instances", exitOK},
	{"doctor", exitFailed},
	{"forget --tenant shop --yes", exitUnreachable},
	{"repartition --to 4", exitUnreachable},
}

func TestCommandsSayThatTheStoreLostData(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.serve()
	i.troubled = true
	i.publish(wire.Message{ID: "lost", URL: w.receiver.URL(0), Delay: hour})
	require.NoError(t, w.rdb.FlushAll(t.Context()).Err())
	i.refusedWith(503, "unavailable", "GET", "/v1/messages/lost", "")
	eventually(t, "all that is lost is known", func() bool { // a part of it is at once
		_, err := i.Message(t.Context(), "lost")
		return err != nil && strings.Contains(err.Error(), "the store lost its endpoints")
	})
	names := strings.NewReplacer("URL", w.receiver.URL(0), "API", i.URL)
	env := append([]string{"HOOKLADDER_URL=" + i.URL}, w.settings...)
	for _, row := range lossRows {
		got := mustRun(t, env, "", strings.Fields(names.Replace(row.command))...)
		require.Equal(t, row.code, got.code, "%s: %s%s", row.command, got.out, got.err)
		if row.code != exitOK {
			require.Contains(t, got.out+got.err, "the store lost its endpoints", row.command)
			require.Contains(t, got.out+got.err, "hookladder doctor --accept-loss gives it up", row.command)
		}
	}
}

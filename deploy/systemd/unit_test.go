// Package systemd_test checks the unit of systemd.
package systemd_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
)

// mostExposure is the highest exposure of the unit, in tenths of systemd's scale of 10.
const mostExposure = "20"

func TestTheUnitIsHardened(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "systemd-analyze", "security", "--offline=yes", "--no-pager", "--threshold="+mostExposure, "hookladder.service").CombinedOutput()
	require.NoError(t, err, string(out))
}

// A setting with a wrong name is only a warning for systemd.
func TestSystemdKnowsEachSettingOfTheUnit(t *testing.T) {
	text, err := os.ReadFile("hookladder.service")
	require.NoError(t, err)
	root := t.TempDir()
	for _, dir := range []string{"usr/bin", "bin", "etc/systemd/system"} {
		require.NoError(t, os.MkdirAll(root+"/"+dir, 0o755))
	}
	for _, program := range []string{"usr/bin/hookladder", "bin/kill"} {
		require.NoError(t, os.WriteFile(root+"/"+program, nil, 0o755))
	}
	require.NoError(t, os.WriteFile(root+"/etc/systemd/system/hookladder.service", text, 0o600))
	verify := func() string {
		out, _ := exec.CommandContext(t.Context(), "systemd-analyze", "verify", "--root="+root, "--man=no", "hookladder.service").CombinedOutput()
		return string(out)
	}
	require.NotRegexp(t, "Unknown|Failed to parse|ignoring", verify())
	wrong := strings.Replace(string(text), "WatchdogSec", "WatchdogTime", 1)
	require.NoError(t, os.WriteFile(root+"/etc/systemd/system/hookladder.service", []byte(wrong), 0o600))
	require.Contains(t, verify(), "'WatchdogTime'")
}

// The commands of the unit are commands of the program: the reload checks the settings first.
func TestTheUnitRunsCommandsThatExist(t *testing.T) {
	binary, err := kit.FastBinary()
	require.NoError(t, err)
	text, err := os.ReadFile("hookladder.service")
	require.NoError(t, err)
	require.Contains(t, string(text), "ExecReload=/usr/bin/hookladder config\nExecReload=/bin/kill -HUP $MAINPID\n")
	good := exec.CommandContext(t.Context(), binary, "config")
	good.Env = []string{"REDIS_URL=redis://127.0.0.1:1"}
	require.NoError(t, good.Run())
	wrong := exec.CommandContext(t.Context(), binary, "config")
	wrong.Env = []string{"REDIS_URL=redis://127.0.0.1:1", "API_KEYS_FILE=/nowhere"}
	require.Error(t, wrong.Run(), "nothing is reloaded then")
}

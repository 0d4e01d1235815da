//go:build ship

package release_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// systemctl takes the place of systemd's, which does not run in a changed root. It keeps the
// calls of the package's scripts.
const systemctl = `#!/bin/sh
[ "$DPKG_MAINTSCRIPT_PACKAGE" != hookladder ] || echo "$*" >>/var/log/systemctl
`

func TestDebianInstallsUpgradesAndRemovesThePackage(t *testing.T) {
	r, receiver, address := newRoot(t), newReceiver(t), freePort(t)
	r.write(t, "/usr/bin/systemctl", systemctl, 0o755)
	require.NoError(t, os.MkdirAll(r.path("/run/systemd/system"), 0o755))
	for _, version := range []string{older, newer} {
		deb, err := os.ReadFile(mustPackage(t, "deb", version, mustBuild(t, version)))
		require.NoError(t, err)
		r.write(t, "/tmp/"+version+".deb", string(deb), 0o644)
	}

	r.sh(t, "apt-get -qq update && apt-get -qq install -y /tmp/"+older+".deb")
	require.Equal(t, []string{"daemon-reload"}, r.calls(t), "to enable and to start it is up to the administrator")
	require.Regexp(t, `^hookladder `+older+` `, r.sh(t, "hookladder version"))
	require.Regexp(t, `^hookladder:x:\d+:\d+:Hookladder:/var/lib/hookladder:/usr/sbin/nologin\n$`, r.sh(t, "getent passwd hookladder"))
	require.NotEmpty(t, r.sh(t, "command -v redis-server"), "it is recommended")
	require.Equal(t, "755 root:root /etc/hookladder\n600 root:root /etc/hookladder/hookladder.env\n700 root:root /etc/hookladder/keys\n644 root:root /usr/lib/systemd/system/hookladder.service\n",
		r.sh(t, "stat -c '%a %U:%G %n' /etc/hookladder /etc/hookladder/hookladder.env /etc/hookladder/keys /usr/lib/systemd/system/hookladder.service"))

	settings := "# mine\nDATA_DIR=/var/lib/hookladder\nSIGNING_SECRET=" + secret + "\nALLOW_NETS=127.0.0.0/8\nSHUTDOWN_DELAY=0s\nLISTEN=" + address +
		"\nAPI_KEYS_FILE=/run/credentials/hookladder.service/keys_api\n"
	r.write(t, "/etc/hookladder/hookladder.env", settings, 0o600)
	r.write(t, "/etc/hookladder/keys/api", key+":admin:ops\n", 0o600)
	s := r.startUnit(t, address)
	require.Equal(t, strings.Fields(r.sh(t, "id -u hookladder")), s.processStatus(t, "Uid")[:1])
	s.deliver(t, receiver, "order_17")

	r.sh(t, "dpkg -i /tmp/"+newer+".deb")
	require.Equal(t, []string{"daemon-reload", "try-restart hookladder.service"}, r.calls(t))
	require.Equal(t, settings, r.read(t, "/etc/hookladder/hookladder.env"))
	s.stop(t)
	s = r.startUnit(t, address)
	require.NoError(t, s.delivered("order_17"), "the data are kept")
	text, err := s.call("GET", "/v1/instances", "")
	require.NoError(t, err)
	require.Contains(t, text, `"version":"`+newer+`"`)
	s.deliver(t, receiver, "order_18")

	r.sh(t, "dpkg -r hookladder")
	require.Equal(t, []string{"--no-reload stop hookladder.service", "daemon-reload"}, r.calls(t))
	s.stop(t)
	for _, gone := range []string{"/usr/bin/hookladder", "/usr/lib/systemd/system/hookladder.service", "/usr/share/doc/hookladder"} {
		require.NoFileExists(t, r.path(gone))
		require.NoDirExists(t, r.path(gone))
	}
	require.Equal(t, settings, r.read(t, "/etc/hookladder/hookladder.env"), "a removal keeps the settings")
	require.FileExists(t, r.path("/etc/hookladder/keys/api"))

	r.write(t, "/etc/systemd/system/multi-user.target.wants/hookladder.service", "", 0o644)
	require.Contains(t, r.sh(t, "dpkg -P hookladder"), "kept its data in /var/lib/hookladder and the user hookladder")
	require.NoDirExists(t, r.path("/etc/hookladder"))
	require.NoFileExists(t, r.path("/etc/systemd/system/multi-user.target.wants/hookladder.service"))
	require.Equal(t, "700 hookladder:hookladder\n", r.sh(t, "stat -c '%a %U:%G' /var/lib/hookladder"))
	require.Contains(t, r.sh(t, "dpkg -l | grep hookladder || echo none"), "none")
}

// calls returns the calls of systemctl since the last time.
func (r root) calls(t testing.TB) []string {
	t.Helper()
	text, err := os.ReadFile(r.path("/var/log/systemctl"))
	require.NoError(t, err)
	require.NoError(t, os.Remove(r.path("/var/log/systemctl")))
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// startUnit starts the program as systemd starts the installed unit.
func (r root) startUnit(t testing.TB, address string) *service {
	t.Helper()
	return start(t, r.unit(t), address)
}

// unit returns the command with which systemd starts the installed unit. It makes the folder of the
// state and copies the credentials. The program runs as the unit's user, with the settings of its file.
func (r root) unit(t testing.TB) *exec.Cmd {
	t.Helper()
	unit := r.read(t, "/usr/lib/systemd/system/hookladder.service")
	of := func(name string) string {
		m := regexp.MustCompile(`(?m)^` + name + `=(.*)$`).FindStringSubmatch(unit)
		require.NotNil(t, m, name)
		return m[1]
	}
	user, state := of("User"), "/var/lib/"+of("StateDirectory")
	id, from, _ := strings.Cut(of("LoadCredential"), ":")
	credentials := "/run/credentials/hookladder.service"
	r.sh(t, "mkdir -p "+state+" "+credentials+" && chown "+user+": "+state+" && chmod "+of("StateDirectoryMode")+" "+state)
	keys, err := filepath.Glob(r.path(from + "/*"))
	require.NoError(t, err)
	for _, file := range keys {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		to := credentials + "/" + id + "_" + filepath.Base(file)
		r.write(t, to, string(text), 0o400)
		r.sh(t, "chown "+user+": "+to)
	}
	env := []string{usualPath}
	for line := range strings.Lines(r.read(t, of("EnvironmentFile"))) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			env = append(env, line)
		}
	}
	cmd := r.command(t, place{user: user + ":" + user, strict: of("NoNewPrivileges") == "yes"},
		"/bin/sh", "-euc", "umask "+of("UMask")+"; cd "+of("WorkingDirectory")+"; exec "+of("ExecStart"))
	cmd.Env = env
	return cmd
}

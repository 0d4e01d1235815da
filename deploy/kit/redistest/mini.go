package redistest

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
)

// Mini is a miniredis. All Minis of a test binary share one process, which is built
// without the race detector (see miniserver). Kill only closes its port, so a Mini
// keeps its data.
type Mini struct {
	t       testing.TB
	address string
}

// StartMini starts a miniredis that ends with the test.
func StartMini(t testing.TB) *Mini {
	t.Helper()
	address, err := askMinis("start")
	require.NoError(t, err, "start miniredis")
	m := &Mini{t: t, address: address}
	t.Cleanup(m.Kill)
	return m
}

// URL returns the server's address.
func (m *Mini) URL() string { return "redis://" + m.address + "/0" }

// Kill closes all connections and accepts no new ones.
func (m *Mini) Kill() { m.ask("close") }

// Stop is Kill, because a Mini has no file to write.
func (m *Mini) Stop() { m.Kill() }

// Restart listens again at the same address.
func (m *Mini) Restart() { m.ask("restart") }

func (m *Mini) ask(verb string) {
	m.t.Helper()
	_, err := askMinis(verb + " " + m.address)
	require.NoError(m.t, err, "%s miniredis", verb)
}

// minis is the process that runs every miniredis of this test binary. When the test
// binary exits, its standard input is closed, and it exits too.
var minis struct {
	mu       sync.Mutex // guards the fields below, and each pair of command and reply
	err      error      // the reason if it could not be started
	commands io.Writer  // nil until the first start
	answers  *bufio.Scanner
	kill     func() error
}

func askMinis(command string) (answer string, err error) {
	minis.mu.Lock()
	defer minis.mu.Unlock()
	if minis.commands == nil && minis.err == nil {
		minis.err = startMinis()
	}
	if minis.err != nil {
		return "", minis.err
	}
	if _, err := fmt.Fprintln(minis.commands, command); err != nil {
		return "", err
	}
	hung := time.AfterFunc(kit.Patience, func() { _ = minis.kill() }) // ends the wait below
	defer hung.Stop()
	if !minis.answers.Scan() {
		return "", fmt.Errorf("miniserver ended: %w", io.ErrUnexpectedEOF)
	}
	answer = minis.answers.Text()
	if reason, failed := strings.CutPrefix(answer, "error: "); failed {
		return "", fmt.Errorf("miniserver: %s", reason)
	}
	return answer, nil
}

// startMinis builds and starts the process. The caller must have locked mu.
func startMinis() error {
	binary, err := kit.Build("./deploy/kit/redistest/miniserver")
	if err != nil {
		return err
	}
	cmd := exec.Command(binary)
	cmd.Stderr = os.Stderr
	commands, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	answers, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start miniserver: %w", err)
	}
	minis.commands, minis.answers, minis.kill = commands, bufio.NewScanner(answers), cmd.Process.Kill
	return nil
}

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

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
)

// Mini is a miniredis. All those of one test binary share a process, which is
// built without the race detector: see miniserver. It forgets nothing when it is
// killed, since only its port is closed.
type Mini struct {
	t       testing.TB
	address string
}

// StartMini runs a miniredis that ends with the test.
func StartMini(t testing.TB) *Mini {
	t.Helper()
	address, err := askMinis("start")
	require.NoError(t, err, "start miniredis")
	m := &Mini{t: t, address: address}
	t.Cleanup(m.Kill)
	return m
}

// URL is the server's address.
func (m *Mini) URL() string { return "redis://" + m.address + "/0" }

// Kill cuts all connections and accepts no more.
func (m *Mini) Kill() { m.ask("close") }

// Stop does the same: there is nothing to write.
func (m *Mini) Stop() { m.Kill() }

// Restart listens again at the same address.
func (m *Mini) Restart() { m.ask("restart") }

func (m *Mini) ask(verb string) {
	m.t.Helper()
	_, err := askMinis(verb + " " + m.address)
	require.NoError(m.t, err, "%s miniredis", verb)
}

// minis is the process in which all miniredis of this test binary run. It ends
// with the test binary, which closes its standard input by that.
var minis struct {
	mu       sync.Mutex // guards what follows, and the turns of question and answer
	err      error      // why it could not be started
	commands io.Writer  // nil: it was not started yet
	answers  *bufio.Scanner
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
	if !minis.answers.Scan() {
		return "", fmt.Errorf("miniserver ended: %w", io.ErrUnexpectedEOF)
	}
	answer = minis.answers.Text()
	if reason, failed := strings.CutPrefix(answer, "error: "); failed {
		return "", fmt.Errorf("miniserver: %s", reason)
	}
	return answer, nil
}

// startMinis builds and starts the process. mu is held.
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
	minis.commands, minis.answers = commands, bufio.NewScanner(answers)
	return nil
}

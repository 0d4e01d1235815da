package e2e_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
)

// processesOf are the processes that have a folder in their environment, or one
// of its folders as their own, and all of the given arguments.
func processesOf(t testing.TB, dir string, args ...string) (pids []int) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		environ, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "environ")) // may be another user's
		own, _ := os.Readlink(filepath.Join(filepath.Dir(file), "cwd"))
		if !bytes.Contains(environ, []byte(dir)) && !strings.HasPrefix(own, dir) {
			continue
		}
		words := bytes.Split(line, []byte{0})
		if slices.ContainsFunc(args, func(arg string) bool {
			return !slices.ContainsFunc(words, func(word []byte) bool { return string(word) == arg })
		}) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		require.NoError(t, err)
		pids = append(pids, pid)
	}
	return pids
}

// startBench starts one of a part that goes on for a while, and waits until its
// second run begins and it has a child with that argument.
func startBench(t testing.TB, part, messages, argument string) (p *kit.Process, dir string, child int) {
	t.Helper()
	environ, dir := benchEnviron(t)
	p, err := kit.Start(kit.Command{
		Name: "hookladder bench", Path: mustBinary(t), Env: environ,
		Args: []string{"bench", "--only", part, "--runs", "1000", "--messages", messages},
	})
	require.NoError(t, err)
	t.Cleanup(p.Kill)
	_, err = p.Line(t.Context(), "run 1 of")
	require.NoError(t, err)
	eventually(t, "a child", func() bool {
		for _, pid := range processesOf(t, dir, argument) {
			child = pid
		}
		return child != 0
	})
	return p, dir, child
}

// Even if what it waits for never answers.
func TestABenchThatIsInterruptedLeavesNothing(t *testing.T) {
	t.Parallel()
	p, dir, receiver := startBench(t, "limit", "400", "receiver")
	require.NoError(t, syscall.Kill(receiver, syscall.SIGSTOP))
	require.NoError(t, p.Signal(syscall.SIGINT))
	require.Equal(t, exitFailed, p.ExitCode())
	require.Contains(t, p.Output.String(), "interrupted")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left, "its files are gone")
	require.Empty(t, processesOf(t, dir))
}

func TestABenchEndsWhenWhatItMeasuresDies(t *testing.T) {
	t.Parallel()
	p, dir, receiver := startBench(t, "limit", "400", "receiver")
	require.NoError(t, syscall.Kill(receiver, syscall.SIGKILL))
	require.Equal(t, exitFailed, p.ExitCode())
	require.Contains(t, p.Output.String(), "hookladder bench receiver ended: signal: killed")
	require.Empty(t, processesOf(t, dir))
}

func TestABenchThatIsKilledTakesItsProcessesWithIt(t *testing.T) {
	t.Parallel()
	p, dir, _ := startBench(t, "through", "64", "serve")
	eventually(t, "the bench, the receiver, a store and a dispatcher", func() bool { return len(processesOf(t, dir)) == 4 })
	p.Kill()
	eventually(t, "all are gone", func() bool { return len(processesOf(t, dir)) == 0 })
}

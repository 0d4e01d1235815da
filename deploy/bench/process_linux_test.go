package main

import (
	"bytes"
	"errors"
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

// startLong starts a bench of a part that takes long, and waits until it has a child with
// that argument.
func startLong(t testing.TB, part, messages, argument string) (p *kit.Process, dir string, child int) {
	t.Helper()
	p, dir = startBench(t, "-only", part, "-runs", "1000", "-messages", messages)
	_, err := p.Line(t.Context(), "run 1 of")
	require.NoError(t, err)
	eventually(t, "a child", func() bool {
		for _, pid := range processesOf(t, dir, argument) {
			child = pid
		}
		return child != 0
	})
	return p, dir, child
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	require.NoError(t, kit.Until(t.Context(), what, func() error {
		if !ok() {
			return errors.New("not yet")
		}
		return nil
	}))
}

// Even if what it waits for never answers.
func TestABenchThatIsInterruptedLeavesNothing(t *testing.T) {
	t.Parallel()
	p, dir, receiver := startLong(t, "limit", "400", receiverArg)
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
	p, dir, receiver := startLong(t, "limit", "400", receiverArg)
	require.NoError(t, syscall.Kill(receiver, syscall.SIGKILL))
	require.Equal(t, exitFailed, p.ExitCode())
	require.Contains(t, p.Output.String(), "the receiver ended: signal: killed")
	require.Empty(t, processesOf(t, dir))
}

func TestABenchThatIsKilledTakesItsProcessesWithIt(t *testing.T) {
	t.Parallel()
	p, dir, _ := startLong(t, "through", "64", "serve")
	eventually(t, "the bench, the receiver, a store and a dispatcher", func() bool { return len(processesOf(t, dir)) == 4 })
	p.Kill()
	eventually(t, "all are gone", func() bool { return len(processesOf(t, dir)) == 0 })
}

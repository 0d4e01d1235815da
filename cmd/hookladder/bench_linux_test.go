package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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

// startBench starts one of a part that goes on for a while, and waits until it
// measures and has a child with that argument.
func startBench(t testing.TB, part, messages, argument string) (cmd *exec.Cmd, dir string, child int, ended <-chan error, said *lockedBuffer) {
	t.Helper()
	path, err := binary()
	require.NoError(t, err)
	var environ []string
	environ, dir = benchEnviron(t)
	said = &lockedBuffer{}
	cmd = exec.Command(path, "bench", "--only", part, "--runs", "1000", "--messages", messages)
	cmd.Env, cmd.Stderr = environ, said
	require.NoError(t, cmd.Start())
	over := make(chan error, 1)
	go func() {
		over <- cmd.Wait()
		close(over)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		for range over { // until it is gone
		}
	})
	require.Eventually(t, func() bool {
		running := processesOf(t, dir, argument)
		if len(running) > 0 {
			child = running[0]
		}
		return child != 0 && strings.Contains(said.String(), "run 2 of")
	}, e2eWait, 5*time.Millisecond)
	return cmd, dir, child, over, said
}

// Even if what it waits for never answers.
func TestE2EABenchThatIsInterruptedLeavesNothing(t *testing.T) {
	t.Parallel()
	cmd, dir, receiver, ended, said := startBench(t, "limit", "4000", "receiver")
	require.NoError(t, syscall.Kill(receiver, syscall.SIGSTOP))
	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	require.Error(t, <-ended)
	require.Equal(t, exitFailed, cmd.ProcessState.ExitCode())
	require.Contains(t, said.String(), "interrupted")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left, "its files are gone")
	require.Empty(t, processesOf(t, dir))
}

func TestE2EABenchEndsWhenWhatItMeasuresDies(t *testing.T) {
	t.Parallel()
	cmd, dir, receiver, ended, said := startBench(t, "limit", "4000", "receiver")
	require.NoError(t, syscall.Kill(receiver, syscall.SIGKILL))
	require.Error(t, <-ended)
	require.Equal(t, exitFailed, cmd.ProcessState.ExitCode())
	require.Contains(t, said.String(), "hookladder bench receiver ended: signal: killed")
	require.Empty(t, processesOf(t, dir))
}

func TestE2EABenchThatIsKilledTakesItsProcessesWithIt(t *testing.T) {
	t.Parallel()
	cmd, dir, _, ended, _ := startBench(t, "through", "64", "serve")
	// It, the receiver, a store and a dispatcher.
	require.Eventually(t, func() bool { return len(processesOf(t, dir)) == 4 }, e2eWait, time.Millisecond)
	require.NoError(t, cmd.Process.Signal(syscall.SIGKILL))
	require.Error(t, <-ended)
	require.Eventually(t, func() bool { return len(processesOf(t, dir)) == 0 }, e2eWait, 10*time.Millisecond)
}

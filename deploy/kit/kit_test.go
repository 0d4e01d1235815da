package kit_test

import (
	"context"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
)

func TestRestWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		require.True(t, kit.Rest(t.Context(), time.Second))
		require.Equal(t, time.Second, time.Since(start))
		require.True(t, kit.Rest(t.Context(), -time.Second))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.False(t, kit.Rest(ctx, 0))
		require.False(t, kit.Rest(ctx, time.Second))
		require.Equal(t, time.Second, time.Since(start))
	})
}

func TestAChildHeedsASignalThatItsParentIgnores(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGHUP} { // as in a background job, and under nohup
		t.Run(s.String(), func(t *testing.T) {
			signal.Ignore(s)
			t.Cleanup(func() { signal.Reset(s) })
			path, err := exec.LookPath("sleep")
			require.NoError(t, err)
			p, err := kit.Start(kit.Command{Name: "sleep", Path: path, Args: []string{"600"}})
			require.NoError(t, err)
			t.Cleanup(p.Kill)
			require.NoError(t, p.Signal(s))
			select {
			case <-p.Ended:
			case <-time.After(kit.Patience):
				t.Fatal("it ignores the signal")
			}
		})
	}
}

func TestAChildThatLeavesItsOutputOpenHasEnded(t *testing.T) {
	t.Parallel()
	p, err := kit.Start(kit.Command{Name: "sh", Path: "/bin/sh", Args: []string{"-c", "sleep 600 & echo $!"}})
	require.NoError(t, err)
	line, err := p.Line(t.Context(), "")
	require.NoError(t, err)
	pid, err := strconv.Atoi(line)
	require.NoError(t, err)
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	require.Zero(t, p.ExitCode(), "its own child still has the pipe")
}

func TestALineIsFoundWheneverItCame(t *testing.T) {
	for _, c := range []struct {
		name          string
		before, after []string
	}{
		{"before it is asked for", []string{"one\ntwo with it\n"}, nil},
		{"afterwards", []string{"one\n"}, []string{"two with it\n"}},
		{"in pieces", []string{"one\ntwo wi"}, []string{"th it", "\nthree\n"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := kit.NewOutput(8 << 10)
			write := func(texts []string) {
				for _, text := range texts {
					n, err := s.Write([]byte(text))
					require.NoError(t, err)
					require.Equal(t, len(text), n)
				}
			}
			write(c.before)
			found := s.Await("with it")
			write(c.after)
			require.Equal(t, "two with it", <-found)
		})
	}
}

func TestOfTheOutputTheLastIsKept(t *testing.T) {
	s := kit.NewOutput(8 << 10)
	for range 10_000 {
		_, _ = s.Write([]byte("a line of some length\n"))
	}
	_, _ = s.Write([]byte("the last one"))
	require.Less(t, len(s.Tail()), 10_000)
	require.True(t, strings.HasSuffix(s.Tail(), "some length\nthe last one"))
}

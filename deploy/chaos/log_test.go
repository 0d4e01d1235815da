package chaos_test

import (
	"context"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/signer"
)

// The faults of whoever reads an instance's log. No delivery depends on it, so these explain no duplicate.
// The judge needs the lines, so one hand breaks the logs and ends the instances: an instance that is
// killed would take the lines with it that wait in its memory.
const (
	logUnread = "log not read"
	logClosed = "log closed"
)

// unreadMost is for how long an instance keeps all lines in its memory, at the rates of these tests.
const unreadMost = 8 * time.Second

// leaveUnread reads nothing of an instance's log for a time, so that the pipe is full after one or two seconds.
func (b *trouble) leaveUnread(ctx context.Context, random *rand.Rand) {
	most := min(b.longest, unreadMost)
	s, time := b.slot(random), between(random, most/2, most)
	p := s.process()
	if p == nil {
		return
	}
	defer b.begins(logUnread, p.name)()
	p.log.reads.Lock()
	defer p.log.reads.Unlock()
	kit.Rest(ctx, time)
}

// closeLog closes an instance's log, and restarts the instance a little later. Its last lines are lost. So
// nothing else is broken then, nor was shortly before, and there is nothing that only they could explain.
func (b *trouble) closeLog(ctx context.Context, random *rand.Rand) {
	b.alone.Lock()
	defer b.alone.Unlock()
	s, time := b.slot(random), between(random, time.Second, 3*time.Second)
	kit.Rest(ctx, deadAfter)
	p := s.process()
	if p == nil || ctx.Err() != nil {
		return
	}
	mended := b.begins(logClosed, p.name)
	p.log.close()
	kit.Rest(ctx, time)
	mended()
	b.restart(s)
	if p.ExitCode() < 0 && !p.Killed() {
		b.fleet.t.Errorf("%s did not live on without its log: %v", p.name, p.Death())
	}
}

// close closes the pipe with the next line.
func (l *logReader) close() {
	l.reads.Lock()
	defer l.reads.Unlock()
	l.closed = true
}

// newTestLog starts a shell whose log a reader reads.
func newTestLog(t *testing.T, script string) (*logReader, *kit.Process) {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "log"))
	require.NoError(t, err)
	l := &logReader{fleet: &fleet{h: newHistory(), secret: signer.NewSecret()}, file: file}
	l.reads.Lock()
	p, err := kit.Start(kit.Command{Name: "sh", Path: "/bin/sh", Args: []string{"-c", script}, Log: l})
	require.NoError(t, err)
	t.Cleanup(p.Kill)
	t.Cleanup(func() { _ = file.Close() })
	return l, p
}

func TestALogThatIsNotReadStopsItsWriter(t *testing.T) {
	t.Parallel()
	l, p := newTestLog(t, "echo begins; head -c 1000000 /dev/zero")
	_, err := p.Line(t.Context(), "begins")
	require.NoError(t, err)
	require.False(t, p.Gone(), "a pipe has no room for so much")
	l.reads.Unlock()
	require.Zero(t, p.ExitCode())
	size, err := l.file.Seek(0, io.SeekEnd)
	require.NoError(t, err)
	require.EqualValues(t, 1_000_000+len("begins\n"), size, "all of it comes later")
}

func TestAClosedLogIsAClosedPipe(t *testing.T) {
	t.Parallel()
	l, p := newTestLog(t, "while echo line; do :; done")
	l.closed = true
	l.reads.Unlock()
	require.NotZero(t, p.ExitCode(), "SIGPIPE or the error of a write ends it")
	size, err := l.file.Seek(0, io.SeekEnd)
	require.NoError(t, err)
	require.Zero(t, size)
}

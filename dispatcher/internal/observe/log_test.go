package observe_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/internal/observe"
)

// pipe is where the lines of a test go. It blocks while it has no reader.
type pipe struct {
	text   bytes.Buffer
	reads  chan struct{} // closed: somebody reads; nil: always
	broken error
}

func (p *pipe) Write(b []byte) (int, error) {
	if p.reads != nil {
		<-p.reads
	}
	if p.broken != nil {
		return 0, p.broken
	}
	return p.text.Write(b)
}

// newTestQueue returns a queue in front of a handler without times.
func newTestQueue(p *pipe, level slog.Level) *observe.Log {
	return observe.NewLog(slog.NewTextHandler(p, &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

// flood logs lines until some were dropped.
func flood(q *observe.Log, dropped int64) (logged int) {
	for text := strings.Repeat("x", 1<<10); q.Dropped() < dropped; logged++ {
		q.Logger().Info("flood", "n", logged, "text", text)
	}
	return logged
}

func TestLinesAreWrittenInTheirOrder(t *testing.T) {
	var p pipe
	q := newTestQueue(&p, slog.LevelInfo)
	log := q.Logger().With("part", "a").WithGroup("of")
	want := ""
	for n := range 100 {
		log.Info("line", "n", n)
		want += fmt.Sprintf("level=INFO msg=line part=a of.n=%d\n", n)
	}
	log.Debug("not wanted")
	q.Flush(time.Minute)
	require.Equal(t, want, p.text.String())
	require.Zero(t, q.Dropped())
}

func TestALogWithoutAReaderBlocksNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pipe{reads: make(chan struct{})}
		q := newTestQueue(&p, slog.LevelInfo)
		logged := flood(q, 7)
		require.Greater(t, logged, 1000, "a burst is kept")
		q.Flush(time.Second) // returns although nobody reads
		close(p.reads)
		q.Flush(time.Minute)
		lines := strings.Split(strings.TrimSpace(p.text.String()), "\n")
		require.Len(t, lines, logged-7+1)
		require.Contains(t, lines[0], "n=0 ")
		require.Contains(t, lines[logged-8], fmt.Sprintf("n=%d ", logged-8))
		require.Equal(t, `level=WARN msg="log lines were dropped: the reader of the log is too slow, or was gone" lines=7`, lines[logged-7])

		q.Logger().Info("after")
		q.Flush(time.Minute)
		require.True(t, strings.HasSuffix(p.text.String(), "level=INFO msg=after\n"))
		require.EqualValues(t, 7, q.Dropped())
	})
}

func TestDroppedLinesAreReportedWhereTheyAreMissing(t *testing.T) {
	p := pipe{broken: errors.New("broken pipe")}
	q := newTestQueue(&p, slog.LevelInfo)
	for range 3 {
		q.Logger().Info("lost")
		q.Flush(time.Minute)
	}
	require.EqualValues(t, 3, q.Dropped())
	p.broken = nil
	q.Logger().Info("after")
	q.Flush(time.Minute)
	require.Equal(t, "level=WARN msg=\"log lines were dropped: the reader of the log is too slow, or was gone\" lines=3\nlevel=INFO msg=after\n", p.text.String())
	require.EqualValues(t, 3, q.Dropped())
}

func TestALogOfErrorsAloneHasNoLineAboutDroppedOnes(t *testing.T) {
	p := pipe{broken: errors.New("broken pipe")}
	q := newTestQueue(&p, slog.LevelError)
	q.Logger().Error("lost")
	q.Flush(time.Minute)
	p.broken = nil
	q.Logger().Error("after")
	q.Flush(time.Minute)
	require.Equal(t, "level=ERROR msg=after\n", p.text.String())
	require.EqualValues(t, 1, q.Dropped())
}

// nilError has a method that fails for a nil pointer.
type nilError struct{ text string }

func (e *nilError) Error() string { return e.text }

func TestLongTextsAreCut(t *testing.T) {
	var p pipe
	q := newTestQueue(&p, slog.LevelInfo)
	var none *nilError
	long := strings.Repeat("ä", 1<<20)
	q.Logger().LogAttrs(context.Background(), slog.LevelInfo, long, slog.String("a", long), slog.Any("b", errors.New(long)), slog.Any("c", none), slog.Int("d", 7))
	q.Flush(time.Minute)
	require.Less(t, p.text.Len(), 40<<10)
	require.True(t, strings.HasSuffix(p.text.String(), " d=7\n"))
	require.Equal(t, 3, strings.Count(p.text.String(), "ä..."))
}

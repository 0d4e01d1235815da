package redisqtest

import (
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

// ReadLog reads all matching lines of the log, in pages of limit lines.
func (r *Rig) ReadLog(f dispatcher.LogFilter, limit int) (all []dispatcher.Logged) {
	r.Helper()
	cursor := ""
	for range 1000 {
		page, err := r.Queue.ReadLog(r.Ctx, f, limit, cursor)
		require.NoError(r, err)
		require.LessOrEqual(r, len(page.Lines), limit)
		all = append(all, page.Lines...)
		if cursor = page.Next; cursor == "" {
			return all
		}
	}
	r.Fatal("the log never ends")
	return nil
}

// MustLog reads the matching log lines. It fails the case unless they are
// these, the newest first.
func (r *Rig) MustLog(f dispatcher.LogFilter, want ...dispatcher.Happening) []dispatcher.Logged {
	r.Helper()
	lines := r.ReadLog(f, 10)
	got := make([]dispatcher.Happening, len(lines))
	for i := range lines {
		got[i] = lines[i].Happening
	}
	require.Equal(r, append([]dispatcher.Happening{}, want...), got)
	return lines
}

package dispatcher_test

import (
	"encoding/base64"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

const testMS = int64(1_700_000_000_000)

// newTestPosition is one of five partitions: busy, read in part, quiet, far behind, and
// one where never anything was.
func newTestPosition() dispatcher.LogPosition {
	return dispatcher.LogPosition{Store: 7, Marks: []dispatcher.LogMark{
		{MS: testMS, Seq: 3, Before: testMS},
		{MS: testMS - 2000, Seq: 1, Lines: 5},
		{MS: testMS - 3_600_000, Seq: 9, Before: testMS - 1},
		{MS: testMS - 3_600_000, Seq: 9, Before: testMS - 3_000_000},
		{Before: testMS - 2},
	}}
}

func TestAPositionInTheLogIsReadAsItWasWritten(t *testing.T) {
	p := newTestPosition()
	got, err := dispatcher.ParseLogPosition(p.String())
	require.NoError(t, err)
	require.EqualValues(t, 7, got.Store)
	from := testMS - 5000
	require.Equal(t, []dispatcher.LogMark{
		{MS: testMS, Seq: 3},
		{MS: testMS - 2000, Seq: 1, Lines: 5},
		{MS: from, Before: from}, // nothing happened there since
		{MS: testMS - 3_600_000, Seq: 9},
		{MS: from, Before: from},
	}, got.Marks)
	again, err := dispatcher.ParseLogPosition(got.String())
	require.NoError(t, err)
	require.Equal(t, got, again)
}

func TestAPositionIsShortEnoughForAHeader(t *testing.T) {
	p := dispatcher.LogPosition{Store: math.MaxUint32, Marks: make([]dispatcher.LogMark, 1024)}
	for n := range p.Marks {
		p.Marks[n] = dispatcher.LogMark{MS: testMS - int64(n)*4, Seq: 100, Lines: 3}
	}
	require.Less(t, len(p.String()), 8<<10)
	for n := range p.Marks {
		p.Marks[n] = dispatcher.LogMark{MS: testMS - 1_000_000, Before: testMS}
	}
	require.Less(t, len(p.String()), 40, "where little happens")
}

func TestAPositionMovesOn(t *testing.T) {
	p := newTestPosition()
	at := dispatcher.LogPlace{MS: testMS - 2000, Partition: 1, Seq: 1, Line: 4}
	require.True(t, p.Read(at))
	at.Line = 5
	require.False(t, p.Read(at))
	before := p.Clone()
	p.Pass(at)
	require.True(t, p.Read(at))
	require.False(t, before.Read(at))

	before.Reach(p)
	require.Equal(t, p, before)
	whole := p.Clone()
	whole.Marks[1].Lines = 0
	whole.Reach(p)
	require.Zero(t, whole.Marks[1].Lines, "it was further")
	require.False(t, p.Read(dispatcher.LogPlace{MS: 1, Partition: 5}), "there is no such partition")
}

func TestAPositionThatIsNoneIsRefused(t *testing.T) {
	good := newTestPosition().String()
	raw, err := base64.RawURLEncoding.DecodeString(good)
	require.NoError(t, err)
	for name, b := range map[string][]byte{
		"empty": {}, "short": raw[:4], "cut": raw[:len(raw)-1], "of another version": append([]byte{2}, raw[1:]...),
		"too many partitions": {1, 0, 0, 0, 7, 0x81, 0x08, 1}, "no partition": {1, 0, 0, 0, 7, 0, 1},
		"more marks than partitions": {1, 0, 0, 0, 7, 1, 9, 0, 1, 1, 1, 0, 1, 1, 1},
		"a mark after the newest":    {1, 0, 0, 0, 7, 1, 9, 0, 10, 1, 1},
	} {
		_, err := dispatcher.ParseLogPosition(base64.RawURLEncoding.EncodeToString(b))
		require.ErrorIs(t, err, dispatcher.ErrCursor, name)
	}
	for _, text := range []string{good + "=", good + "\n", "1-2", "~", good[:len(good)-1] + "!"} {
		_, err := dispatcher.ParseLogPosition(text)
		require.ErrorIs(t, err, dispatcher.ErrCursor, text)
	}
}

func FuzzLogPosition(f *testing.F) {
	f.Add(newTestPosition().String())
	f.Add("AQAAAAcBAQ")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := dispatcher.ParseLogPosition(text)
		if err != nil {
			return
		}
		again, err := dispatcher.ParseLogPosition(p.String())
		require.NoError(t, err)
		require.Len(t, again.Marks, len(p.Marks))
		require.Equal(t, again.String(), p.String())
	})
}

package read_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/read"
)

func outcome(lane dispatcher.Lane, n int, answer string) *dispatcher.Settlement {
	return &dispatcher.Settlement{
		ID: dispatcher.DeliveryID{Lane: lane, Message: fmt.Sprint("m", n)}, Verdict: dispatcher.Delivered,
		Attempt: dispatcher.Attempt{
			Number: n + 1, At: time.UnixMilli(1_700_000_000_000 - int64(n)).UTC(), Duration: time.Duration(n) * time.Microsecond,
			Status: 200, Address: "192.0.2.1:443", URL: "https://a.example/", Excerpt: []byte(answer), Resend: n%2 == 1,
		},
	}
}

func TestEvidenceIsReadAsItWasWritten(t *testing.T) {
	var log read.LogEntry
	var want []dispatcher.Attempt
	for n := range 150 {
		o := outcome(dispatcher.Lane(fmt.Sprint("lane", n%3)), n, []string{"ok", "two\nlines", ""}[n/7%3])
		want = append(want, o.Attempt)
		if len(o.Attempt.Excerpt) == 0 {
			want[n].Excerpt = nil
		}
		log.Add(o, "d", "-")
	}
	args := log.Args(0)
	require.Equal(t, 3, args[0], "entries of 64 lines at most")
	var got []dispatcher.Attempt
	for i := 1; i < len(args); i += 3 {
		lines := args[i].(int)
		require.LessOrEqual(t, lines, 64)
		got = append(got, read.ReadAttempts(string(args[i+1].([]byte)), strings.Repeat("1", lines), string(args[i+2].([]byte)))...)
	}
	require.Equal(t, want, got)
}

func TestAnEntryStaysSmall(t *testing.T) {
	var log read.LogEntry
	for n := range 64 {
		o := outcome("a", n, strings.Repeat(fmt.Sprint(n%10), 1000))
		o.Attempt.Error = strings.Repeat("e", 5000)
		log.Add(o, "d", "-")
	}
	args := log.Args(0)
	for i := 1; i < len(args); i += 3 {
		require.Less(t, len(args[i+1].([]byte))+len(args[i+2].([]byte)), 17<<10)
	}
}

func TestTheJobsOfAnEntryAreReadByTheirRuns(t *testing.T) {
	for text, want := range map[string][]int64{
		"":                      {0, 0, 0, 0},
		"0 4 7":                 {7, 7, 7, 7},
		"0 1 7 1 2 12 3 1 7":    {7, 12, 12, 7},
		"1 1 7":                 {0, 7, 0, 0},
		"2 9000000000 7":        {0, 0, 7, 7},
		"-1 2 7":                {7, 0, 0, 0},
		"1 1 7 nonsense 1 3":    {0, 7, 0, 0},
		"9000000000000 1 7 1 1": {0, 0, 0, 0},
	} {
		lines := strings.TrimSuffix(strings.Repeat("a:m d 200 1 1 -\n", 4), "\n")
		require.Equal(t, want, read.ReadAttemptJobs(lines, text), text)
	}
	require.Equal(t, []int64{7, 9}, read.ReadAttemptJobs("a:m d 200 1 1 -\nbroken\na:m d 200 1 1 -", "0 2 7 2 1 9"), "a line that can't be read keeps its place")
}

func FuzzEvidence(f *testing.F) {
	var log read.LogEntry
	log.Add(outcome("a", 0, "ok"), "d", "-")
	log.Add(outcome("a", 1, "ok"), "d", "-")
	args := log.Args(0)
	f.Add(string(args[2].([]byte)), string(args[3].([]byte)))
	f.Add("a:m d 200 1 1 -", "\x01\x00")
	f.Fuzz(func(t *testing.T, lines, evidence string) {
		require.LessOrEqual(t, len(read.ReadAttempts(lines, "1", evidence)), strings.Count(lines, "\n")+1)
	})
}

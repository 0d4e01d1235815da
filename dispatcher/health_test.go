package dispatcher_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

func TestDurationsHaveQuantiles(t *testing.T) {
	var d dispatcher.Durations
	at, more := d.Quantile(0.95)
	require.Zero(t, at)
	require.False(t, more)
	for range 95 {
		d.Add(10 * time.Millisecond)
	}
	for range 4 {
		d.Add(11 * time.Millisecond)
	}
	d.Add(time.Minute)
	require.EqualValues(t, 100, d.Total())
	for q, want := range map[float64]time.Duration{0: 10 * time.Millisecond, 0.5: 10 * time.Millisecond, 0.94: 10 * time.Millisecond, 0.98: 50 * time.Millisecond} {
		at, more := d.Quantile(q)
		require.Equal(t, want, at, "%v", q)
		require.False(t, more)
	}
	at, more = d.Quantile(0.99)
	require.Equal(t, 5*time.Second, at)
	require.True(t, more)
	d.Merge(d)
	require.EqualValues(t, 200, d.Total())
}

func TestFailuresAreCountedByWhatWentWrong(t *testing.T) {
	known := map[dispatcher.Class]bool{}
	for _, c := range []struct {
		class    dispatcher.Class
		status   int
		want     dispatcher.Failures
		answered bool
	}{
		{dispatcher.ClassStatus, 404, dispatcher.Failures{Refused: 1}, true},
		{dispatcher.ClassStatus, 302, dispatcher.Failures{Refused: 1}, true},
		{dispatcher.ClassStatus, 499, dispatcher.Failures{Refused: 1}, true},
		{dispatcher.ClassStatus, 500, dispatcher.Failures{Server: 1}, true},
		{dispatcher.ClassBody, 200, dispatcher.Failures{Refused: 1}, true},
		{dispatcher.ClassHandler, 0, dispatcher.Failures{Refused: 1}, true},
		{dispatcher.ClassTimeout, 0, dispatcher.Failures{Timeout: 1}, false},
		{dispatcher.ClassConnect, 0, dispatcher.Failures{Connect: 1}, false},
		{dispatcher.ClassReset, 0, dispatcher.Failures{Connect: 1}, false},
		{dispatcher.ClassTLS, 0, dispatcher.Failures{TLS: 1}, false},
		{dispatcher.ClassDNS, 0, dispatcher.Failures{DNS: 1}, false},
		{dispatcher.ClassProtocol, 0, dispatcher.Failures{Connect: 1}, false},
		{dispatcher.ClassRefused, 0, dispatcher.Failures{Connect: 1}, false},
		{dispatcher.ClassInternal, 0, dispatcher.Failures{Internal: 1}, false},
		{dispatcher.ClassLease, 0, dispatcher.Failures{Internal: 1}, false},
		{dispatcher.ClassExpired, 0, dispatcher.Failures{Internal: 1}, false},
		{dispatcher.ClassEgress, 0, dispatcher.Failures{Internal: 1}, false},
	} {
		known[c.class] = true
		var f dispatcher.Failures
		f.Add(&dispatcher.Attempt{Class: c.class, Status: c.status})
		require.Equal(t, c.want, f, "%v", c)
		require.EqualValues(t, 1, f.Total())
		require.Equal(t, c.answered, dispatcher.ReceiverAnswered(c.class), "%v", c)
	}
	require.True(t, dispatcher.ReceiverAnswered(dispatcher.ClassNone))
	for _, class := range dispatcher.Classes() {
		require.True(t, known[class], "say here as what %s counts", class)
	}
}

func TestFiguresOfTheSameTimeAreMerged(t *testing.T) {
	m := dispatcher.Minute{Accepted: 1, Delivered: 2, Failed: 3, Dead: 4, Late: dispatcher.Durations{1, 2}}
	m.Merge(m)
	require.Equal(t, dispatcher.Minute{Accepted: 2, Delivered: 4, Failed: 6, Dead: 8, Late: dispatcher.Durations{2, 4}}, m)
	require.True(t, m.Moved())
	require.True(t, (&dispatcher.Minute{Dead: 1}).Moved())
	require.False(t, (&dispatcher.Minute{At: time.Now()}).Moved())
	b := dispatcher.Bar{Delivered: 1, Failed: dispatcher.Failures{Refused: 1, Server: 2, Timeout: 3, Connect: 4, TLS: 5, DNS: 6, Internal: 7}, Took: dispatcher.Durations{7: 1}}
	b.Merge(b)
	require.Equal(t, dispatcher.Bar{Delivered: 2, Failed: dispatcher.Failures{Refused: 2, Server: 4, Timeout: 6, Connect: 8, TLS: 10, DNS: 12, Internal: 14}, Took: dispatcher.Durations{7: 2}}, b)
}

package health_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/health"
)

func TestDurationsHaveQuantiles(t *testing.T) {
	var d health.Durations
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
		want     health.Failures
		answered bool
	}{
		{dispatcher.ClassStatus, 404, health.Failures{Refused: 1}, true},
		{dispatcher.ClassStatus, 302, health.Failures{Refused: 1}, true},
		{dispatcher.ClassStatus, 499, health.Failures{Refused: 1}, true},
		{dispatcher.ClassStatus, 500, health.Failures{Server: 1}, true},
		{dispatcher.ClassBody, 200, health.Failures{Refused: 1}, true},
		{dispatcher.ClassHandler, 0, health.Failures{Refused: 1}, true},
		{dispatcher.ClassTimeout, 0, health.Failures{Timeout: 1}, false},
		{dispatcher.ClassConnect, 0, health.Failures{Connect: 1}, false},
		{dispatcher.ClassReset, 0, health.Failures{Connect: 1}, false},
		{dispatcher.ClassTLS, 0, health.Failures{TLS: 1}, false},
		{dispatcher.ClassDNS, 0, health.Failures{DNS: 1}, false},
		{dispatcher.ClassProtocol, 0, health.Failures{Connect: 1}, false},
		{dispatcher.ClassRefused, 0, health.Failures{Connect: 1}, false},
		{dispatcher.ClassInternal, 0, health.Failures{Internal: 1}, false},
		{dispatcher.ClassLease, 0, health.Failures{Internal: 1}, false},
		{dispatcher.ClassExpired, 0, health.Failures{Internal: 1}, false},
		{dispatcher.ClassEgress, 0, health.Failures{Internal: 1}, false},
	} {
		known[c.class] = true
		var f health.Failures
		f.Add(&dispatcher.Attempt{Class: c.class, Status: c.status})
		require.Equal(t, c.want, f, "%v", c)
		require.EqualValues(t, 1, f.Total())
		require.Equal(t, c.answered, health.Answered(c.class), "%v", c)
	}
	require.True(t, health.Answered(dispatcher.ClassNone))
	for _, class := range dispatcher.Classes {
		require.True(t, known[class], "say here as what %s counts", class)
	}
}

func TestFiguresOfTheSameTimeAreMerged(t *testing.T) {
	m := health.Minute{Accepted: 1, Delivered: 2, Failed: 3, Dead: 4, Late: health.Durations{1, 2}}
	m.Merge(m)
	require.Equal(t, health.Minute{Accepted: 2, Delivered: 4, Failed: 6, Dead: 8, Late: health.Durations{2, 4}}, m)
	require.True(t, m.Moved())
	require.True(t, (&health.Minute{Dead: 1}).Moved())
	require.False(t, (&health.Minute{At: time.Now()}).Moved())
	b := health.Bar{Delivered: 1, Failed: health.Failures{Refused: 1, Server: 2, Timeout: 3, Connect: 4, TLS: 5, DNS: 6, Internal: 7}, Took: health.Durations{7: 1}}
	b.Merge(b)
	require.Equal(t, health.Bar{Delivered: 2, Failed: health.Failures{Refused: 2, Server: 4, Timeout: 6, Connect: 8, TLS: 10, DNS: 12, Internal: 14}, Took: health.Durations{7: 2}}, b)
}

package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

func TestAProgressLineTellsWhatIsKnown(t *testing.T) {
	job := func(state string, matched, done int) wire.Job {
		return wire.Job{ID: "job_7", State: state, Matched: matched, Done: done}
	}
	for want, got := range map[string]string{
		"job_7 [============            ] 50 of 100, running":       jobProgress(job("running", 50, 50), 100, 0, 0),
		"job_7 [============            ] 50 of 100, 25/s, waiting": jobProgress(job("waiting", 60, 50), 100, 0, 2*time.Second),
		"job_7 1,754 so far, running":                               jobProgress(job("running", 1754, 1754), 0, 0, 0), // how many there are it does not know
		"job_7 [========================] 1,754 of 1,754, done":     jobProgress(job("done", 1754, 1754), 0, 0, 0),
		"job_7 [========================] 0 of 0, done":             jobProgress(job("done", 0, 0), 100, 0, 0),
		"job_7 [========================] 120 of 120, running":      jobProgress(job("running", 120, 120), 100, 0, 0),
	} {
		require.Equal(t, want, got)
	}
}

func TestTheFilterOfAJobIsShownWhole(t *testing.T) {
	at := wire.Time{Time: time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)}
	require.Equal(t, "dead_reason=gone destination=u_1 failed since=2026-01-31T12:00:00Z status=dead,cancelled subject=order 7 tenant=m7 topic=a.* until=2026-01-31T12:00:00Z",
		jobFilterText(wire.JobFilter{
			Status: []string{"dead", "cancelled"}, Topic: []string{"a.*"}, Tenant: []string{"m7"}, Subject: []string{"order 7"}, Failed: true,
			Destination: []string{"u_1"}, DeadReason: []string{"gone"}, Since: at, Until: at,
		}))
}

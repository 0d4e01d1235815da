package dispatcher_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

// What an answer means for its lane.

func TestOnlyTroubleOfTheReceiverIsBlamed(t *testing.T) {
	classes := map[dispatcher.Class]bool{
		dispatcher.ClassNone:    false, // a sender that says nothing: our own fault
		dispatcher.ClassTimeout: true, dispatcher.ClassConnect: true, dispatcher.ClassReset: true, dispatcher.ClassTLS: true,
		dispatcher.ClassDNS: true, dispatcher.ClassProtocol: true,
		dispatcher.ClassRefused: false, dispatcher.ClassExpired: false, dispatcher.ClassInternal: false,
		dispatcher.ClassLease: false, dispatcher.ClassHandler: false, dispatcher.ClassEgress: false,
		dispatcher.ClassStatus: false, dispatcher.ClassBody: false, // by the status, see below
	}
	require.ElementsMatch(t, append(dispatcher.Classes(), dispatcher.ClassNone), slices.Collect(maps.Keys(classes)))
	for class, want := range classes {
		t.Run("no answer, class "+string(class), func(t *testing.T) {
			o := dispatcher.Judge(newTestCase(t, dispatcher.Answer{Class: class, Err: errors.New("no")}))
			require.Equal(t, want, o.Blame)
			require.NotEqual(t, dispatcher.Delivered, o.Verdict)
		})
	}
	statuses := []struct {
		status  int
		success string
		body    string
		want    bool
	}{
		{status: 200}, {status: 204}, {status: 101}, {status: 302}, {status: 400}, {status: 401}, {status: 404}, {status: 408},
		{status: 410}, {status: 429}, {status: 499},
		{status: 500, want: true}, {status: 502, want: true}, {status: 503, want: true}, {status: 599, want: true}, {status: 799, want: true},
		{status: 500, success: "*"},
		{status: 200, success: "204"},
		{status: 200, success: `{"body":"success"}`, body: "fail"},
		{status: 404, success: `{"status":["*"],"body":"success"}`, body: "not found"},
		{status: 502, success: `{"status":["*"],"body":"success"}`, body: "<h1>Bad Gateway</h1>", want: true},
		{status: 502, success: `{"status":["*"],"body":"success"}`, body: "success"},
	}
	for _, s := range statuses {
		t.Run(fmt.Sprintf("status %d of %q with %q", s.status, s.success, s.body), func(t *testing.T) {
			c := newTestCase(t, dispatcher.Answer{Status: s.status, Body: []byte(s.body)})
			if s.success != "" {
				c.Success = mustRule(t, s.success)
			}
			for c.Rung = 1; c.Rung <= 4; c.Rung++ { // also where no rung is left
				require.Equal(t, s.want, dispatcher.Judge(c).Blame)
			}
		})
	}
}

func TestALaneIsPausedByWhatAReceiverMayAskFor(t *testing.T) {
	cases := []struct {
		name    string
		status  int
		header  string
		success string
		want    time.Duration
	}{
		{"too many requests", 429, "120", "", 2 * time.Minute},
		{"unavailable", 503, "7", "", 7 * time.Second},
		{"a date", 429, judgedAt.Add(time.Hour).Format("Mon, 02 Jan 2006 15:04:05 GMT"), "", time.Hour},
		{"more than a day", 503, "9999999", "", 24 * time.Hour},
		{"nothing asked for", 429, "", "", 0},
		{"rubbish", 503, "soon", "", 0},
		{"a date that has passed", 429, judgedAt.Add(-time.Hour).Format("Mon, 02 Jan 2006 15:04:05 GMT"), "", 0},
		{"another failure", 500, "120", "", 0},
		{"gone", 410, "120", "", 0},
		{"a redirect", 301, "120", "", 0},
		{"a success", 200, "120", "", 0},
		{"a success by that status", 429, "120", "*", 0},
		{"that status with another body than asked for", 503, "120", `{"status":["*"],"body":"success"}`, 2 * time.Minute},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			c := newTestCase(t, dispatcher.Answer{Status: tc.status, RetryAfter: tc.header})
			if tc.success != "" {
				c.Success = mustRule(t, tc.success)
			}
			require.Equal(t, tc.want, dispatcher.Judge(c).Pause)
			c.Rung = 4
			require.Equal(t, tc.want, dispatcher.Judge(c).Pause, "also on the last rung: its lane has others")
		})
	}
}

package console_test

import (
	"cmp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/console"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

func TestHowAnEndpointStands(t *testing.T) {
	until := wire.Time{Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	disabled := func(reason string) wire.EndpointView {
		return wire.EndpointView{State: "disabled", DisabledReason: reason}
	}
	for name, c := range map[string]struct {
		lane            wire.LaneState
		endpoint        wire.EndpointView
		link            bool
		text, cure      string
		mark            string
		pauses, resumes bool
	}{
		"active":                            {wire.LaneState{State: "active"}, wire.EndpointView{State: "active"}, false, "", "", "", true, false},
		"paused by a person":                {wire.LaneState{State: "paused", By: "ops"}, wire.EndpointView{State: "paused"}, false, "paused, by ops", "press Resume", "held", false, true},
		"paused, to a merchant":             {wire.LaneState{State: "paused"}, wire.EndpointView{State: "paused"}, true, "It is paused.", "press Resume", "held", false, true},
		"all are paused":                    {wire.LaneState{State: "paused", Why: "all"}, wire.EndpointView{State: "active"}, false, "Everything is paused", "“Resume all” in System", "held", false, false},
		"all are paused, to a merchant":     {wire.LaneState{State: "paused", Why: "all"}, wire.EndpointView{State: "active"}, true, "by the operator", "", "held", false, false},
		"an open breaker":                   {wire.LaneState{State: "open", Fails: 20, Until: until}, wire.EndpointView{State: "open"}, false, "after 20 failures in a row", "Mend the receiver", "", true, true},
		"one failure":                       {wire.LaneState{State: "open", Fails: 1}, wire.EndpointView{State: "open"}, false, "after 1 failure in a row", "Mend", "", true, true},
		"failing":                           {wire.LaneState{State: "failing"}, wire.EndpointView{State: "active"}, false, "No attempt succeeded", "Mend", "", true, true},
		"a receiver that asked for a break": {wire.LaneState{State: "limited", Why: "retry_after"}, wire.EndpointView{State: "active"}, false, "Retry-After", "Resume", "", true, true},
		"a rate":                            {wire.LaneState{State: "limited", Why: "rate", Rate: "5/s", Until: until}, wire.EndpointView{State: "active"}, false, "rate of 5/s", "", "", true, false},
		"sealed":                            {wire.LaneState{State: "limited", Why: "sealed"}, wire.EndpointView{State: "active"}, false, "secrets", "ENCRYPTION_KEY", "", true, false},
		"sealed, to a merchant":             {wire.LaneState{State: "limited", Why: "sealed"}, wire.EndpointView{State: "active"}, true, "secrets", "", "", true, false},
		"gone":                              {wire.LaneState{State: "disabled"}, disabled("gone"), true, "410", "press Resume", "lost", false, true},
		"failed for too long":               {wire.LaneState{State: "disabled"}, disabled("failing"), false, "too long", "Mend", "lost", false, true},
		"disabled by a person":              {wire.LaneState{State: "disabled"}, disabled("operator"), false, "A person disabled it", "press Resume", "lost", false, true},
		"disabled, to a merchant":           {wire.LaneState{State: "disabled"}, disabled("operator"), true, "The operator disabled it", "Ask them", "lost", false, false},
		"unverified":                        {wire.LaneState{State: "paused"}, wire.EndpointView{State: "unverified"}, true, "waits for a successful test", "Send a test", "held", false, false},
		"unverified, to its operator":       {wire.LaneState{State: "paused"}, wire.EndpointView{State: "unverified"}, false, "waits for a successful test", "Send a test", "held", false, true},
		"deleted":                           {wire.LaneState{State: "deleted"}, wire.EndpointView{}, false, "deleted", "", "", false, false},
	} {
		s := console.EndpointSentence(c.lane, c.endpoint, c.link)
		if c.text == "" {
			require.Empty(t, s.Text, name)
		}
		require.Contains(t, s.Text, c.text, name)
		if c.cure == "" {
			require.Empty(t, s.Cure, name)
		}
		require.Regexp(t, "(?i)"+c.cure, s.Cure, name)
		require.Equal(t, c.mark, s.Mark, name)
		require.Equal(t, []bool{c.pauses, c.resumes}, []bool{s.Pauses, s.Resumes}, name)
	}
	require.Equal(t, until, console.SentenceOf(wire.LaneState{State: "open", Until: until}, false).Until)
	require.Zero(t, console.SentenceOf(wire.LaneState{State: "limited", Why: "rate", Until: until}, false).Until, "it changes all the time")
}

// A new state or reason needs a sentence here.
func TestEachWordOfALaneHasASentence(t *testing.T) {
	text := func(state, why string) string {
		return console.SentenceOf(wire.LaneState{State: state, Why: why, Fails: 1, Rate: "1/s"}, false).Text
	}
	for _, state := range append(dispatcher.LaneStates(), dispatcher.EndpointStates()...) {
		if state != dispatcher.StateActive && state != dispatcher.StateLimited {
			require.NotEmpty(t, text(string(state), ""), state)
		}
	}
	for _, why := range dispatcher.DisabledWhys() {
		if why != dispatcher.WhyOperator {
			require.NotEqual(t, text("disabled", ""), text("disabled", string(why)), why)
		}
	}
	// The reasons of the other states are those states themselves.
	of := map[dispatcher.LaneWhy]string{
		dispatcher.WhyPaused: "paused", dispatcher.WhyUnverified: "unverified", dispatcher.WhyAll: "paused", dispatcher.WhyOperator: "disabled",
		dispatcher.WhyGone: "disabled", dispatcher.WhyFailing: "disabled", dispatcher.WhyDeleted: "deleted", dispatcher.WhyBreaker: "open",
	}
	for _, why := range dispatcher.LaneWhys() {
		require.NotEmpty(t, text(cmp.Or(of[why], "limited"), string(why)), why)
	}
}

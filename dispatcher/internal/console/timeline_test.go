package console_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/console"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/ladder"
)

var timelineNoon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func timelineAt(d time.Duration) wire.Time { return wire.Time{Time: timelineNoon.Add(d)} }

func attempt(n int, begun time.Duration, outcome string, next time.Duration) wire.Attempt {
	a := wire.Attempt{Attempt: n, At: timelineAt(begun), DurationMS: 300, StatusCode: 503, Outcome: outcome, Class: "status"}
	if outcome == "delivered" {
		a.StatusCode, a.Class = 200, ""
	}
	if next != 0 {
		a.NextAttemptAt = timelineAt(next)
	}
	return a
}

// rows are the steps as a reader sees them, the newest first.
func rows(d console.TimelineDelivery) (list []string) {
	for _, s := range console.TimelineSteps(d) {
		text := string(s.Knob)
		if s.N > 0 {
			text += fmt.Sprintf(" %d", s.N)
		}
		if s.Wait > 0 {
			text += fmt.Sprintf(" (%s)", s.Wait)
		}
		if s.Text != "" {
			text += " " + s.Text
		}
		if s.Open {
			text += " open"
		}
		list = append(list, text)
	}
	return list
}

func TestALadderIsClimbedUpwards(t *testing.T) {
	l, err := ladder.Parse("15s,3m,10m,30m")
	require.NoError(t, err)
	first := 300 * time.Millisecond
	second := 15*time.Second + 2*first
	waiting := wire.Delivery{
		DeliveryRef: wire.DeliveryRef{Status: "retrying", NextAttemptAt: timelineAt(second + 3*time.Minute + first)},
		Attempts:    2, Rung: 2, Ladder: &l, WaitingFor: "rung",
		History: []wire.Attempt{attempt(1, 0, "retry", first+15*time.Second+5*time.Millisecond), attempt(2, second, "retry", second+first+3*time.Minute)},
	}
	waiting.History[1].ResponseExcerpt = "out of order"
	require.Equal(t, []string{
		"bare then dead", "left 5 (30m0s)", "left 4 (10m0s)", "next 3 (3m0s)",
		"failed 2 (15s) Service Unavailable open", "failed 1 Service Unavailable", "ground Accepted",
	}, rows(console.TimelineDelivery{Delivery: waiting, Accepted: timelineAt(0), Now: timelineNoon}))
	steps := console.TimelineSteps(console.TimelineDelivery{Delivery: waiting, Accepted: timelineAt(0), Now: timelineNoon})
	require.Equal(t, waiting.NextAttemptAt.Add(40*time.Minute), steps[1].At.Time, "each rung begins where the one below ends")
	require.True(t, console.TimelineSteps(console.TimelineDelivery{Delivery: waiting, Now: timelineNoon.Add(time.Hour)})[1].At.IsZero(), "it is late already")

	waiting.Status, waiting.WaitingFor, waiting.WaitingUntil = "ready", "breaker", timelineAt(time.Hour)
	steps = console.TimelineSteps(console.TimelineDelivery{Delivery: waiting, Accepted: timelineAt(0), Now: timelineNoon})
	require.Equal(t, "waits for the breaker", steps[3].Text)
	require.Equal(t, timelineAt(time.Hour), steps[3].At)
	waiting.WaitingFor = "permits"
	require.Equal(t, "waits for its turn", console.TimelineSteps(console.TimelineDelivery{Delivery: waiting, Now: timelineNoon, Masked: true})[3].Text)

	waiting.Status, waiting.Attempts, waiting.DeadReason = "dead", 2, "disabled"
	require.Equal(t, "dead Dead: its endpoint was disabled", rows(console.TimelineDelivery{Delivery: waiting})[0])
	waiting.Status = "cancelled"
	require.Equal(t, "cancelled Cancelled", rows(console.TimelineDelivery{Delivery: waiting})[0])
	waiting.Status, waiting.DeadReason = "dead", "exhausted"
	waiting.History[1].Outcome = "dead"
	require.Equal(t, "dead 2 (15s) Service Unavailable open", rows(console.TimelineDelivery{Delivery: waiting})[0])
}

func TestWhatWasSentAgainBeginsANewLadder(t *testing.T) {
	l, err := ladder.Parse("15s")
	require.NoError(t, err)
	d := wire.Delivery{
		DeliveryRef: wire.DeliveryRef{Status: "in_flight"}, Attempts: 12, LadderFrom: 12, Rung: 1, Ladder: &l,
		History: []wire.Attempt{attempt(11, 0, "delivered", 0), attempt(12, time.Hour, "retry", 0)},
	}
	require.Equal(t, []string{
		"bare then dead", "next 13 (15s) under way", "failed 12 (59m59.7s) Service Unavailable", "bare Sent again: a new ladder",
		"delivered 11 OK", "bare Attempts 1–10 are not kept", "ground Accepted",
	}, rows(console.TimelineDelivery{Delivery: d, Now: timelineNoon}))
}

// A ladder shows what was planned; that a breaker or a pause held it longer is another
// matter. A person's attempt came earlier than planned.
func TestTheGapIsThePlannedWaitOrWhatAPersonMadeOfIt(t *testing.T) {
	l, err := ladder.Parse("15s,3m")
	require.NoError(t, err)
	d := wire.Delivery{
		DeliveryRef: wire.DeliveryRef{Status: "dead", EndedAt: timelineAt(time.Hour)}, DeadReason: "exhausted", Attempts: 3, Rung: 2, Ladder: &l,
		History: []wire.Attempt{
			attempt(1, 0, "retry", 15*time.Second+300*time.Millisecond), attempt(2, time.Hour, "retry", time.Hour+3*time.Minute+300*time.Millisecond),
			attempt(3, time.Hour+40*time.Second+300*time.Millisecond, "dead", 0),
		},
	}
	require.Equal(t, []string{"dead 3 (40s) Service Unavailable", "failed 2 (15s) Service Unavailable", "failed 1 Service Unavailable", "ground Accepted"},
		rows(console.TimelineDelivery{Delivery: d, Accepted: timelineAt(0), Now: timelineNoon}))
}

func TestAnAnswerThatIsNotKeptIsToldAsThat(t *testing.T) {
	d := wire.Delivery{DeliveryRef: wire.DeliveryRef{Status: "delivered", EndedAt: timelineAt(0)}, Attempts: 3, LastStatusCode: 204}
	require.Equal(t, []string{"delivered 3 Its answer was not kept", "bare Attempts 1–2 are not kept", "ground Accepted"}, rows(console.TimelineDelivery{Delivery: d}))
	d.Attempts = 1
	require.Equal(t, []string{"delivered 1 Its answer was not kept", "ground Accepted"}, rows(console.TimelineDelivery{Delivery: d}))
}

func TestALongLadderIsBounded(t *testing.T) {
	l, err := ladder.Parse(strings.TrimSuffix(strings.Repeat("1m,", 100), ","))
	require.NoError(t, err)
	d := wire.Delivery{DeliveryRef: wire.DeliveryRef{Status: "scheduled", NextAttemptAt: timelineAt(time.Minute)}, Ladder: &l, WaitingFor: "due"}
	steps := console.TimelineSteps(console.TimelineDelivery{Delivery: d, Accepted: timelineAt(0), Now: timelineNoon})
	require.Len(t, steps, 1+1+1+12+1)
	require.Equal(t, "and 88 more, the last", steps[1].Text)
	require.Equal(t, timelineAt(101*time.Minute), steps[1].At)
	require.Equal(t, time.Minute, steps[len(steps)-2].Wait, "its delay")
}

// A merchant's people see their receiver's errors, and not those of our own settings.
func TestAMerchantSeesNoErrorOfOurs(t *testing.T) {
	a := wire.Attempt{Attempt: 1, Outcome: "retry", Class: "refused", Error: "10.1.2.3 is private; allow it with ALLOW_NETS=10.1.2.3/32", Address: "10.1.2.3:80"}
	d := console.TimelineDelivery{Delivery: wire.Delivery{DeliveryRef: wire.DeliveryRef{Status: "dead"}, Attempts: 1, DeadReason: "refused", History: []wire.Attempt{a}}, Masked: true}
	require.NotContains(t, fmt.Sprintf("%+v %+v", console.TimelineSteps(d), *console.TimelineSteps(d)[1].Attempt), "ALLOW_NETS")
	d.Masked = false
	require.Contains(t, console.TimelineSteps(d)[1].Text, "ALLOW_NETS")
}

// A word that comes to the API needs its words here.
func TestEachWordOfTheAPIHasWords(t *testing.T) {
	for _, d := range []wire.Delivery{
		{DeliveryRef: wire.DeliveryRef{Status: "delivered"}, Attempts: 2}, {DeliveryRef: wire.DeliveryRef{Status: "dead"}, DeadReason: "gone"},
		{DeliveryRef: wire.DeliveryRef{Status: "ready"}, WaitingFor: "permits"},
	} {
		require.NotEmpty(t, console.DeliveryStory(d, false))
	}
	require.Equal(t, "its turn", console.DeliveryStory(wire.Delivery{DeliveryRef: wire.DeliveryRef{Status: "ready"}, WaitingFor: "permits"}, true))
	for _, word := range dispatcher.Waits() {
		require.Contains(t, console.Waits, string(word))
		require.Contains(t, console.Short, string(word))
	}
	for _, status := range dispatcher.Statuses() {
		d := wire.Delivery{DeliveryRef: wire.DeliveryRef{Status: string(status)}}
		require.NotEqual(t, string(status), console.DeliveryStory(d, false), "its words are missing")
		for _, step := range console.TimelineSteps(console.TimelineDelivery{Delivery: d, Now: timelineNoon}) {
			require.NotEqual(t, string(status), step.Text, "it has no picture")
		}
	}
	for _, verdict := range dispatcher.Verdicts() {
		require.NotEqual(t, console.Bare, console.KnobOf(verdict.String()), verdict.String())
	}
}

func TestARowTellsADeliverysStory(t *testing.T) {
	of, err := ladder.Parse("15s,3m,10m")
	require.NoError(t, err)
	for want, d := range map[string]wire.Delivery{
		"at the first attempt":                 {DeliveryRef: wire.DeliveryRef{Status: "delivered"}, Attempts: 1},
		"at attempt 3":                         {DeliveryRef: wire.DeliveryRef{Status: "delivered"}, Attempts: 3},
		"4 failed, exhausted":                  {DeliveryRef: wire.DeliveryRef{Status: "dead"}, Attempts: 4, Ladder: &of, DeadReason: "exhausted"},
		"disabled":                             {DeliveryRef: wire.DeliveryRef{Status: "dead"}, DeadReason: "disabled"},
		"2 of 4 failed, next attempt":          {DeliveryRef: wire.DeliveryRef{Status: "retrying"}, Attempts: 2, Rung: 2, Ladder: &of, WaitingFor: "rung"},
		"1 of 4 failed, waits for the breaker": {DeliveryRef: wire.DeliveryRef{Status: "ready"}, Attempts: 5, Rung: 1, Ladder: &of, WaitingFor: "breaker"},
		"next attempt":                         {DeliveryRef: wire.DeliveryRef{Status: "scheduled"}, Ladder: &of, WaitingFor: "due"},
		"1 of 4 failed, attempt 2":             {DeliveryRef: wire.DeliveryRef{Status: "in_flight"}, Attempts: 1, Rung: 1, Ladder: &of},
		"1 failed":                             {DeliveryRef: wire.DeliveryRef{Status: "cancelled"}, Attempts: 1, Ladder: &of},
		"a status of a later version":          {DeliveryRef: wire.DeliveryRef{Status: "a status of a later version"}},
	} {
		require.Equal(t, want, console.DeliveryStory(d, false))
	}
}

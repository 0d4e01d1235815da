package chaos_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/queue"
)

func TestTheJudgeOfQueues(t *testing.T) {
	delivered := queue.Record{Status: dispatcher.StatusDelivered}
	begun := func(program string, seconds float64) queueEvent {
		return queueEvent{eventBegun, program, "m", 1, at(seconds)}
	}
	done := func(program string, seconds float64) queueEvent {
		return queueEvent{eventDone, program, "m", 1, at(seconds)}
	}
	for name, c := range map[string]struct {
		record queue.Record
		ends   dispatcher.Status
		events []queueEvent
		deaths map[string]time.Time
		says   string
		twice  map[string]int
	}{
		"handled once":                 {record: delivered, events: []queueEvent{begun("a", 1), done("a", 2)}},
		"delivered, and never handled": {record: delivered, events: []queueEvent{begun("a", 1)}, says: "no handler returned nil"},
		"never ended":                  {record: queue.Record{Status: dispatcher.StatusRetrying}, says: "ended retrying"},
		"early":                        {record: delivered, events: []queueEvent{begun("a", -1), done("a", 0)}, says: "early"},
		"after it was cancelled":       {record: queue.Record{Status: dispatcher.StatusCancelled}, ends: dispatcher.StatusCancelled, events: []queueEvent{begun("a", 1)}, says: "cancelled"},
		"again without a cause":        {record: delivered, events: []queueEvent{begun("a", 1), done("a", 2), begun("b", 3), done("b", 4)}, says: "without a cause", twice: map[string]int{"": 1}},
		"again, and its program died":  {record: delivered, events: []queueEvent{begun("a", 1), done("a", 2), begun("b", 3), done("b", 4)}, deaths: map[string]time.Time{"a": at(2.5)}, twice: map[string]int{byKill: 1}},
		"again, and its program died later": {
			record: delivered, events: []queueEvent{begun("a", 1), done("a", 2), begun("b", 3), done("b", 4)}, deaths: map[string]time.Time{"a": at(60)},
			says: "without a cause", twice: map[string]int{"": 1},
		},
		"again, because it came late":       {record: delivered, events: []queueEvent{begun("a", 1), begun("b", 5.2), done("a", 5.5), done("b", 5.6)}, twice: map[string]int{byOverrun: 1}},
		"again, because it was taken over":  {record: delivered, events: []queueEvent{begun("a", 1), done("a", 2), {eventTaken, "a", "-", 0, at(3)}, begun("b", 4), done("b", 5)}, twice: map[string]int{byCut: 1}},
		"poison without three deaths":       {record: queue.Record{Status: dispatcher.StatusDead, Reason: dispatcher.ReasonPoison}, says: "ended dead poison"},
		"poison, and three programs killed": {record: queue.Record{Status: dispatcher.StatusDead, Reason: dispatcher.ReasonPoison}, events: []queueEvent{begun("a", 1), begun("b", 2), begun("c", 3)}, deaths: map[string]time.Time{"a": at(2), "b": at(3), "c": at(4)}},
	} {
		t.Run(name, func(t *testing.T) {
			if c.ends == "" {
				c.ends = dispatcher.StatusDelivered
			}
			h := queueHistory{tasks: []queueTask{{id: "m", kind: "plain", due: at(0), ends: c.ends, record: c.record}}, events: c.events, deaths: c.deaths}
			found := h.judge()
			if c.says == "" {
				require.Empty(t, found.complaints)
			} else {
				require.Len(t, found.complaints, 1)
				require.Contains(t, found.complaints[0], c.says)
			}
			if c.twice == nil {
				c.twice = map[string]int{}
			}
			require.Equal(t, c.twice, found.twice)
		})
	}
}

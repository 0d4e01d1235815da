package archive_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
)

func of(id string) dispatcher.DeliveryID {
	return dispatcher.DeliveryID{Lane: "u_1", Message: id}
}

func message(id string) *dispatcher.Message {
	return &dispatcher.Message{ID: id, Topic: "t", Tenant: "shop", Subject: "o-1", CreatedAt: at(0)}
}

// accepted is a message that goes to u_1, and is due at once.
func accepted(id string, pos int64) archive.Accepted {
	return archive.Accepted{ID: id, Lanes: []dispatcher.Lane{"u_1"}, Pos: pos, At: at(0), Due: at(0), Message: message(id), Head: []byte("h"), Body: []byte("b")}
}

func event(kind archive.Kind, pos int64, second, number int) archive.Event {
	return archive.Event{ID: of("m"), Kind: kind, Pos: pos, At: at(second), Wait: 15 * time.Second, Attempt: dispatcher.Attempt{Number: number}}
}

func fold(known *archive.Open, accepted []archive.Accepted, events ...archive.Event) (archive.Folded, []archive.Event) {
	was := map[dispatcher.DeliveryID]archive.Open{}
	if known != nil {
		was[known.ID] = *known
	}
	parts := []archive.Part{{Epoch: "e", Accepted: accepted, Events: events}}
	return archive.Fold(parts, was), events
}

func TestWhatIsAcceptedAndEndsAtOnceIsNeverUnfinished(t *testing.T) {
	got, events := fold(nil, []archive.Accepted{accepted("m", 1)}, event(archive.Delivered, 2, 1, 1))
	require.Equal(t, archive.Folded{}, got)
	require.Equal(t, [3]string{"t", "shop", "o-1"}, [3]string{events[0].Topic, events[0].Tenant, events[0].Subject}, "lists find it by these")
}

func TestALateSuccessEndsADeliveryOnce(t *testing.T) {
	repeats := event(archive.Delivered, 3, 2, 1)
	repeats.Repeats = true
	got, events := fold(nil, []archive.Accepted{accepted("m", 1)}, event(archive.Delivered, 2, 1, 1), repeats)
	require.Equal(t, archive.Folded{}, got)
	require.Equal(t, []archive.Kind{archive.Delivered, 0}, []archive.Kind{events[0].Kind, events[1].Kind}, "its end is left out when it comes again")

	open := archive.Open{ID: of("m"), Pos: 1}
	got, events = fold(&open, nil, repeats)
	require.Equal(t, []dispatcher.DeliveryID{of("m")}, got.Ended)
	require.Equal(t, archive.Delivered, events[0].Kind, "the event of its attempt was cut")
}

func TestAFailedAttemptWaitsForItsRung(t *testing.T) {
	got, _ := fold(nil, []archive.Accepted{accepted("m", 1)}, event(archive.Retry, 2, 1, 1))
	require.Len(t, got.Open, 1)
	require.True(t, got.Open[0].New)
	require.Equal(t, []any{1, at(16), int64(1), "e", "h"}, []any{got.Open[0].Attempts, got.Open[0].Due, got.Open[0].Pos, got.Open[0].Epoch, string(got.Open[0].Head)})

	again, _ := fold(&got.Open[0], nil, event(archive.Late, 3, 2, 9), event(archive.Retry, 4, 20, 2))
	require.False(t, again.Open[0].New)
	require.Equal(t, []any{2, at(35)}, []any{again.Open[0].Attempts, again.Open[0].Due}, "and a late attempt changes nothing")

	ended, events := fold(&again.Open[0], nil, event(archive.Dead, 5, 40, 3))
	require.Equal(t, []dispatcher.DeliveryID{of("m")}, ended.Ended)
	require.Equal(t, "shop", events[0].Tenant)
}

func TestAnAttemptThatSomebodyAskedForStandsBesideTheLadder(t *testing.T) {
	waits := archive.Open{ID: of("m"), Pos: 1, Attempts: 1, Due: at(100)}
	resent := event(archive.Resent, 2, 10, 1)
	resent.Due = at(100)
	got, _ := fold(&waits, nil, resent)
	require.Equal(t, []any{at(10), at(100), int64(1)}, []any{got.Open[0].Due, got.Open[0].Asked, got.Open[0].Pos})

	failed, _ := fold(&got.Open[0], nil, event(archive.Retry, 3, 11, 2))
	require.Equal(t, []any{2, 1, at(100), time.Time{}}, []any{failed.Open[0].Attempts, failed.Open[0].Beside, failed.Open[0].Due, failed.Open[0].Asked})

	calledOff, _ := fold(&got.Open[0], nil, event(archive.Resent, 3, 11, 1))
	require.Equal(t, []any{at(10), at(100)}, []any{calledOff.Open[0].Due, calledOff.Open[0].Asked}, "it is not cancelled after all")

	late, _ := fold(&got.Open[0], nil, event(archive.Retry, 3, 111, 2))
	require.Equal(t, at(126), late.Open[0].Due, "what it interrupted has passed: its rung begins again")
}

// An attempt that somebody asked for is made when its handler lets it wait.
func TestASnoozeIsNoEventAndNobodyAsksAnyMore(t *testing.T) {
	open := archive.Open{ID: of("m"), Pos: 1, Attempts: 1, Asked: at(100)}
	got, events := fold(&open, nil, event(archive.Snoozed, 2, 10, 2))
	require.Equal(t, archive.Kind(0), events[0].Kind)
	require.Equal(t, []archive.Open{{ID: of("m"), Pos: 1, Attempts: 1, Epoch: "e"}}, got.Open)
	_, events = fold(nil, nil, event(archive.Snoozed, 2, 10, 2))
	require.Equal(t, archive.Kind(0), events[0].Kind, "it ended before")
}

func TestWhatIsResentIsUnfinishedAgain(t *testing.T) {
	again := accepted("m", 5)
	again.Again = true
	resent := event(archive.Resent, 6, 50, 10)
	resent.Anew = true
	got, _ := fold(nil, []archive.Accepted{again}, event(archive.Dead, 4, 40, 10), resent)
	require.Equal(t, []any{10, 10, int64(6), true}, []any{got.Open[0].Attempts, got.Open[0].Base, got.Open[0].Pos, got.Open[0].New})
}

func TestOnlyWhatPartsDoNotTellTheBeginningOfHasToBeKnown(t *testing.T) {
	again := accepted("again", 2)
	again.Again = true
	other := event(archive.Retry, 3, 1, 1)
	other.ID = of("other")
	late := event(archive.Late, 4, 1, 1)
	late.ID = of("late")
	parts := []archive.Part{{Accepted: []archive.Accepted{accepted("m", 1), again}, Events: []archive.Event{other, late, event(archive.Delivered, 5, 1, 1)}}}
	require.Equal(t, []dispatcher.DeliveryID{of("again"), of("other")}, archive.Touched(parts))
}

func TestNumbersGrowWithTimeAndBehindTheLast(t *testing.T) {
	p := archive.Part{
		Accepted: []archive.Accepted{accepted("a", 1), accepted("b", 3)},
		Events:   []archive.Event{event(archive.Delivered, 2, 0, 1), event(archive.Delivered, 4, 1, 1)},
	}
	now := archive.PosAt(at(0))
	require.Equal(t, archive.PosAt(at(1)), p.Number(0))
	require.Equal(t, []int64{now, now + 1, now + 2, archive.PosAt(at(1))}, []int64{p.Accepted[0].Pos, p.Events[0].Pos, p.Accepted[1].Pos, p.Events[1].Pos})
	ahead := archive.PosAt(at(9)) // by a clock that is behind now
	p.Accepted[0].Pos, p.Events[0].Pos, p.Accepted[1].Pos, p.Events[1].Pos = 1, 2, 3, 4
	require.Equal(t, ahead+4, p.Number(ahead))
}

func TestAPositionIsReadAsItIsWritten(t *testing.T) {
	p, err := archive.ParsePosition("1700000000000-18446744073709551615")
	require.NoError(t, err)
	require.Equal(t, "1700000000000-18446744073709551615", p.String())
	require.True(t, p.After(archive.Position{MS: p.MS, Seq: 5}))
	for _, text := range []string{"", "1", "-", "1-", "-1-0", "1-2-3", "a-b"} {
		_, err := archive.ParsePosition(text)
		require.ErrorContains(t, err, "not a position", text)
	}
}

func TestWhatDiesAsItIsAcceptedLeavesTheNamesOfItsMessage(t *testing.T) {
	full := accepted("m", 1)
	full.Lanes = nil // a delivery that ends at once is in none
	overflow := event(archive.Dead, 2, 0, 0)
	earlier := event(archive.Dead, 3, 0, 0)
	earlier.ID = of("earlier")
	late := event(archive.Late, 4, 0, 0)
	late.ID = of("late")
	got, events := fold(nil, []archive.Accepted{full}, overflow, earlier, late)
	require.Equal(t, [3]string{"t", "shop", "o-1"}, [3]string{events[0].Topic, events[0].Tenant, events[0].Subject})
	require.Empty(t, got.Open)
	require.Equal(t, []*archive.Event{&events[1]}, got.Unnamed, "its message was accepted in a part before")
}

// An error ended the script that settled an attempt, after the script had logged it.
func TestAnAttemptThatIsSettledAgainAfterARepairIsThereOnce(t *testing.T) {
	attempt := func(kind archive.Kind, pos int64, second, began int) archive.Event {
		e := event(kind, pos, second, 1)
		e.Attempt.At = at(began)
		return e
	}
	kinds := func(known *archive.Open, begun []archive.Accepted, events ...archive.Event) (kinds []archive.Kind, maybe int) {
		got, events := fold(known, begun, events...)
		for _, e := range events {
			kinds = append(kinds, e.Kind)
		}
		return kinds, len(got.MaybeArchived)
	}
	for name, known := range map[string]*archive.Open{"began here": nil, "was open": {ID: of("m"), Pos: 1}, "had ended": nil} {
		t.Run(name, func(t *testing.T) {
			var begun []archive.Accepted
			first := 0 // that the archive may have already
			switch name {
			case "began here":
				begun = []archive.Accepted{accepted("m", 1)}
			case "had ended":
				first = 1
			}
			got, maybe := kinds(known, begun, attempt(archive.Delivered, 2, 1, 1), attempt(archive.Delivered, 3, 2, 1))
			require.Equal(t, []archive.Kind{archive.Delivered, 0}, got, "the same attempt")
			require.Equal(t, first, maybe)
			got, maybe = kinds(known, begun, attempt(archive.Delivered, 2, 1, 1), attempt(archive.Late, 3, 2, 1))
			require.Equal(t, []archive.Kind{archive.Delivered, 0}, got, "it came too late the second time")
			require.Equal(t, first, maybe)
			got, maybe = kinds(known, begun, attempt(archive.Delivered, 2, 1, 1), attempt(archive.Delivered, 3, 3, 2))
			require.Equal(t, []archive.Kind{archive.Delivered, archive.Late}, got, "another attempt of what had ended")
			require.Equal(t, first+1, maybe)
			got, _ = kinds(known, begun, attempt(archive.Dead, 2, 1, 1), attempt(archive.Delivered, 3, 3, 2))
			require.Equal(t, []archive.Kind{archive.Dead, archive.Delivered}, got, "it ended otherwise")
		})
	}
	resent := event(archive.Resent, 3, 2, 1)
	resent.Anew = true
	again := accepted("m", 3)
	again.Again = true
	got, _ := kinds(nil, []archive.Accepted{accepted("m", 1), again}, attempt(archive.Delivered, 2, 1, 1), resent, attempt(archive.Delivered, 5, 3, 2))
	require.Equal(t, []archive.Kind{archive.Delivered, archive.Resent, archive.Delivered}, got, "it was resent")
}

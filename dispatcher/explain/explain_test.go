package explain_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/explain"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/ladder"
)

const lane = "ep_123456789"

var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.Local)

// at is a time of the same day.
func at(hour, minute int) wire.Time {
	return wire.Time{Time: time.Date(2026, 1, 31, hour, minute, 0, 0, time.Local)}
}

// delivery is one to an endpoint, with what change sets.
func delivery(status string, change func(d *wire.Delivery)) wire.Delivery {
	d := wire.Delivery{DeliveryRef: wire.DeliveryRef{
		ID: lane + ":order_17", Destination: lane, URL: "https://api.shop.example/hooks?token=hunter2", Status: status,
	}}
	if change != nil {
		change(&d)
	}
	return d
}

func waiting(word string, change func(d *wire.Delivery)) wire.Delivery {
	return delivery("ready", func(d *wire.Delivery) {
		d.WaitingFor = word
		if change != nil {
			change(d)
		}
	})
}

// resent is of a delivery that was sent again after its first success.
func resent(first wire.Time, history ...wire.Attempt) func(*wire.Delivery) {
	return func(d *wire.Delivery) {
		d.DeliveredAt, d.EndedAt, d.Attempts, d.History = first, at(11, 31), 2, history
	}
}

func dead(reason string, change func(d *wire.Delivery)) wire.Delivery {
	return delivery("dead", func(d *wire.Delivery) {
		d.DeadReason, d.EndedAt, d.Attempts = reason, at(11, 0), 10
		if change != nil {
			change(d)
		}
	})
}

// answered is of a delivery whose second attempt of 15 s ended so.
func answered(status int, class string) func(*wire.Delivery) {
	return func(d *wire.Delivery) {
		d.NextAttemptAt, d.Rung, d.Ladder, d.Attempts, d.LastStatusCode, d.LastError = at(14, 3), 2, &three, 2, status, class
		d.History = []wire.Attempt{{Attempt: 1, StatusCode: 500, Class: "status"}, {Attempt: 2, StatusCode: status, Class: class, DurationMS: 15_003}}
	}
}

func until(hour, minute int) func(*wire.Delivery) {
	return func(d *wire.Delivery) { d.WaitingUntil = at(hour, minute) }
}

func mustLadder(waits ...time.Duration) ladder.Ladder {
	l, err := ladder.New(waits...)
	if err != nil {
		panic(err)
	}
	return l
}

var (
	three    = mustLadder(time.Second, 2*time.Second, 3*time.Second)
	sends    = "`hookladder retry order_17 --destination ep_123456789` sends it again"
	again    = "`hookladder retry order_17 --destination ep_123456789` starts a new ladder"
	now      = "`hookladder retry order_17 --destination ep_123456789` attempts it now"
	resumes  = "`hookladder resume ep_123456789` "
	open     = &wire.LaneState{Lane: lane, Endpoint: lane, State: "open", Why: "breaker", Fails: 20, Until: at(14, 3)}
	paused   = &wire.LaneState{Lane: lane, Endpoint: lane, State: "paused", Why: "paused", By: "ops", Since: at(9, 30)}
	untested = &wire.LaneState{Lane: lane, Endpoint: lane, State: "paused", Why: "unverified", By: "link:lnk_7", Since: at(9, 30)}
	night    = &wire.LaneState{Lane: lane, Endpoint: lane, State: "paused", Why: "all", By: "ops", Since: at(9, 30)}
	failed   = &wire.LaneState{Lane: lane, Endpoint: lane, State: "open", Why: "breaker", Fails: 20, Until: at(14, 3), LastFailure: &wire.LaneFailure{At: at(13, 59), Error: "status 503"}}
	broken   = &wire.LaneState{Lane: lane, Endpoint: lane, State: "open", Why: "breaker", Fails: 20, Opened: 1, Since: at(9, 30), Until: at(14, 3)}
	fails    = &wire.LaneState{Lane: lane, Endpoint: lane, State: "failing", Why: "failing", Fails: 7, Since: at(9, 30)}
	dark     = &wire.LaneState{Lane: lane, Endpoint: lane, State: "failing", Why: "failing", Fails: 20, Opened: 3, Since: at(9, 30), Until: at(14, 3)}
	hopeless = &wire.LaneState{Lane: lane, Endpoint: lane, State: "disabled", Why: "failing", By: "system", Since: at(9, 30)}
	off      = &wire.LaneState{Lane: lane, Endpoint: lane, State: "disabled", Why: "gone", By: "system", Since: at(9, 30)}
	gone     = &wire.LaneState{Lane: lane, Endpoint: lane, State: "deleted"}
)

var sentences = []struct {
	delivery wire.Delivery
	lane     *wire.LaneState
	want     string
}{
	{waiting("due", func(d *wire.Delivery) { d.NextAttemptAt = at(14, 3) }), nil, "waits for its time until 14:03:00; " + now},
	{waiting("due", func(d *wire.Delivery) { d.NextAttemptAt = wire.Time{Time: at(14, 3).AddDate(0, 0, 1)} }), nil, "waits for its time until 2026-02-01 14:03:00; " + now},
	{waiting("rung", func(d *wire.Delivery) {
		d.NextAttemptAt, d.Rung, d.Ladder, d.Attempts, d.LastError = at(14, 3), 2, &three, 2, "status 500"
	}), nil, "waits until 14:03:00 for attempt 3 of 4, since attempt 2 failed (status 500); " + now},
	{waiting("paused", nil), paused, "waits since api.shop.example is paused by ops since 09:30:00; " + resumes + "lets it go on"},
	{waiting("paused", func(d *wire.Delivery) { d.NextAttemptAt = at(14, 3) }), paused, "waits since api.shop.example is paused by ops since 09:30:00 (its own time is 14:03:00); " + resumes + "lets it go on"},
	{waiting("paused", nil), night, "waits since every destination is paused by ops since 09:30:00; `hookladder resume '*'` lets all of them go on"},
	{waiting("paused", nil), untested, "waits until a test of api.shop.example succeeds, since a link set its URL at 09:30:00; `hookladder endpoints test ep_123456789` sends one, " + resumes + "does without"},
	{waiting("paused", nil), nil, "waits since api.shop.example was paused"},
	{waiting("breaker", until(14, 3)), open, "waits for the breaker of api.shop.example until 14:03:00, after 20 failures in a row; " + resumes + "tries now"},
	{waiting("breaker", func(d *wire.Delivery) { d.WaitingUntil, d.LastError = at(14, 3), "no answer within 15s" }), open, "waits for the breaker of api.shop.example until 14:03:00, after 20 failures in a row, its own last: no answer within 15s; " + resumes + "tries now"},
	{waiting("breaker", nil), &wire.LaneState{UID: "shop-7", State: "open", Fails: 1}, "waits while one attempt tries whether shop-7 (api.shop.example) answers again, whose breaker is open, after 1 failure; " + resumes + "tries all"},
	{waiting("breaker", until(14, 3)), broken, "waits for the breaker of api.shop.example until 14:03:00, after 20 failures in a row since 09:30:00; " + resumes + "tries now"},
	{waiting("breaker", until(14, 3)), failed, "waits for the breaker of api.shop.example until 14:03:00, after 20 failures in a row, the last: status 503 at 13:59:00; " + resumes + "tries now"},
	{waiting("breaker", until(14, 3)), dark, "waits for the breaker of api.shop.example until 14:03:00, after 20 failures in a row since 09:30:00; " + resumes + "tries now"},
	{waiting("rung", func(d *wire.Delivery) {
		d.NextAttemptAt, d.Rung, d.Ladder, d.Attempts, d.LastError = at(14, 3), 2, &three, 2, "status 404"
	}), fails, "waits until 14:03:00 for attempt 3 of 4, since attempt 2 failed (status 404), and no attempt at api.shop.example succeeded since 09:30:00; " + now},
	{waiting("rung", func(d *wire.Delivery) {
		d.NextAttemptAt, d.Rung, d.Ladder, d.Attempts, d.LastError = at(14, 3), 1, &three, 5, "status 500"
	}), nil, "waits until 14:03:00 for attempt 6 (2 of 4 of its ladder), since attempt 5 failed (status 500); " + now},
	{waiting("rung", answered(404, "")), nil, "waits until 14:03:00 for attempt 3 of 4, since attempt 2 failed (status 404); its receiver takes no POST at https://api.shop.example/hooks: correct the URL or the receiver; then " + now},
	{waiting("rung", answered(405, "")), nil, "waits until 14:03:00 for attempt 3 of 4, since attempt 2 failed (status 405); its receiver takes no POST at https://api.shop.example/hooks: correct the URL or the receiver; then " + now},
	{waiting("rung", answered(413, "")), nil, "waits until 14:03:00 for attempt 3 of 4, since attempt 2 failed (status 413); its receiver, or a proxy before it, has to take a body of this size; then " + now},
	{waiting("rung", answered(415, "")), nil, "waits until 14:03:00 for attempt 3 of 4, since attempt 2 failed (status 415); its receiver has to take the content type text/csv; then " + now},
	{waiting("rung", answered(0, "timeout")), nil, "waits until 14:03:00 for attempt 3 of 4, since attempt 2 failed (timeout); its receiver has to respond within its time limit of 15s: store the message, respond, and do the work later; then " + now},
	{waiting("rung", answered(0, "tls")), nil, "waits until 14:03:00 for attempt 3 of 4, since attempt 2 failed (tls); the TLS of its server has to be mended; then " + now},
	{waiting("rung", answered(0, "reset")), nil, "waits until 14:03:00 for attempt 3 of 4, since attempt 2 failed (reset); " + now},
	{waiting("breaker", func(d *wire.Delivery) { d.WaitingUntil, d.LastStatusCode, d.LastError = at(14, 3), 401, "status 401" }), open, "waits for the breaker of api.shop.example until 14:03:00, after 20 failures in a row, its own last: status 401; its receiver has to verify with the secret (fingerprint 1a2b3c4d) that `hookladder endpoints secret ep_123456789` shows, and `hookladder verify` explains a request that it saved; then " + resumes + "tries now"},
	{waiting("order", func(d *wire.Delivery) { d.WaitingBehind = 3 }), fails, "waits behind 3 that go first, and no attempt at api.shop.example succeeded since 09:30:00; it goes when they have ended, and `hookladder retry` or `cancel` of the first hurries that"},
	{waiting("order", nil), dark, "waits behind others of its ordering key, and the breaker of api.shop.example is open until 14:03:00, after 20 failures in a row since 09:30:00; " + resumes + "tries now"},
	{waiting("retry_after", until(14, 3)), nil, "waits until 14:03:00, since api.shop.example asked for that with Retry-After; " + resumes + "tries now"},
	{waiting("rate", until(14, 3)), &wire.LaneState{Endpoint: lane, Rate: "100/s", Waiting: 7000}, "waits for its turn until 14:03:00: api.shop.example gets 100/s, and 7000 wait; `hookladder endpoints update ep_123456789 --rate N/s` changes the rate"},
	{waiting("egress", until(14, 3)), nil, "waits until 14:03:00, since the dispatcher's own network failed; api.shop.example is not to blame; the log says whether its resolver, its route or its proxy failed; once that works, all that waits is attempted at once"},
	{waiting("sealed", until(14, 3)), nil, "waits until 14:03:00, since an instance can't open its endpoint api.shop.example, or the headers of a message to it, with its ENCRYPTION_KEY, or read it; give every instance the key with which they were stored"},
	{waiting("missing", until(14, 3)), nil, "waits until 14:03:00, since its endpoint is not in the store and was not deleted; `hookladder doctor` looks for what else is missing, `hookladder cancel order_17` ends it"},
	{waiting("order", func(d *wire.Delivery) { d.WaitingBehind = 3 }), nil, "waits behind 3 that go first to api.shop.example; it goes when they have ended, and `hookladder retry` or `cancel` of the first hurries that"},
	{waiting("order", func(d *wire.Delivery) { d.WaitingBehind = 1 }), paused, "waits behind 1 that goes first, and api.shop.example is paused by ops since 09:30:00; " + resumes + "lets it go on"},
	{waiting("order", nil), open, "waits behind others of its ordering key, and the breaker of api.shop.example is open until 14:03:00, after 20 failures in a row; " + resumes + "tries now"},
	{waiting("order", nil), &wire.LaneState{State: "limited", Until: at(14, 3)}, "waits behind others of its ordering key, and api.shop.example gets nothing until 14:03:00"},
	{waiting("limit", nil), &wire.LaneState{Window: 2}, "waits for an attempt under way to end: api.shop.example has as many as it may, 2; each success allows one more"},
	{waiting("limit", nil), &wire.LaneState{Endpoint: lane, Window: 5, MaxInFlight: 5}, "waits for an attempt under way to end: api.shop.example has as many as it may, 5; `hookladder endpoints update ep_123456789 --max-in-flight N` allows more"},
	{waiting("limit", nil), &wire.LaneState{Ordered: true}, "waits for the attempt under way: api.shop.example gets one at a time (ordered)"},
	{waiting("permits", nil), nil, "is due, and an instance takes it next: 9 of at most 10 attempts are under way; `hookladder doctor` finds what holds it up if it waits for long"},
	{waiting("missing", nil), nil, "waits, since its endpoint is not in the store and was not deleted; `hookladder doctor` looks for what else is missing, `hookladder cancel order_17` ends it"},

	{waiting("consumer", nil), nil, "waits until a program takes it from api.shop.example; start one that handles it, or take it over HTTP: `POST /v1/queues/ep_123456789/take`"},

	{delivery("scheduled", nil), nil, "has not finished, and only the archive has it; `hookladder restore` puts it into Redis again"},
	{delivery("in_flight", func(d *wire.Delivery) { d.Attempts = 2 }), nil, "is under way: attempt 3 at api.shop.example waits for its answer"},
	{delivery("delivered", func(d *wire.Delivery) { d.DeliveredAt, d.Attempts, d.LastStatusCode = at(11, 0), 2, 204 }), nil, "was delivered to api.shop.example at 11:00:00, at attempt 2, and answered with status 204; `hookladder retry order_17 --destination ep_123456789` sends it again"},
	{delivery("delivered", resent(at(11, 0), wire.Attempt{Attempt: 1, At: at(10, 59), Outcome: "delivered", StatusCode: 204}, wire.Attempt{Attempt: 2, At: at(11, 30), Outcome: "retry", StatusCode: 500})), nil, "was delivered to api.shop.example at 11:00:00, at attempt 1, and answered with status 204; " + sends},
	{delivery("delivered", resent(at(11, 0), wire.Attempt{Attempt: 2, At: at(11, 30), DurationMS: 2000, Outcome: "delivered", StatusCode: 200})), nil, "was delivered to api.shop.example at 11:00:00 and again at 11:30:02, at attempt 2, and answered with status 200; " + sends},
	{delivery("delivered", resent(at(11, 0), wire.Attempt{Attempt: 1, At: at(10, 59), Outcome: "delivered", StatusCode: 204, ShortHello: true})), nil, "was delivered to api.shop.example at 11:00:00, at attempt 1, and answered with status 204 (its TLS did not answer until it got a ClientHello of one packet); " + sends},
	{delivery("delivered", resent(at(11, 0))), nil, "was delivered to api.shop.example at 11:00:00; " + sends},
	{delivery("cancelled", func(d *wire.Delivery) { d.EndedAt = at(11, 0) }), nil, "was cancelled at 11:00:00; " + again},
	{dead("exhausted", func(d *wire.Delivery) { d.LastError = "status 500" }), nil, "died at 11:00:00 after 10 attempts, the last of its ladder (status 500); once api.shop.example answers again, " + again},
	{dead("exhausted", func(d *wire.Delivery) { d.LastError, d.LastStatusCode = "status 401", 401 }), nil, "died at 11:00:00 after 10 attempts, the last of its ladder (status 401); its receiver has to verify with SIGNING_SECRET, and `hookladder verify` explains a request that it saved; then " + again},
	{dead("exhausted", func(d *wire.Delivery) { d.LastStatusCode = 401 }), &wire.LaneState{Tenant: "shop_42"}, "died at 11:00:00 after 10 attempts, the last of its ladder (status 401); its receiver has to verify with SIGNING_SECRET (with SIGNING_DERIVE: what `hookladder secret --tenant shop_42` prints), and `hookladder verify` explains a request that it saved; then " + again},
	{dead("exhausted", func(d *wire.Delivery) { d.LastStatusCode = 403 }), &wire.LaneState{Endpoint: lane, UID: "shop-42"}, "died at 11:00:00 after 10 attempts, the last of its ladder (status 403); its receiver has to verify with the secret (fingerprint 1a2b3c4d) that `hookladder endpoints secret shop-42` shows, and `hookladder verify` explains a request that it saved; then " + again},
	{dead("gone", nil), off, "died at 11:00:00, since api.shop.example answered that it is gone (410); it is disabled by system since 09:30:00: `hookladder resume ep_123456789`, then " + again},
	{dead("gone", nil), nil, "died at 11:00:00, since api.shop.example answered that it is gone (410); " + again},
	{dead("expired", func(d *wire.Delivery) { d.Attempts = 1 }), nil, "died at 11:00:00 after 1 attempt, since it had expired at 10:59:00; publish it anew under another id"},
	{dead("expired", func(d *wire.Delivery) { d.Attempts, d.EndedAt = 1, at(10, 58) }), nil, "died at 10:58:00 after 1 attempt, because its next attempt would have been after it expires at 10:59:00; publish it anew under another id"},
	{dead("refused", func(d *wire.Delivery) { d.LastError = "10.1.2.3 is private; allow it with ALLOW_NETS=10.1.2.3/32" }), nil, "died at 11:00:00, since its address may not be called (10.1.2.3 is private; allow it with ALLOW_NETS=10.1.2.3/32); correct the URL, or allow the address with ALLOW_NETS; then " + again},
	{dead("refused", func(d *wire.Delivery) { d.LastError = "10.1.2.3 is private; allow it with LINK_ALLOW_NETS=10.1.2.3/32" }), nil, "died at 11:00:00, since its address may not be called (10.1.2.3 is private; allow it with LINK_ALLOW_NETS=10.1.2.3/32); correct the URL, confirm it, or allow the address for links with LINK_ALLOW_NETS; then " + again},
	{dead("refused", func(d *wire.Delivery) { d.LastError = "127.0.0.1 is our own listener, which is never called" }), nil, "died at 11:00:00, since its address may not be called (127.0.0.1 is our own listener, which is never called); correct the URL: it leads back to Hookladder, which never calls itself; then " + again},
	{dead("disabled", nil), off, "died at 11:00:00, since its endpoint api.shop.example was disabled; it is disabled by system since 09:30:00: `hookladder resume ep_123456789`, then " + again},
	{dead("disabled", nil), hopeless, "died at 11:00:00, since its endpoint api.shop.example was disabled: none of its attempts succeeded for too long; it is disabled by system since 09:30:00: `hookladder resume ep_123456789`, then " + again},
	{dead("disabled", func(d *wire.Delivery) { d.Destination = "u_0123456789" }), nil, "died at 11:00:00, since no attempt at api.shop.example succeeded for DISABLE_AFTER; once it answers again, `hookladder retry order_17 --destination u_0123456789` starts a new ladder"},
	{dead("disabled", nil), &wire.LaneState{State: "deleted"}, "died at 11:00:00, since its endpoint api.shop.example was disabled; its endpoint was deleted"},
	{delivery("delivered", func(d *wire.Delivery) { d.DeliveredAt = at(11, 0) }), gone, "was delivered to api.shop.example at 11:00:00, at attempt 1; its endpoint was deleted"},
	{delivery("cancelled", func(d *wire.Delivery) { d.EndedAt = at(11, 0) }), gone, "was cancelled at 11:00:00; its endpoint was deleted"},
	{dead("exhausted", nil), gone, "died at 11:00:00 after 10 attempts, the last of its ladder; its endpoint was deleted"},
	{dead("expired", nil), gone, "died at 11:00:00 after 10 attempts, since it had expired at 10:59:00; its endpoint was deleted"},
	{dead("exhausted", nil), off, "died at 11:00:00 after 10 attempts, the last of its ladder; it is disabled by system since 09:30:00: `hookladder resume ep_123456789`, then " + again},
	{dead("expired", nil), off, "died at 11:00:00 after 10 attempts, since it had expired at 10:59:00; publish it anew under another id"},
	{dead("overflow", nil), nil, "died at 11:00:00 unattempted, since as much waited for api.shop.example as ENDPOINT_MAX_WAITING allows; once less waits, " + again},
	{dead("poison", nil), nil, "died at 11:00:00, since three instances died while they held it; look for the cause in their logs; then " + again},
	{dead("rejected", func(d *wire.Delivery) { d.Attempts, d.LastStatusCode = 1, 400 }), nil, "died at 11:00:00 after 1 attempt, since api.shop.example asked for no further one (webhook-delivery: abort-message) (status 400); " + again},
}

func TestEachWayToStandHasASentenceWithItsCure(t *testing.T) {
	for _, c := range sentences {
		got := explain.Sentence(explain.Facts{
			Delivery: c.delivery, Lane: c.lane, Expires: at(10, 59), Now: noon, Content: "text/csv", Secret: "1a2b3c4d",
			Instances: []wire.Instance{{Permits: 8, InFlight: 8}, {Permits: 2, InFlight: 1}},
		})
		require.Equal(t, lane+":order_17 "+c.want, got)
		require.NotContains(t, got, "hunter2")
	}
}

// A new word needs a sentence here.
func TestNoWordOfTheAPIIsWithoutASentence(t *testing.T) {
	known := map[string]bool{}
	for _, c := range sentences {
		known[c.delivery.WaitingFor], known[c.delivery.DeadReason] = true, true
	}
	for _, reader := range []explain.Reader{explain.Terminal, explain.Console, explain.Merchant} {
		sentence := func(d wire.Delivery) string {
			how, _ := explain.Standing(explain.Facts{Delivery: d, Now: noon, For: reader})
			return how
		}
		for _, reason := range dispatcher.DeadReasons() {
			require.True(t, known[string(reason)], reason)
			require.NotEqual(t, sentence(dead("moonlight", nil)), sentence(dead(string(reason), nil)), "%s has no sentence of its own", reason)
		}
		for _, wait := range dispatcher.Waits() {
			require.True(t, known[string(wait)], wait)
			require.NotEqual(t, sentence(waiting("moonlight", nil)), sentence(waiting(string(wait), nil)), "%s has no sentence of its own", wait)
		}
		for _, status := range dispatcher.Statuses() {
			require.NotEqual(t, "is "+string(status), sentence(delivery(string(status), nil)), "it has no sentence of its own")
		}
	}
}

func TestWithoutAnInstanceThatDeliversTheCureIsToStartOne(t *testing.T) {
	f := explain.Facts{Delivery: waiting("permits", nil), Instances: []wire.Instance{{Name: "accepts"}}, Now: noon}
	require.Contains(t, explain.Sentence(f), "waits, since no instance delivers; start `hookladder serve`")
	f.Instances = nil
	require.Contains(t, explain.Sentence(f), "is due and waits for the concurrency limit; more instances")
	f.Instances = []wire.Instance{{Name: "busy", Permits: 10, InFlight: 10}, {Name: "accepts"}}
	require.Contains(t, explain.Sentence(f), "is due and waits for the concurrency limit: 10 of at most 10 attempts are under way; more instances, or a larger MAX_IN_FLIGHT, attempt more at once")
	f.Delivery.WaitingFor = "moonlight"
	require.Equal(t, lane+":order_17 waits", explain.Sentence(f))
}

func TestWhatIsTakenIsToldAsThat(t *testing.T) {
	to := func(d wire.Delivery) wire.Delivery {
		d.ID, d.Destination, d.URL = "q_orders:order_17", "q_orders", ""
		return d
	}
	queue := &wire.LaneState{Lane: "q_orders", Queue: "orders", Kind: "pull", InFlight: 128}
	for _, c := range []struct {
		delivery wire.Delivery
		want     string
	}{
		{waiting("consumer", nil), "waits until a program takes it from queue orders; start one that handles it, or take it over HTTP: `POST /v1/queues/orders/take`"},
		{waiting("limit", nil), "waits for one that was taken to be settled: of queue orders as many are taken as may be, 128; a larger ENDPOINT_MAX_IN_FLIGHT allows more"},
		{delivery("in_flight", nil), "is under way: it was taken from queue orders, for attempt 1"},
		{delivery("delivered", func(d *wire.Delivery) { d.DeliveredAt = at(11, 0) }), "was delivered to queue orders at 11:00:00, at attempt 1; `hookladder retry order_17 --destination q_orders` sends it again"},
		{dead("exhausted", func(d *wire.Delivery) { d.LastError = "no such order" }), "died at 11:00:00 after 10 attempts, the last of its ladder (no such order); once its handler works again, `hookladder retry order_17 --destination q_orders` starts a new ladder"},
		{dead("rejected", nil), "died at 11:00:00 after 10 attempts, since the program that took it gave it up; `hookladder retry order_17 --destination q_orders` starts a new ladder"},
	} {
		got := explain.Sentence(explain.Facts{Delivery: to(c.delivery), Lane: queue, Queue: "orders", Now: noon})
		require.Equal(t, "q_orders:order_17 "+c.want, got)
	}
	own := &wire.LaneState{Lane: lane, Endpoint: lane, UID: "till-7", Kind: "pull", InFlight: 2}
	d := waiting("limit", func(d *wire.Delivery) { d.URL = "" })
	require.Contains(t, explain.Sentence(explain.Facts{Delivery: d, Lane: own, Now: noon}),
		"of till-7 as many are taken as may be, 2; `hookladder endpoints update ep_123456789 --max-in-flight N` allows more")
}

// explained are all sentences for a reader.
func explained(reader explain.Reader) (list []string) {
	for _, c := range sentences {
		how, cure := explain.Standing(explain.Facts{
			Delivery: c.delivery, Lane: c.lane, Expires: at(10, 59), Now: noon, For: reader, Instances: []wire.Instance{{Permits: 8, InFlight: 8}},
		})
		list = append(list, how+"; "+cure)
	}
	return list
}

func TestInTheConsoleButtonsHelp(t *testing.T) {
	for _, text := range explained(explain.Console) {
		elsewhere := strings.NewReplacer("`hookladder doctor`", "", "`hookladder restore`", "", "`hookladder verify`", "") // there is no button for these
		require.NotContains(t, elsewhere.Replace(text), "`hookladder", text)
	}
	how, cure := explain.Standing(explain.Facts{Delivery: dead("exhausted", nil), Now: noon, For: explain.Console})
	require.Equal(t, "died at 11:00:00 "+noon.Format("MST")+" after 10 attempts, the last of its ladder", how)
	require.Equal(t, "once api.shop.example answers again, “Send again” starts a new ladder", cure)
}

// Our settings, and the names of our people, are nothing for a merchant.
func TestAMerchantIsToldNothingOfOurInside(t *testing.T) {
	for _, text := range explained(explain.Merchant) {
		for _, word := range []string{
			"ALLOW_NETS", "MAX_WAITING", "DISABLE_AFTER", "MAX_IN_FLIGHT", "10.1.2.3", "ENCRYPTION_KEY", "hookladder ", "instance", "permit", " by ", "lane", "System",
		} {
			require.NotContains(t, text, word)
		}
	}
}

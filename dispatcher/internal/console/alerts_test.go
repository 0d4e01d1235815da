package console_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/internal/console"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

var alertsAt = wire.Time{Time: time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)}

func TestTheMostUrgentComesFirst(t *testing.T) {
	list := console.AlertsOf(console.AlertsFrom{
		Stats: wire.Stats{
			Store: wire.Store{Durable: "no", Durability: "fsync", Checks: []wire.Check{{Name: "eviction", Holds: "no", Needed: true, Detail: "it forgets"}, {Name: "memory", Holds: "no"}}},
			Paused: []wire.LaneState{
				{Lane: "*", State: "paused", Why: "all", By: "olga"}, {Lane: "ep_1", Endpoint: "ep_1", UID: "harbor", State: "paused", Waiting: 512, By: "olga", Since: alertsAt},
			},
			Lanes: []wire.LaneState{
				{Lane: "ep_1", Endpoint: "ep_1", State: "paused", Waiting: 512}, {Lane: "u_1", URL: "https://user:hunter2@api.shop.example", State: "open", Fails: 20, Waiting: 1},
				{Lane: "ep_2", Endpoint: "ep_2", UID: "lumen", State: "failing", Fails: 3, Waiting: 7, Since: alertsAt}, {Lane: "ep_9", State: "active", Waiting: 9000}, {Lane: "ep_6", Endpoint: "ep_6", UID: "new", State: "paused", Why: "unverified", By: "link:lnk_7", Waiting: 1}, {Lane: "q_a", Queue: "a", State: "limited", Why: "sealed"},
			},
		},
		Endpoints: []wire.EndpointView{
			{ID: "ep_2", State: "open"}, {ID: "ep_3", Endpoint: wire.Endpoint{URL: "https://atlas.example/p"}, State: "disabled", DisabledReason: "gone", DisabledAt: alertsAt}, {ID: "ep_4", State: "active"},
			{ID: "ep_5", State: "unverified", Waiting: 2}, {ID: "ep_7", Endpoint: wire.Endpoint{UID: "books"}, State: "active", FailingSince: alertsAt, Waiting: 1},
		},
		Jobs: []wire.Job{
			{ID: "j1", Kind: "retry", State: "running", Matched: 200, Done: 50, Failed: 2}, {ID: "j2", Kind: "purge", State: "failed", Error: "no room", EndedAt: alertsAt}, {ID: "j3", State: "done"},
			{ID: "j4", Kind: "cancel", State: "waiting", Matched: 3, Done: 1},
		},
		Archive: &console.AlertsArchive{Since: alertsAt, Error: "refused"},
	})
	var got []string
	for _, n := range list {
		got = append(got, n.Title+": "+n.Text+" "+n.Link)
	}
	require.Equal(t, []string{
		"Redis does not keep what DURABILITY promises: Nothing is accepted until it does: fsync. /system",
		"Redis is not as it should be: eviction: it forgets. /system",
		"Everything is paused: Nothing is sent at all until it is resumed, by olga. /system",
		"The archive is away: Deliveries continue. Redis keeps finished ones until the archive is back. refused /system",
		"a can't be opened: An instance lacks the ENCRYPTION_KEY with which it was stored. 0 wait. /lanes/q_a",
		"atlas.example is disabled: Its receiver answered 410, so its deliveries die. /endpoints/ep_3",
		"Purge failed: no room. /jobs/j2",
		"new is not verified: A link set its URL; a test that succeeds lets it go on. 1 waits. /endpoints/ep_6",
		"ep_5 is not verified: A link set its URL; a test that succeeds lets it go on. 2 wait. /endpoints/ep_5",
		"harbor is paused: 512 wait and are kept, by olga. /endpoints/ep_1",
		"Cancellation waits: 1 of 3 done; the rest belongs to destinations that are stopped, paused or full. /jobs/j4",
		"Replay is running: 50 of 200 done, 2 could not be. /jobs/j1",
	}, got)
	require.Equal(t, alertsAt, list[5].Since)
}

func TestWhereAllIsWellNothingIsNeeded(t *testing.T) {
	require.Empty(t, console.AlertsOf(console.AlertsFrom{Stats: wire.Stats{Store: wire.Store{Durable: "yes"}, Lanes: []wire.LaneState{{Lane: "ep_1", State: "limited", Why: "rate"}}}}))
}

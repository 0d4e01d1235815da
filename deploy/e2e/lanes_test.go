package e2e_test

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

const opsKey, nightKey = "ops-key-0123456789", "night-key-0123456789"

// nightName is how a key without a name is called.
func nightName() string {
	sum := sha256.Sum256([]byte(nightKey))
	return "key:" + hex.EncodeToString(sum[:4])
}

// keyed is the client of another key.
func (i *instance) keyed(key string) *client.Client {
	i.t.Helper()
	c, err := client.New(i.URL, key, kit.Once)
	require.NoError(i.t, err)
	return c
}

// lanes reads all lanes, by name and in their order.
func (i *instance) lanes() (byName map[string]wire.LaneState, order []string) {
	i.t.Helper()
	byName = map[string]wire.LaneState{}
	for cursor := ""; ; {
		page, err := i.Lanes(i.t.Context(), 2, cursor)
		require.NoError(i.t, err)
		for _, l := range page.Data {
			require.NotContains(i.t, byName, l.Lane, "it comes twice")
			byName[l.Lane] = l
			order = append(order, l.Lane)
		}
		if page.NextCursor == nil {
			return byName, order
		}
		cursor = *page.NextCursor
	}
}

func TestAPauseTellsByWhomAndSinceWhen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.serve("PARTITIONS=4", "LADDER=1h", "API_KEYS="+opsKey+":admin:ops,"+nightKey+":admin")
	i.Client = i.keyed(opsKey)
	night := i.keyed(nightKey)
	w.receiver.answers(status(http.StatusInternalServerError))
	for id, tenant := range map[string]string{"m1": "", "m2": "shop_2", "m3": "shop_3"} {
		i.publish(wire.Message{ID: id, Tenant: tenant, URL: w.receiver.URL(0) + "/hooks?token=x"})
		i.until(id, "retrying")
	}
	quiet := i.delivery("m2").Destination
	before, err := i.PauseLane(t.Context(), "https://new.example/hooks", "shop_9")
	require.NoError(t, err, "a URL is held before its first message")
	require.Equal(t, []string{"https://new.example", "shop_9", "paused", "paused", "key:ops"},
		[]string{before.URL, before.Tenant, before.State, before.Why, before.By})
	require.False(t, before.Since.IsZero())
	paused, err := night.PauseLane(t.Context(), w.receiver.URL(0), "shop_3")
	require.NoError(t, err)
	require.Equal(t, nightName(), paused.By)
	again, err := i.PauseLane(t.Context(), paused.Lane, "")
	require.NoError(t, err)
	require.Equal(t, nightName(), again.By, "it is held already")
	resumed, err := i.ResumeLane(t.Context(), quiet, "")
	require.NoError(t, err)
	require.Equal(t, []string{w.receiver.URL(0), "shop_2", "active", "", ""},
		[]string{resumed.URL, resumed.Tenant, resumed.State, resumed.Why, resumed.By})

	all, err := night.PauseLane(t.Context(), client.AllLanes, "")
	require.NoError(t, err)
	require.Equal(t, []string{"*", "paused", "paused", nightName()}, []string{all.Lane, all.State, all.Why, all.By})
	rows, order := i.lanes()
	require.Len(t, order, 5)
	require.Equal(t, "*", order[0])
	require.ElementsMatch(t, []string{before.Lane, paused.Lane}, order[1:3], "paused lanes come first")
	for _, lane := range order[3:] {
		require.Equal(t, w.receiver.URL(0), rows[lane].URL, "between two rungs too")
		require.Equal(t, []string{"paused", "all", nightName()}, []string{rows[lane].State, rows[lane].Why, rows[lane].By})
		require.False(t, rows[lane].Since.Before(all.Since.Time), "partitions are told one after another")
	}
	require.Equal(t, before.Since, rows[before.Lane].Since)
	stats, err := i.Stats(t.Context())
	require.NoError(t, err)
	require.Equal(t, 3, stats.PausedLanes)
	require.Equal(t, "*", stats.Paused[0].Lane)
	require.Equal(t, []string{paused.Lane, nightName()}, []string{stats.Lanes[0].Lane, stats.Lanes[0].By})
	ready, err := i.Ready(t.Context())
	require.NoError(t, err)
	require.Equal(t, stats.Paused, ready.Paused)
	stranger, err := i.keyed("").Ready(t.Context())
	require.NoError(t, err)
	require.Empty(t, stranger.Paused)
	shown := mustRun(t, []string{"HOOKLADDER_URL=" + i.URL, "HOOKLADDER_KEY=" + opsKey}, "", "lanes")
	require.Zero(t, shown.code)
	require.Regexp(t, `(?s)^LANE .*\n\* +paused +paused .* `+nightName()+` `, shown.out)
	_, err = night.ResumeLane(t.Context(), client.AllLanes, "")
	require.NoError(t, err)
	rows, _ = i.lanes()
	require.Equal(t, "paused", rows[paused.Lane].State, "a lane's own pause stays")
	require.Equal(t, "active", rows[quiet].State)

	require.Equal(t, map[string]any{"by": "key:ops", "lane": before.Lane, "url": "https://new.example", "tenant": "shop_9"}, fieldsOf(i.lines("lane paused")[0]))
	require.Equal(t, map[string]any{"by": nightName(), "lane": "*"}, fieldsOf(i.lines("all lanes paused")[0]))
	require.Equal(t, map[string]any{"by": nightName(), "lane": "*"}, fieldsOf(i.lines("all lanes resumed")[0]))
	require.Equal(t, map[string]any{"by": "key:ops", "lane": quiet, "url": w.receiver.URL(0), "tenant": "shop_2"}, fieldsOf(i.lines("lane resumed")[0]))
	require.NotContains(t, i.log(), opsKey)
	require.NotContains(t, i.log(), nightKey)
}

// fieldsOf is a line of the log without what every line has.
func fieldsOf(line map[string]any) map[string]any {
	for _, name := range []string{"time", "level", "msg"} {
		delete(line, name)
	}
	return line
}

func TestAnEndpointsLaneTellsWhoDisabledOrDeletedIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.serve("API_KEYS=" + opsKey + ":admin:ops," + nightKey + ":admin")
	i.Client = i.keyed(opsKey)
	w.receiver.answers(func(rw http.ResponseWriter, r *http.Request, _ string, _ int) {
		if r.URL.Path == "/gone" {
			rw.WriteHeader(http.StatusGone)
		}
	})
	gone := i.endpoint("/gone", wire.Endpoint{UID: "gone"})
	off := i.endpoint("/off", wire.Endpoint{UID: "off", Topics: []string{}})
	dropped := i.endpoint("/dropped", wire.Endpoint{UID: "dropped", Topics: []string{}})
	i.publish(wire.Message{ID: "m1", Endpoint: "gone"})
	i.until("m1", "dead")
	i.publish(wire.Message{ID: "m2", Endpoint: "dropped", Delay: hour})
	_, err := i.PatchEndpoint(t.Context(), "off", map[string]any{"disabled": true})
	require.NoError(t, err)
	_, err = i.PauseEndpoint(t.Context(), "dropped")
	require.NoError(t, err)
	rows, order := i.lanes()
	require.Equal(t, dropped.ID, order[0], "it is paused")
	require.Equal(t, "dropped", rows[dropped.ID].UID)
	_, err = i.keyed(nightKey).DeleteEndpoint(t.Context(), "dropped")
	require.NoError(t, err)
	i.until("m2", "cancelled")

	rows, _ = i.lanes()
	for lane, want := range map[string][]string{
		gone.ID:    {"disabled", "gone", "system"},
		off.ID:     {"disabled", "operator", "key:ops"},
		dropped.ID: {"deleted", "deleted", nightName()},
	} {
		require.Equal(t, want, []string{rows[lane].State, rows[lane].Why, rows[lane].By}, lane)
		require.False(t, rows[lane].Since.IsZero())
	}
	for uid, want := range map[string]string{"gone": "gone", "off": "operator"} {
		view, err := i.Endpoint(t.Context(), uid)
		require.NoError(t, err)
		require.Equal(t, want, view.DisabledReason)
		require.False(t, view.DisabledAt.IsZero())
	}
	require.Equal(t, map[string]any{"by": "system", "lane": gone.ID, "url": w.receiver.URL(0), "why": "gone"}, fieldsOf(i.lines("endpoint disabled")[0]))
	view, err := i.ResumeEndpoint(t.Context(), "gone")
	require.NoError(t, err)
	require.Empty(t, view.DisabledReason)
	require.True(t, view.DisabledAt.IsZero())

	for _, name := range []string{"u_nope", "u_AbCdEfGhIj", "ep_nope00000", "nobody", dropped.ID} {
		for _, call := range []func() error{
			func() error { _, err := i.PauseLane(t.Context(), name, ""); return err },
			func() error { _, err := i.ResumeLane(t.Context(), name, ""); return err },
		} {
			p := problemOf(t, call())
			require.Equal(t, 404, p.Status, name)
			require.Contains(t, p.Detail, map[bool]string{true: "GET /v1/lanes lists them", false: "GET /v1/endpoints lists them"}[strings.HasPrefix(name, "u_")], name)
		}
	}
	rows, _ = i.lanes()
	require.NotContains(t, rows, "u_nope")
}

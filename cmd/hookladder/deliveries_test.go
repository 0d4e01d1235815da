package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

const (
	deadOne = `{"id":"u_1:order_17","message_id":"order_17","created_at":"2026-01-02T03:00:00Z","destination":"u_1","status":"dead","topic":"payment.paid","subject":"=1+1","tenant":"m7","url":"https://shop.example/a,b",` +
		`"ended_at":"2026-01-02T03:04:05.678Z","next_attempt_at":null,"attempts":10,"last_status_code":500,"last_error":"status 500","dead_reason":"exhausted"}`
	waitingOne = `{"id":"u_1:order_18","message_id":"order_18","destination":"u_1","status":"retrying","topic":"payment.paid","next_attempt_at":"2026-01-02T03:04:05.678Z","attempts":1,"waiting_for":"rung"}`

	csvHeader = "id,message_id,tenant,subject,topic,destination,url,status,created_at,ended_at,attempts,status_code,dead_reason,error\r\n"
	deadRow   = "u_1:order_17,order_17,m7,'=1+1,payment.paid,u_1,\"https://shop.example/a,b\",dead,2026-01-02T03:00:00.000Z,2026-01-02T03:04:05.678Z,10,500,exhausted,status 500\r\n"
)

func listPage(next, deliveries string) string {
	if next != "null" {
		next = `"` + next + `"`
	}
	return `{"data":[` + deliveries + `],"next_cursor":` + next + `,"looked_at":5000}`
}

func TestDeliveriesAreFoundByEachFilter(t *testing.T) {
	environ, calls := newTestLanes(t, listPage("null", ""))
	got := command(t, environ, "", "deliveries", "--status", "dead", "--status", "retrying", "--topic", "payment.*", "--tenant", "m7", "--subject", "order 17",
		"--destination", "https://shop.example", "--dead-reason", "gone", "--failed", "--since", "2026-01-02T03:04:05+01:00", "--until", "2026-02-01T00:00:00Z", "--cursor", "c1")
	require.Equal(t, exitOK, got.code, got.err)
	require.Equal(t, []string{"GET /v1/deliveries?cursor=c1&dead_reason=gone&destination=https%3A%2F%2Fshop.example&failed=true&limit=50" +
		"&since=2026-01-02T02%3A04%3A05Z&status=dead&status=retrying&subject=order+17&tenant=m7&topic=payment.%2A&until=2026-02-01T00%3A00%3A00Z"}, *calls)

	environ, calls = newTestLanes(t, listPage("null", ""))
	require.Equal(t, exitOK, command(t, environ, "", "deliveries", "--since", "36h").code)
	require.Contains(t, (*calls)[0], "&since=2")
	for _, args := range [][]string{{"--since", "yesterday"}, {"--limit", "0"}, {"--limit", "100001"}, {"order_17"}, {"--csv", "--json"}} {
		require.Equal(t, exitUsage, command(t, environ, "", append([]string{"deliveries"}, args...)...).code, args)
	}
	require.Len(t, *calls, 1)
}

func TestDeliveriesAreReadPageByPage(t *testing.T) {
	pages := []string{listPage("c2", deadOne), listPage("c3", ""), listPage("c4", waitingOne)}
	environ, calls := newTestLanes(t, pages...)
	got := command(t, environ, "", "deliveries", "--limit", "2")
	require.Equal(t, exitOK, got.code, got.err)
	require.Equal(t, []string{"GET /v1/deliveries?limit=2", "GET /v1/deliveries?cursor=c2&limit=1", "GET /v1/deliveries?cursor=c3&limit=1"}, *calls)
	require.Equal(t, "more with --cursor c4\n", got.err)
	require.Contains(t, got.out, "u_1:order_17  dead      10        500")
	require.Contains(t, got.out, "exhausted: status 500")

	environ, _ = newTestLanes(t, pages...)
	var page wire.Page
	require.NoError(t, json.Unmarshal([]byte(command(t, environ, "", "deliveries", "--limit", "2", "--json").out), &page))
	require.Len(t, page.Data, 2)
	require.Equal(t, "c4", *page.NextCursor)
	require.Equal(t, 15000, page.LookedAt)
}

func TestDeliveriesThatFindTooLittleSayHowFarTheyLooked(t *testing.T) {
	environ, calls := newTestLanes(t, strings.Split(strings.Repeat(listPage("c2", "")+"\n", mostPages), "\n")...)
	got := command(t, environ, "", "deliveries")
	require.Equal(t, exitOK, got.code, got.err)
	require.Len(t, *calls, mostPages)
	require.Equal(t, "read 5000000 deliveries; there are more\nmore with --cursor c2\n", got.err)
}

func TestDeliveriesAsCSVAreNoFormulas(t *testing.T) {
	environ, _ := newTestLanes(t, listPage("null", deadOne+","+waitingOne))
	got := command(t, environ, "", "deliveries", "--csv")
	require.Equal(t, csvHeader+deadRow+"u_1:order_18,order_18,,,payment.paid,u_1,,retrying,,,1,,,\r\n", got.out)
}

func endedPage(next, resume, deliveries string) string {
	if next != "null" {
		next = `"` + next + `"`
	}
	return `{"data":[` + deliveries + `],"next_cursor":` + next + `,"resume_cursor":"` + resume + `","looked_at":5000,"complete_since":"2026-01-01T00:00:00Z"}`
}

func TestWhatEndedOfAnEndpointIsReadPageByPage(t *testing.T) {
	pages := []string{endedPage("c2", "c2", deadOne), endedPage("c3", "c3", ""), endedPage("null", "c4", deadOne)}
	environ, calls := newTestLanes(t, pages...)
	got := command(t, environ, "", "endpoints", "deliveries", "shop-42", "--status", "dead", "--since", "2026-01-02T03:04:05Z", "--until", "2026-02-01T00:00:00Z", "--csv", "--limit", "3", "--cursor", "c1")
	require.Equal(t, exitOK, got.code, got.err)
	span := "&since=2026-01-02T03%3A04%3A05Z&status=dead&until=2026-02-01T00%3A00%3A00Z"
	require.Equal(t, []string{
		"GET /v1/endpoints/shop-42/deliveries?cursor=c1&limit=3" + span,
		"GET /v1/endpoints/shop-42/deliveries?cursor=c2&limit=2" + span,
		"GET /v1/endpoints/shop-42/deliveries?cursor=c3&limit=2" + span,
	}, *calls)
	require.Equal(t, csvHeader+deadRow+deadRow, got.out)
	require.Equal(t, "complete since 2026-01-01T00:00:00.000Z: some earlier deliveries are not stored any more\ndeliveries that finish later with --cursor c4\n", got.err)

	environ, _ = newTestLanes(t, pages...)
	got = command(t, environ, "", "endpoints", "deliveries", "shop-42", "--limit", "1")
	require.Contains(t, got.err, "more with --cursor c2\n")
	require.Contains(t, got.out, "u_1:order_17  dead")

	environ, _ = newTestLanes(t, pages...)
	var page wire.EndedPage
	require.NoError(t, json.Unmarshal([]byte(command(t, environ, "", "endpoints", "deliveries", "shop-42", "--json").out), &page))
	require.Len(t, page.Data, 2)
	require.Equal(t, "c4", page.ResumeCursor)
	require.Equal(t, 15000, page.LookedAt)

	for _, args := range [][]string{{}, {"shop-42", "--limit", "0"}, {"shop-42", "--since", "yesterday"}, {"shop-42", "--csv", "--json"}} {
		require.Equal(t, exitUsage, command(t, environ, "", append([]string{"endpoints", "deliveries"}, args...)...).code, args)
	}
}

func TestTheDeadAreListedBehindHowManyThereAreOfEachReason(t *testing.T) {
	groups := `{"data":[{"destination":"u_1","reason":"gone","count":40,"newest":"2026-01-02T03:04:05Z"},{"destination":"u_2","reason":"exhausted","count":30,"newest":null},` +
		`{"destination":"u_3","reason":"exhausted","count":20,"newest":"2026-01-03T03:04:05Z"}],"next_cursor":null}`
	environ, calls := newTestLanes(t, groups, listPage("null", deadOne))
	got := command(t, environ, "", "dead", "--tenant", "m7")
	require.Equal(t, exitOK, got.code, got.err)
	require.Equal(t, []string{"GET /v1/dead?limit=500&tenant=m7", "GET /v1/deliveries?limit=50&status=dead&tenant=m7"}, *calls)
	lines := strings.Split(got.out, "\n")
	require.Equal(t, []string{"exhausted", "50", "2"}, strings.Fields(lines[1])[:3])
	require.Equal(t, []string{"gone", "40", "1"}, strings.Fields(lines[2])[:3])
	require.Contains(t, got.out, "u_1:order_17")

	for _, args := range [][]string{{"--topic", "a"}, {"--since", "24h"}, {"--until", "24h"}, {"--cursor", "c"}} {
		environ, calls = newTestLanes(t, listPage("null", deadOne))
		require.Equal(t, exitOK, command(t, environ, "", append([]string{"dead"}, args...)...).code)
		require.Len(t, *calls, 1, "the counts don't have this filter: %s", args)
	}
	environ, _ = newTestLanes(t, groups, listPage("null", deadOne))
	var page wire.Page
	require.NoError(t, json.Unmarshal([]byte(command(t, environ, "", "dead", "--json").out), &page))
	require.Len(t, page.Data, 1)
}

package console_test

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/internal/console"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// Visitors of all kinds.
var (
	admin    = console.Visitor{Key: &dispatcher.Browser{Name: "boss", Key: "01", Read: true, Bodies: true, Admin: true}}
	reader   = console.Visitor{Key: &dispatcher.Browser{Name: "support", Key: "02", Read: true, Bodies: true}}
	lengths  = console.Visitor{Key: &dispatcher.Browser{Name: "audit", Key: "03", Read: true}}
	sender   = console.Visitor{Key: &dispatcher.Browser{Name: "shop", Key: "04"}}
	viewA    = console.Visitor{Link: &dispatcher.Link{ID: "lnk_view", Tenant: "A"}}
	manageA  = console.Visitor{Link: &dispatcher.Link{ID: "lnk_manage", Tenant: "A", Manage: true}}
	singleA  = console.Visitor{Link: &dispatcher.Link{ID: "lnk_single", Tenant: "A", Manage: true, Endpoint: "ep_aaaaaaaaa"}}
	manageB  = console.Visitor{Link: &dispatcher.Link{ID: "lnk_b", Tenant: "B", Manage: true}}
	nowhere  = console.Visitor{Link: &dispatcher.Link{ID: "lnk_none", Manage: true}} // of no tenant: there must be none such
	stranger = console.Visitor{}
)

// clientCall is a method of the client on something of tenant A.
type clientCall struct {
	right console.Right
	do    func(context.Context, *console.VisitorClient) error
}

func just[T any](_ T, err error) error { return err }

const ofA = "ep_aaaaaaaaa"

// clientCalls are all methods of the client that call the API, by their names.
var clientCalls = map[string]clientCall{
	"Stats":     {console.Survey, func(ctx context.Context, d *console.VisitorClient) error { return just(d.Stats(ctx)) }},
	"Ready":     {console.Survey, func(ctx context.Context, d *console.VisitorClient) error { return just(d.Ready(ctx)) }},
	"Instances": {console.Survey, func(ctx context.Context, d *console.VisitorClient) error { return just(d.Instances(ctx, 0, "")) }},
	"Dead": {console.Survey, func(ctx context.Context, d *console.VisitorClient) error {
		return just(d.Dead(ctx, client.DeadFilter{}))
	}},
	"Lanes":   {console.Survey, func(ctx context.Context, d *console.VisitorClient) error { return just(d.Lanes(ctx, 0, "")) }},
	"LanesOf": {console.See, func(ctx context.Context, d *console.VisitorClient) error { return just(d.LanesOf(ctx, "", ofA)) }},
	"Jobs":    {console.Survey, func(ctx context.Context, d *console.VisitorClient) error { return just(d.Jobs(ctx, 0, "")) }},
	"Job":     {console.Survey, func(ctx context.Context, d *console.VisitorClient) error { return just(d.Job(ctx, "job_1")) }},
	"Audit": {console.Govern, func(ctx context.Context, d *console.VisitorClient) error {
		return just(d.Audit(ctx, client.AuditFilter{}))
	}},
	"Deliveries": {console.See, func(ctx context.Context, d *console.VisitorClient) error {
		return just(d.Deliveries(ctx, client.Filter{}))
	}},
	"Attempts": {console.See, func(ctx context.Context, d *console.VisitorClient) error {
		return just(d.Attempts(ctx, client.AttemptFilter{}))
	}},
	"Message": {console.See, func(ctx context.Context, d *console.VisitorClient) error { return just(d.Message(ctx, "of_a")) }},
	"Endpoints": {console.See, func(ctx context.Context, d *console.VisitorClient) error {
		return just(d.Endpoints(ctx, client.EndpointFilter{}))
	}},
	"Endpoint": {console.See, func(ctx context.Context, d *console.VisitorClient) error { return just(d.Endpoint(ctx, ofA)) }},
	"EndpointDeliveries": {console.See, func(ctx context.Context, d *console.VisitorClient) error {
		return just(d.EndpointDeliveries(ctx, ofA, client.EndedFilter{}))
	}},
	"Retry":  {console.Attempt, func(ctx context.Context, d *console.VisitorClient) error { return just(d.Retry(ctx, "of_a", ofA)) }},
	"Cancel": {console.Operate, func(ctx context.Context, d *console.VisitorClient) error { return just(d.Cancel(ctx, "of_a", ofA)) }},
	"Resend": {console.Operate, func(ctx context.Context, d *console.VisitorClient) error { return just(d.Resend(ctx, "of_a")) }},
	"Survey": {console.Operate, func(ctx context.Context, d *console.VisitorClient) error {
		return just(d.Survey(ctx, "replay", wire.JobRequest{}))
	}},
	"StartJob": {console.Operate, func(ctx context.Context, d *console.VisitorClient) error {
		return just(d.StartJob(ctx, "replay", wire.JobRequest{}))
	}},
	"StopJob":    {console.Operate, func(ctx context.Context, d *console.VisitorClient) error { return just(d.StopJob(ctx, "job_1")) }},
	"ResumeJob":  {console.Operate, func(ctx context.Context, d *console.VisitorClient) error { return just(d.ResumeJob(ctx, "job_1")) }},
	"PauseLane":  {console.Operate, func(ctx context.Context, d *console.VisitorClient) error { return just(d.PauseLane(ctx, ofA, "")) }},
	"ResumeLane": {console.Operate, func(ctx context.Context, d *console.VisitorClient) error { return just(d.ResumeLane(ctx, ofA, "")) }},
	"CreateEndpoint": {console.Edit, func(ctx context.Context, d *console.VisitorClient) error {
		return just(d.CreateEndpoint(ctx, wire.Endpoint{}))
	}},
	"PatchEndpoint": {console.Edit, func(ctx context.Context, d *console.VisitorClient) error {
		return just(d.PatchEndpoint(ctx, ofA, map[string]any{"url": "https://x.example"}))
	}},
	"DeleteEndpoint": {console.Configure, func(ctx context.Context, d *console.VisitorClient) error { return just(d.DeleteEndpoint(ctx, ofA)) }},
	"PauseEndpoint":  {console.Hold, func(ctx context.Context, d *console.VisitorClient) error { return just(d.PauseEndpoint(ctx, ofA)) }},
	"ConfirmEndpoint": {console.Configure, func(ctx context.Context, d *console.VisitorClient) error {
		return just(d.ConfirmEndpoint(ctx, ofA, "https://A.example/"))
	}},
	"ResumeEndpoint": {console.Hold, func(ctx context.Context, d *console.VisitorClient) error { return just(d.ResumeEndpoint(ctx, ofA)) }},
	"RotateSecret": {console.Edit, func(ctx context.Context, d *console.VisitorClient) error {
		return just(d.RotateSecret(ctx, ofA, wire.Rotation{}))
	}},
	"EndpointSecret": {console.Configure, func(ctx context.Context, d *console.VisitorClient) error { return just(d.EndpointSecret(ctx, ofA)) }},
	"Links":          {console.Govern, func(ctx context.Context, d *console.VisitorClient) error { return just(d.Links(ctx, 0, "")) }},
	"CreateLink": {console.Govern, func(ctx context.Context, d *console.VisitorClient) error {
		return just(d.CreateLink(ctx, wire.LinkRequest{}))
	}},
	"RevokeLink":   {console.Govern, func(ctx context.Context, d *console.VisitorClient) error { return d.RevokeLink(ctx, "lnk_1") }},
	"TestEndpoint": {console.Attempt, func(ctx context.Context, d *console.VisitorClient) error { return just(d.TestEndpoint(ctx, ofA)) }},
}

func TestEachCallNeedsItsRightAndIsTheVisitors(t *testing.T) {
	takesContext := func(m reflect.Method) bool {
		return m.Type.NumIn() > 1 && m.Type.In(1) == reflect.TypeFor[context.Context]() && m.Name != "Context"
	}
	for m := range reflect.TypeFor[*console.VisitorClient]().Methods() {
		if takesContext(m) {
			require.Contains(t, clientCalls, m.Name, "say in clientCalls which right this method needs")
		}
	}
	for name, c := range clientCalls {
		for who, v := range map[string]console.Visitor{"admin": admin, "reader": reader, "sender": sender, "view": viewA, "manage": manageA, "B": manageB, "none": nowhere, "nobody": stranger} {
			api := newFakeAPI()
			err := c.do(t.Context(), api.visitor(t, v))
			linkOfAnother := v.Link != nil && v.Link.Tenant != "A" && !slices.Contains([]string{"Deliveries", "Attempts", "Endpoints", "CreateEndpoint", "LanesOf"}, name)
			switch {
			case !v.May(c.right):
				require.ErrorIs(t, err, v.Refusal(c.right), "%s by %s", name, who)
				require.Empty(t, api.calls, "%s by %s: nothing was asked for", name, who)
			case linkOfAnother:
				require.ErrorIs(t, err, console.ErrHidden, "%s by %s", name, who)
				require.False(t, slices.ContainsFunc(api.calls, func(s string) bool { return !strings.HasPrefix(s, "GET ") }), "%s by %s: nothing was changed", name, who)
				require.Empty(t, api.spent)
			default:
				require.NoError(t, err, "%s by %s", name, who)
				by := "key:boss"
				switch {
				case v.Link != nil:
					by = "link:" + v.Link.ID
				case v.Key != nil:
					by = "key:" + v.Key.Name
				}
				for _, caller := range api.callers {
					require.Equal(t, by, caller, "%s by %s", name, who)
				}
			}
		}
	}
}

func TestALinkSeesItsOwnOnly(t *testing.T) {
	api := newFakeAPI()
	d := api.visitor(t, manageA)

	page, err := d.Deliveries(t.Context(), client.Filter{Tenants: []string{"B"}})
	require.NoError(t, err)
	require.Contains(t, api.queries[0], "tenant=A", "whatever tenant the page asks for")
	require.NotContains(t, api.queries[0], "tenant=B")
	for _, one := range page.Data {
		require.Equal(t, "A", one.Tenant)
		require.NotEqual(t, "q_orders", one.Destination)
	}
	require.Len(t, page.Data, 4)

	endpoints, err := d.Endpoints(t.Context(), client.EndpointFilter{Tenants: []string{"B"}})
	require.NoError(t, err)
	require.Len(t, endpoints.Data, 2)
	attempts, err := d.Attempts(t.Context(), client.AttemptFilter{})
	require.NoError(t, err)
	require.Len(t, attempts.Data, 1)
	lanes, err := d.LanesOf(t.Context(), "B", "ep_aaaaaaaaa", "ep_ccccccccc", "q_orders")
	require.NoError(t, err)
	require.Len(t, lanes.Data, 1)
	require.NotContains(t, api.queries[len(api.queries)-1], "q_orders")
	lanes, err = d.LanesOf(t.Context(), "", "ep_gone00000")
	require.NoError(t, err, "one that is gone is as one of another")
	require.Empty(t, lanes.Data)

	m, err := d.Message(t.Context(), "of_a")
	require.NoError(t, err)
	require.Len(t, m.Deliveries, 3, "without the operator's queue")
	ended, err := d.EndpointDeliveries(t.Context(), ofA, client.EndedFilter{})
	require.NoError(t, err)
	require.Len(t, ended.Data, 1, "a message of no tenant went there too")

	for _, id := range []string{"of_b", "of_none", "queued", "nothing"} {
		_, err := d.Message(t.Context(), id)
		require.Equal(t, console.ErrHidden, err, "%s: a foreign one and a missing one get the same error", id)
		_, err = d.Retry(t.Context(), id, "ep_ccccccccc")
		require.Equal(t, console.ErrHidden, err, id)
	}
	for _, name := range []string{"ep_ccccccccc", "uid-ep_ccccccccc", "ep_ddddddddd", "ep_nothing00", "nothing", "*"} {
		_, err := d.Endpoint(t.Context(), name)
		require.Equal(t, console.ErrHidden, err, name)
		_, err = d.Deliveries(t.Context(), client.Filter{Destinations: []string{name}})
		require.Equal(t, console.ErrHidden, err, "as a filter: %s", name)
		_, err = d.Attempts(t.Context(), client.AttemptFilter{Destinations: []string{name}})
		require.Equal(t, console.ErrHidden, err, "as a filter: %s", name)
	}
	require.Empty(t, api.spent, "a refusal does not count")
}

func TestALinkOfOneEndpointSeesNoOther(t *testing.T) {
	api := newFakeAPI()
	d := api.visitor(t, singleA)
	page, err := d.Deliveries(t.Context(), client.Filter{Destinations: []string{"ep_bbbbbbbbb"}})
	require.NoError(t, err)
	require.Equal(t, "destination=ep_aaaaaaaaa&tenant=A", api.queries[0])
	require.Len(t, page.Data, 1)
	m, err := d.Message(t.Context(), "of_a")
	require.NoError(t, err)
	require.Len(t, m.Deliveries, 1)
	_, err = d.Message(t.Context(), "second")
	require.Equal(t, console.ErrHidden, err, "of the same tenant, but to another endpoint")
	list, err := d.Endpoints(t.Context(), client.EndpointFilter{})
	require.NoError(t, err)
	require.Len(t, list.Data, 1)
	require.Equal(t, ofA, list.Data[0].ID)
	_, err = d.PauseEndpoint(t.Context(), "ep_bbbbbbbbb")
	require.Equal(t, console.ErrHidden, err)
	_, err = d.CreateEndpoint(t.Context(), wire.Endpoint{URL: "https://x.example"})
	require.Equal(t, console.ErrHidden, err, "it adds none")
	_, err = d.Retry(t.Context(), "of_a", "ep_bbbbbbbbb")
	require.Equal(t, console.ErrHidden, err)
	_, err = d.Retry(t.Context(), "of_a", "")
	require.Equal(t, console.ErrHidden, err, "all of them are others' too")
}

func TestWhatALinkMayAddAndEdit(t *testing.T) {
	api := newFakeAPI()
	d := api.visitor(t, manageA)
	_, err := d.CreateEndpoint(t.Context(), wire.Endpoint{
		Tenant: "B", UID: "mine", URL: "https://x.example", Topics: []string{"payment.*"}, Description: "ours",
		MaxInFlight: 9000, Rate: "1000/s", Metadata: map[string]string{"a": "b"}, Headers: map[string]string{"a": "b"}, Secret: "whsec_x", Ordered: true,
	})
	require.NoError(t, err)
	require.JSONEq(t, `{"tenant":"A","url":"https://x.example","topics":["payment.*"],"description":"ours","ordered":false,"disabled":false}`, api.bodies[len(api.bodies)-1])

	for _, field := range []string{"ladder", "rate", "max_in_flight", "headers", "success", "disabled", "tenant", "uid", "metadata", "timeout", "disable_after", "ordered", "secret", "anything"} {
		_, err := d.PatchEndpoint(t.Context(), ofA, map[string]any{"url": "https://x.example", field: nil})
		require.Equal(t, console.ErrHidden, err, field)
	}
	_, err = d.PatchEndpoint(t.Context(), "uid-ep_aaaaaaaaa", map[string]any{"url": "https://x.example", "topics": []string{"*"}, "description": ""})
	require.NoError(t, err)
	require.Equal(t, "PATCH /v1/endpoints/ep_aaaaaaaaa", api.calls[len(api.calls)-1], "the one that was checked")

	api.refusal = &wire.Problem{Type: "/problems/endpoint-limit", Title: "Too many", Status: 422}
	_, err = d.CreateEndpoint(t.Context(), wire.Endpoint{URL: "https://x.example"})
	require.ErrorIs(t, err, console.ErrEnough)
}

func TestALinkDoesNotUndoWhatTheOperatorDisabled(t *testing.T) {
	for reason, want := range map[string]error{"operator": console.ErrDisabled, "gone": nil, "failing": nil, "": nil} {
		api := newFakeAPI()
		api.endpoints[0].DisabledReason = reason
		_, err := api.visitor(t, manageA).ResumeEndpoint(t.Context(), ofA)
		require.Equal(t, want, err, reason)
		require.Equal(t, want == nil, slices.Contains(api.calls, "POST /v1/endpoints/ep_aaaaaaaaa/resume"), reason)
		_, err = api.visitor(t, admin).ResumeEndpoint(t.Context(), ofA)
		require.NoError(t, err, "an operator does")
	}
}

// linkChanges are all changes that a link may make.
var linkChanges = map[string]func(ctx context.Context, d *console.VisitorClient) error{
	"test":   func(ctx context.Context, d *console.VisitorClient) error { return just(d.TestEndpoint(ctx, ofA)) },
	"retry":  func(ctx context.Context, d *console.VisitorClient) error { return just(d.Retry(ctx, "of_a", ofA)) },
	"pause":  func(ctx context.Context, d *console.VisitorClient) error { return just(d.PauseEndpoint(ctx, ofA)) },
	"resume": func(ctx context.Context, d *console.VisitorClient) error { return just(d.ResumeEndpoint(ctx, ofA)) },
	"rotate": func(ctx context.Context, d *console.VisitorClient) error {
		return just(d.RotateSecret(ctx, ofA, wire.Rotation{}))
	},
	"edit": func(ctx context.Context, d *console.VisitorClient) error {
		return just(d.PatchEndpoint(ctx, ofA, map[string]any{"url": "https://x.example"}))
	},
	"create": func(ctx context.Context, d *console.VisitorClient) error {
		return just(d.CreateEndpoint(ctx, wire.Endpoint{URL: "https://x.example"}))
	},
}

func TestAllChangesOfALinkCount(t *testing.T) {
	for name, change := range linkChanges {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI()
			d := api.visitor(t, manageA)
			require.NoError(t, change(t.Context(), d))
			require.Equal(t, []string{"lnk_manage"}, api.spent)

			api.refusal = &wire.Problem{Type: "/problems/too-many-tests", Status: 429} // such as for want of a place
			require.Error(t, change(t.Context(), d))
			require.Equal(t, []string{"lnk_manage"}, api.spent, "a refusal costs nothing")
			api.refusal = &wire.Problem{Type: "/problems/unavailable", Status: 503}
			require.Error(t, change(t.Context(), d))
			require.Len(t, api.spent, 2, "it may have been made")

			api.refusal, api.wait, api.calls = nil, 90*time.Second, nil
			var spent *console.SpentError
			require.ErrorAs(t, change(t.Context(), d), &spent)
			require.Equal(t, 90*time.Second, spent.Wait)
			for _, call := range api.calls {
				require.True(t, strings.HasPrefix(call, "GET "), "nothing was sent: %s", call)
			}
			api.spent = nil
			require.NoError(t, change(t.Context(), api.visitor(t, admin)))
			require.Empty(t, api.spent, "an operator's are not counted")
		})
	}
}

func TestALinkIsToldNothingOfTheInside(t *testing.T) {
	api := newFakeAPI()
	d := api.visitor(t, manageA)
	all := map[string]any{}
	note := func(name string, v any, err error) {
		require.NoError(t, err, name)
		all[name] = v
	}
	m, err := d.Message(t.Context(), "of_a")
	note("message", m, err)
	deliveries, err := d.Deliveries(t.Context(), client.Filter{})
	note("deliveries", deliveries, err)
	attempts, err := d.Attempts(t.Context(), client.AttemptFilter{})
	note("attempts", attempts, err)
	lanes, err := d.LanesOf(t.Context(), "", ofA)
	note("lanes", lanes, err)
	e, err := d.Endpoint(t.Context(), ofA)
	note("endpoint", e, err)
	list, err := d.Endpoints(t.Context(), client.EndpointFilter{})
	note("endpoints", list, err)
	rotated, err := d.RotateSecret(t.Context(), ofA, wire.Rotation{})
	note("rotated", rotated, err)
	paused, err := d.PauseEndpoint(t.Context(), ofA)
	note("paused", paused, err)
	created, err := d.CreateEndpoint(t.Context(), wire.Endpoint{})
	note("created", created, err)
	tested, err := d.TestEndpoint(t.Context(), ofA)
	note("tested", tested, err)
	retried, err := d.Retry(t.Context(), "of_a", ofA)
	note("retried", retried, err)
	ended, err := d.EndpointDeliveries(t.Context(), ofA, client.EndedFilter{})
	note("ended", ended, err)
	for name, v := range all {
		text, err := json.Marshal(v)
		require.NoError(t, err)
		for _, inner := range []string{"ALLOW_NETS", "EGRESS", "10.0.0.9", "10.1.2.3", "proxy", "permits", "risk", "x-inner", "uid-", "boss"} {
			require.NotContains(t, string(text), inner, name)
		}
	}
	require.Contains(t, m.Deliveries[0].LastError, "its address may not be called")

	seen, err := api.visitor(t, admin).Message(t.Context(), "of_a")
	require.NoError(t, err)
	require.Contains(t, seen.Deliveries[0].LastError, "ALLOW_NETS", "the operator needs the cure")
}

func TestAStoreThatIsAwayIsNoMissingThing(t *testing.T) {
	api := newFakeAPI()
	api.broken = true
	d := api.visitor(t, manageA)
	_, err := d.Message(t.Context(), "of_a")
	require.Error(t, err)
	require.NotErrorIs(t, err, console.ErrHidden)
	_, err = d.PauseEndpoint(t.Context(), ofA)
	require.Error(t, err)
	require.NotErrorIs(t, err, console.ErrHidden)
}

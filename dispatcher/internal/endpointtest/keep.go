package endpointtest

import (
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/success"
	"github.com/hookladder/hookladder/ladder"
	"github.com/hookladder/hookladder/signer"
)

// keepCases check that an endpoint is read as it was stored, field by field.
var keepCases = []testCase{
	{name: "an endpoint with only the required fields", run: func(r *rig) {
		r.mustKeep(func(e *dispatcher.Endpoint) { e.Tenant, e.Topics = "", nil })
	}},
	{name: "an endpoint with everything", run: func(r *rig) { r.mustKeep(everything(r)) }},
	{name: "a ladder without a rung is not the dispatcher's ladder", run: func(r *rig) {
		r.mustKeep(func(e *dispatcher.Endpoint) { e.Ladder = &ladder.Ladder{} })
		r.mustKeep(func(e *dispatcher.Endpoint) { e.Ladder = nil })
	}},
	{name: "rungs shorter than a millisecond and longer than a day", run: func(r *rig) {
		r.mustKeep(func(e *dispatcher.Endpoint) { e.Ladder = mustLadder(r, "0s,1ns,1.5ms,36h,365d") })
	}},
	{name: "no list and an empty one are not the same", run: func(r *rig) {
		r.mustKeep(func(e *dispatcher.Endpoint) { e.Topics, e.Headers, e.Metadata = nil, nil, nil })
		r.mustKeep(func(e *dispatcher.Endpoint) {
			e.TopicsAllowed, e.TopicsGiven = []string{}, []string{}
			e.Topics, e.Headers, e.Metadata = []string{}, []dispatcher.Header{}, map[string]string{}
		})
	}},
	{name: "headers keep their order, their case and any bytes", run: func(r *rig) {
		r.mustKeep(func(e *dispatcher.Endpoint) {
			e.Headers = []dispatcher.Header{
				{Name: "X-Zulu", Value: "1"}, {Name: "x-alfa", Value: ""}, {Name: "X-Mike", Value: "a \"b\" \\ <c> & d"},
				{Name: "X-Latin", Value: "caf\xe9 \xff\xfe"}, {Name: "X-Unicode", Value: "caffè 收款"},
				{Name: "Authorization", Value: "Bearer " + strings.Repeat("t", 4096)},
			}
		})
	}},
	{name: "a description in any script", run: func(r *rig) {
		r.mustKeep(func(e *dispatcher.Endpoint) {
			e.Description = "Händler „Käse & Co“ <b>\u2028 支付通知 🧾 \\u0000 \"'\t\nעברית e\u0301"
			e.Metadata = map[string]string{"Ключ": "значение", "": "empty key", "empty": "", "a b": "{\"json\":1}"}
		})
	}},
	{name: "secrets of each scheme, with their ends", run: func(r *rig) {
		for _, scheme := range signer.Schemes() {
			r.mustKeep(func(e *dispatcher.Endpoint) {
				e.Signature = scheme
				e.Secrets = []dispatcher.EndpointSecret{
					{Secret: scheme.NewSecret(), Since: start}, {Secret: scheme.NewSecret(), Since: start.Add(-time.Hour), Until: start.Add(24 * time.Hour)},
					{Secret: scheme.NewSecret(), Until: start.Add(time.Millisecond)},
				}
			})
		}
	}},
	{name: "the responses that count as success", run: func(r *rig) {
		for _, text := range []string{
			"2xx", "*", "200,204,5xx", `{"status":["200"],"body":"success"}`, `{"body":{"path":"data.code","equals":"SUCCESS"}}`,
			`{"body":{"path":"code","equals":12345678901234567890}}`, `{"status":["*"],"body":{"matches":"<return_code><!\\[CDATA\\[SUCCESS\\]\\]>"}}`,
		} {
			success, err := success.Parse(text)
			require.NoError(r, err)
			r.mustKeep(func(e *dispatcher.Endpoint) { e.Success = success })
		}
	}},
	{name: "rates by the second, the minute and the hour", run: func(r *rig) {
		for _, text := range []string{"1/s", "100000/s", "600/m", "50/h"} {
			rate, err := dispatcher.ParseRate(text)
			require.NoError(r, err)
			r.mustKeep(func(e *dispatcher.Endpoint) { e.Rate = rate })
		}
	}},
	{name: "each switch by itself", run: func(r *rig) {
		for _, set := range []func(*dispatcher.Endpoint){
			paused, func(e *dispatcher.Endpoint) { e.Disabled = true }, func(e *dispatcher.Endpoint) { e.Ordered = true }, func(e *dispatcher.Endpoint) { e.Trace = true },
			func(e *dispatcher.Endpoint) { e.Since = 1 << 40 },
		} {
			r.mustKeep(set)
		}
	}},
	{name: "a high version", run: func(r *rig) {
		e := r.endpoint(func(e *dispatcher.Endpoint) { e.Version = 1<<53 - 2 })
		r.mustCreate(e)
		e = next(e)
		require.NoError(r, r.Store.ChangeEndpoint(r.ctx, e))
		r.mustBe(e)
	}},
	{name: "the largest endpoint there may be", run: func(r *rig) {
		r.mustKeep(func(e *dispatcher.Endpoint) {
			e.URL = "https://example.com/" + strings.Repeat("p", 2028)
			e.UID, e.Tenant = strings.Repeat("u", 128), strings.Repeat("t", 128)
			e.Topics = nil
			for range 64 {
				e.Topics = append(e.Topics, strings.Repeat("o", 126)+".*")
			}
			e.TopicsAllowed, e.TopicsGiven, e.HeadersFor = e.Topics, e.Topics, map[string]string{"x-large": e.URL + "p"}
			e.Headers = []dispatcher.Header{{Name: "X-Large", Value: strings.Repeat("v", 8<<10)}}
		})
	}},
}

// mustKeep stores an endpoint, once as a new one and once as a change of another. Another
// instance must read the same endpoint both times.
func (r *rig) mustKeep(with ...func(*dispatcher.Endpoint)) {
	r.Helper()
	e := r.create(with...)
	r.mustBe(e)

	plain := r.create(tenant(e.Tenant))
	changed := next(plain, append(with, tenant(plain.Tenant), uid(plain.UID), madeAt(plain.CreatedAt))...)
	require.NoError(r, r.Store.ChangeEndpoint(r.ctx, changed))
	got, err := r.Open().Endpoints(r.ctx, []string{e.ID, changed.ID})
	require.NoError(r, err)
	require.Equal(r, []*dispatcher.Endpoint{e, changed}, got)

	pull := r.create(tenant("of pull"), func(e *dispatcher.Endpoint) { e.Pull, e.URL = true, "" })
	got, err = r.Open().TenantEndpoints(r.ctx, "of pull")
	require.NoError(r, err)
	require.Contains(r, got, pull, "one of kind pull is whole without a URL")
}

// everything sets every field.
func everything(r *rig) func(*dispatcher.Endpoint) {
	success, err := success.Parse(`{"status":["200","5xx"],"body":{"path":"code","equals":"SUCCESS"}}`)
	require.NoError(r, err)
	return func(e *dispatcher.Endpoint) {
		e.UID, e.Tenant, e.URL = "shop-1/main", "shop:1{a}", "https://user@example.com:8443/a?b=c#d"
		e.Topics = []string{"payment.*", "refund.done", "payment.*"}
		e.TopicsAllowed, e.TopicsGiven = []string{"payment.*", "refund.*"}, []string{"payment.*"}
		e.Linked, e.HeadersFor = true, map[string]string{"x-token": "https://example.com/before", "x-account": ""}
		e.Description, e.Metadata = "first", map[string]string{"a": "1", "b": "2"}
		e.Signature = signer.Stripe
		e.Secrets = []dispatcher.EndpointSecret{
			{Secret: signer.Stripe.NewSecret()}, {Secret: signer.Stripe.NewSecret(), Until: start.Add(time.Hour)},
		}
		e.Ladder, e.Timeout, e.MaxInFlight = mustLadder(r, "15s,3m,1h"), 1500*time.Millisecond, 7
		e.Rate = dispatcher.Rate{Count: 20, Per: time.Second}
		e.Headers = []dispatcher.Header{{Name: "X-Token", Value: "t0"}, {Name: "X-Account", Value: "a1"}}
		e.Success, e.Ordered, e.Trace, e.Paused, e.Disabled, e.Unverified = success, true, true, true, true, true
		e.UpdatedAt = e.CreatedAt.Add(time.Millisecond)
	}
}

func mustLadder(r *rig, text string) *ladder.Ladder {
	r.Helper()
	l, err := ladder.Parse(text)
	require.NoError(r, err)
	return &l
}

package httpapi

import "github.com/hookladder/hookladder/dispatcher/wire"

// view returns the endpoint as a response has it.
func view(change ...func(*wire.EndpointView)) wire.EndpointView {
	v := wire.EndpointView{ID: endpoint, Endpoint: exampleEndpoint, State: "active", InFlight: 1, Waiting: 4, CreatedAt: at(-86400), UpdatedAt: at(-3600)}
	v.Kind, v.Signature, v.Headers = "push", "standard", map[string]string{"authorization": wire.Hidden}
	for _, c := range change {
		c(&v)
	}
	return v
}

func withSecret(v *wire.EndpointView) { v.Secret = secret }

// Responses about endpoints.
var (
	exampleEndpointView    = view()
	exampleEndpointCreated = view(withSecret, func(v *wire.EndpointView) { v.InFlight, v.Waiting, v.UpdatedAt = 0, 0, v.CreatedAt })
	exampleEndpointPage    = wire.EndpointPage{Data: []wire.EndpointView{view()}}

	exampleEndpointDeleted = wire.EndpointDeleted{Cancelled: 4}
	exampleEndpointTest    = wire.EndpointTest{MessageID: "test_01KG8ZB6T4", At: at(0), DurationMS: 120, StatusCode: 200, Outcome: "delivered", ResponseExcerpt: "ok"}
	exampleEndpointSecrets = wire.EndpointSecrets{ID: endpoint, Signature: "standard", Secrets: []wire.EndpointSecret{{Secret: secret}}}
	exampleRotated         = wire.Rotated{EndpointView: view(withSecret), PreviousUntil: at(172800)}
	examplePublicKeyPage   = wire.PublicKeyPage{Data: []wire.PublicKey{{Endpoint: endpoint, PublicKey: "whpk_A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg="}}}
)

// Responses about lanes, links and the process.
var (
	exampleLaneState = wire.LaneState{
		Lane: endpoint, URL: "https://shop.example", Tenant: tenant, Endpoint: endpoint, UID: uid, State: "paused", Why: "paused", Since: at(60), By: by,
		InFlight: 1, Waiting: 4, Window: 8, MaxInFlight: 10, Rate: rate, LastFailure: exampleLaneFailure,
	}
	exampleLaneFailure = &wire.LaneFailure{MessageID: "order_104711", At: at(0.01), StatusCode: 500, Class: "status", Error: "status 500", ResponseExcerpt: "try again later"}

	exampleLanePage = wire.LanePage{Data: []wire.LaneState{exampleLaneState}}

	exampleNewLink  = wire.NewLink{ID: "lnk_mfrggzdf", URL: "https://hooks.example/link/mfrggzdfmztwq2lknnwg23tpoa", ExpiresAt: at(86400)}
	exampleLinkPage = wire.LinkPage{Data: []wire.Link{{ID: "lnk_mfrggzdf", Tenant: tenant, Manage: true, Name: "Anna of merchant 7", By: by, CreatedAt: at(0), ExpiresAt: at(86400)}}}

	exampleAuditPage = wire.AuditPage{Data: []wire.AuditEntry{{At: at(60), By: by, What: "endpoint.pause", Target: endpoint, Tenant: tenant}}}

	store = wire.Store{
		Kind: "redis", Version: "7.2.5", Mode: "single", Nodes: 1, UsedBytes: new(int64(52428800)), MaxBytes: new(int64(1073741824)), AppendOnly: new(true),
		Fsync: "everysec", Eviction: "noeviction", Durability: "none", Durable: "yes", WouldLose: "last_second",
		Checks: []wire.Check{{Name: "eviction", Holds: "yes", Needed: true, Detail: "maxmemory-policy is noeviction"}},
	}
	exampleStats = wire.Stats{
		Counts: map[string]int64{"scheduled": 1, "ready": 0, "in_flight": 1, "retrying": 3, "delivered": 4210, "dead": 17, "cancelled": 2},
		Dead:   map[string]int64{"exhausted": 17}, Ends: wire.Ends{Dead: map[string]int64{"exhausted": 21}, Cancelled: 2}, InFlight: 1,
		OldestDueAt: at(15.32), Now: at(1), Instances: 2, Retention: 86400, Store: store,
		PausedLanes: 1, Paused: []wire.LaneState{exampleLaneState}, Lanes: []wire.LaneState{exampleLaneState},
	}
	exampleInstancePage = wire.InstancePage{Data: []wire.Instance{{Name: "web-1-3f9a", Version: "1.0.0", StartedAt: at(-7200), SeenAt: at(0), Permits: 4096, InFlight: 1, Holding: 1}}}
	exampleHealth       = wire.Health{Status: "ok"}
	exampleReady        = wire.Ready{Status: "ready"}

	// exampleMetrics is a page for Prometheus.
	exampleMetrics = "# HELP hookladder_in_flight Deliveries that this instance has in flight.\n# TYPE hookladder_in_flight gauge\nhookladder_in_flight 1\n"
)

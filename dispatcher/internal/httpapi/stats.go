package httpapi

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/callers"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/api"
	"github.com/hookladder/hookladder/dispatcher/internal/input"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/ladder"
)

// Stats describe the queue.
type Stats interface {
	// Stats returns the counts of deliveries and lanes.
	Stats(ctx context.Context) (dispatcher.Stats, error)
	// Instances returns a page of the instances.
	Instances(ctx context.Context, limit int, cursor string) (list []dispatcher.InstanceState, next string, err error)
}

// Ticks does due work on request.
type Ticks interface {
	// Tick waits until nothing is due any more, or within is over. It returns
	// dispatcher.ErrAcceptsOnly if this instance attempts nothing.
	Tick(ctx context.Context, within time.Duration) (dispatcher.Tick, error)
}

// Readiness reports the state of the process and of the store.
type Readiness interface {
	// Alive returns an error if the process is stuck and should be restarted.
	Alive() error
	// Ready returns the state of the store, or an error if it can't be used now.
	Ready(ctx context.Context) (dispatcher.StoreInfo, error)
}

// plainOperations returns the operations of the whole process.
func (s *server) plainOperations() []api.Operation {
	return []api.Operation{{
		ID: "stats", Method: "GET", Path: "/v1/stats", Scope: callers.Read,
		Summary: "Count the deliveries and lanes of the queue", Do: s.stats,
		Answers: api.OK(exampleStats),
	}, {
		ID: "list-instances", Method: "GET", Path: "/v1/instances", Scope: callers.Read,
		Summary: "List the instances, those that started last first", Do: s.instances,
		Query: api.OfPage(input.MaxPage), Answers: api.OK(exampleInstancePage),
		Problems: []*api.Kind{api.Malformed, api.Listing},
	}, {
		ID: "tick", Method: "POST", Path: "/v1/tick", Scope: callers.Tick,
		Summary: "Do due work, wait until nothing is due, and return when to call again: for platforms that scale to zero", Do: s.tick,
		Query:   []*api.Param{ofTicks("for", "How long to wait at most: 1s to 1m. Where an instance that died may hold deliveries it takes 10s, however short this is.")},
		Answers: api.OK(exampleTick), Problems: []*api.Kind{api.AcceptsOnly, api.Waiting},
	}}
}

// metricsOperations returns none if there are no metrics.
func (s *server) metricsOperations() []api.Operation {
	if s.o.Metrics == nil {
		return nil
	}
	return []api.Operation{{
		ID: "metrics", Method: "GET", Path: "/metrics", Scope: callers.Read, AnyQuery: true,
		Summary: "Read the metrics, for Prometheus", Do: s.metrics,
		Answers: api.OK(exampleMetrics), Produces: mediaText,
	}}
}

// healthOperations returns the operations for orchestrators, which have no key.
func (s *server) healthOperations() []api.Operation {
	return []api.Operation{
		{
			ID: "healthz", Method: "GET", Path: "/healthz", Summary: "Report that the process is alive",
			AnyQuery: true, Do: s.healthz, Answers: api.OK(exampleHealth), Problems: []*api.Kind{api.Unavailable},
		},
		{
			ID: "readyz", Method: "GET", Path: "/readyz", Summary: "Report whether the store can be used",
			AnyQuery: true, Do: s.readyz, Answers: api.OK(exampleReady), Problems: []*api.Kind{api.Unavailable},
		},
	}
}

// stats serves GET /v1/stats.
func (s *server) stats(ctx context.Context, q *api.Request) (*api.Response, error) {
	st, err := s.o.Stats.Stats(ctx)
	if err != nil {
		return nil, err
	}
	w := wire.Stats{
		Counts:      make(map[string]int64, len(dispatcher.Statuses())),
		Dead:        make(map[string]int64, len(st.Dead)),
		Ends:        wire.Ends{Dead: make(map[string]int64, len(dispatcher.DeadReasons())), Cancelled: st.Cancelled},
		InFlight:    st.Counts[dispatcher.StatusInFlight],
		OldestDueAt: wire.Time{Time: st.OldestDue},
		Now:         wire.Time{Time: st.Now},
		Instances:   st.Instances,
		Retention:   st.Retention.Seconds(),
		Store:       wireStore(st.Store),
		Lanes:       outwardLanes(q, st.Lanes),
	}
	paused, total, err := s.o.Lanes.PausedLanes(ctx)
	if err != nil {
		return nil, err
	}
	w.PausedLanes, w.Paused = total, outwardLanes(q, paused)
	for _, status := range dispatcher.Statuses() { // counts of 0 too, so that readers need no default
		w.Counts[string(status)] = st.Counts[status]
	}
	for reason, n := range st.Dead {
		w.Dead[string(reason)] = n
	}
	for _, reason := range dispatcher.DeadReasons() {
		w.Ends.Dead[string(reason)] = st.EverDead[reason]
	}
	return api.JSON(http.StatusOK, w)
}

// instances serves GET /v1/instances.
func (s *server) instances(ctx context.Context, q *api.Request) (*api.Response, error) {
	list, next, err := s.o.Stats.Instances(ctx, q.Limit(), q.Cursor())
	if err != nil {
		return nil, err
	}
	return api.JSON(http.StatusOK, wire.InstancePage{Data: api.Convert(list, wireInstance), NextCursor: api.NextCursor(next)})
}

// The duration of a tick: the default is below 30 s, when many schedulers cancel a call, and
// the maximum is below the timeouts of most platforms.
const (
	tickLeast = time.Second
	tickUsual = 25 * time.Second
	tickMost  = time.Minute
)

// tick serves POST /v1/tick.
func (s *server) tick(ctx context.Context, q *api.Request) (*api.Response, error) {
	ctx, leave, ok := q.Wait(ctx)
	if !ok {
		return nil, &api.Problem{Kind: api.Waiting, Detail: "half of MAX_CONNECTIONS do; call less often, or raise the setting"}
	}
	defer leave()
	within := q.Duration("for", tickUsual)
	conn := http.NewResponseController(q.Writer) // the server's deadlines would end it
	_ = conn.SetReadDeadline(time.Time{})
	_ = conn.SetWriteDeadline(time.Now().Add(within + callers.AnswerWithin))
	t, err := s.o.Ticks.Tick(ctx, within)
	if err != nil {
		return nil, err
	}
	w := wire.Tick{Attempted: t.Attempted, Delivered: t.Delivered, Dead: t.Dead}
	if !t.Next.IsZero() {
		w.NextDueAt = &wire.Time{Time: t.Next}
	}
	return api.JSON(http.StatusOK, w)
}

func wireInstance(i *dispatcher.InstanceState) wire.Instance {
	return wire.Instance{
		Name: i.Name, Version: strings.ToValidUTF8(i.Version, "�"),
		StartedAt: wire.Time{Time: i.StartedAt}, SeenAt: wire.Time{Time: i.SeenAt},
		Permits: i.Permits, InFlight: i.InFlight, Holding: i.Partitions,
	}
}

// healthz serves GET /healthz. It does not query the store, because a restart would not help
// there.
func (s *server) healthz(context.Context, *api.Request) (*api.Response, error) {
	if err := s.o.Readiness.Alive(); err != nil {
		return nil, &api.Problem{Kind: api.Unavailable, Detail: err.Error()}
	}
	return api.JSON(http.StatusOK, wire.Health{Status: "ok"})
}

// readyz serves GET /readyz. A store with less durability than DURABILITY requires is not
// ready. A load balancer has no key, so the call needs none. The reason names the store, so
// only a key with the scope read gets it.
func (s *server) readyz(ctx context.Context, q *api.Request) (*api.Response, error) {
	store, err := s.o.Readiness.Ready(ctx)
	lost := store.Emptied
	if !q.Reads && (err != nil || store.Durable == dispatcher.No || lost != nil && lost.Archived) {
		return nil, &api.Problem{Kind: api.NotReady, Detail: "a key with the scope read gets the reason"}
	}
	if errors.Is(err, dispatcher.ErrStopping) {
		return nil, err
	}
	if err != nil {
		kind := api.Unavailable
		if errors.Is(err, dispatcher.ErrReadOnly) {
			kind = api.ReadOnly
		}
		return nil, &api.Problem{Kind: kind, Detail: strings.ToValidUTF8(err.Error(), "�")}
	}
	if store.Durable == dispatcher.No {
		return nil, &api.Problem{Kind: api.Weak, Detail: notDurable(store)}
	}
	if lost != nil && lost.Archived { // it can be restored
		return nil, api.Emptied(lost)
	}
	w := wire.Ready{Status: "ready"}
	if q.Reads {
		if lost != nil {
			w.Emptied = lost.Error()
		}
		shown := wireStore(store)
		w.Store = &shown
		if paused, total, err := s.o.Lanes.PausedLanes(ctx); err == nil { // otherwise it is ready too
			w.PausedLanes, w.Paused = total, outwardLanes(q, paused)
		}
	}
	return api.JSON(http.StatusOK, w)
}

// notDurable returns the reason why a store has less durability than required.
func notDurable(i dispatcher.StoreInfo) string {
	for _, c := range i.Checks {
		if c.Name == "durability" {
			return "the store is not as durable as asked: " + c.Detail
		}
	}
	return "the store is not as durable as asked: " + i.Durability.String()
}

func wireStore(i dispatcher.StoreInfo) wire.Store {
	return wire.Store{
		Kind: i.Kind, Version: i.Version, Mode: i.Mode, Nodes: i.Nodes,
		UsedBytes: i.UsedBytes, MaxBytes: i.MaxBytes,
		AppendOnly: i.AppendOnly, Fsync: i.Fsync, Eviction: i.Eviction,
		Durability: i.Durability.String(), Durable: i.Durable.String(),
		WouldLose: cmp.Or(i.Loses, dispatcher.LosesUnknown),
		Checks: api.Convert(i.Checks, func(c *dispatcher.Check) wire.Check {
			return wire.Check{Name: c.Name, Holds: c.Holds.String(), Needed: c.Needed, Detail: c.Detail}
		}),
	}
}

// metrics serves GET /metrics.
func (s *server) metrics(ctx context.Context, q *api.Request) (*api.Response, error) {
	r := q.HTTP.Clone(ctx)
	r.Header.Del("Accept-Encoding") // no response of the API is compressed
	s.o.Metrics.ServeHTTP(q.Writer, r)
	return nil, nil
}

// ofTicks returns a parameter for the duration of a tick.
func ofTicks(name, doc string) *api.Param {
	return &api.Param{
		Name: name, Doc: doc, Schema: api.DurationText(ladder.FormatDuration(tickUsual)),
		Refuse: func(v string) string {
			d, err := ladder.ParseDuration(v)
			return api.Unless(err == nil && d >= tickLeast && d <= tickMost, "must be 1s to 1m, as in 25s")
		},
	}
}

const mediaText = "text/plain"

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
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// Stats describe the queue.
type Stats interface {
	// Stats counts deliveries and lanes.
	Stats(ctx context.Context) (dispatcher.Stats, error)
	// Instances reads a page of the instances.
	Instances(ctx context.Context, limit int, cursor string) (list []dispatcher.InstanceState, next string, err error)
}

// Ticks do due work on request.
type Ticks interface {
	// Tick waits until nothing is due any more, or within is over.
	// dispatcher.ErrAcceptsOnly says that this instance attempts nothing.
	Tick(ctx context.Context, within time.Duration) (dispatcher.Tick, error)
}

// Readiness is the state of the store.
type Readiness interface {
	// Ready describes the store, or says why it can't be used now.
	Ready(ctx context.Context) (dispatcher.StoreInfo, error)
}

// stats serves GET /v1/stats.
func (s *server) stats(ctx context.Context, q *request) (*response, error) {
	st, err := s.o.Stats.Stats(ctx)
	if err != nil {
		return nil, err
	}
	w := wire.Stats{
		Counts:      make(map[string]int64, len(dispatcher.Statuses)),
		Dead:        make(map[string]int64, len(st.Dead)),
		Ends:        wire.Ends{Dead: make(map[string]int64, len(dispatcher.DeadReasons)), Cancelled: st.Cancelled},
		InFlight:    st.Counts[dispatcher.StatusInFlight],
		OldestDueAt: wire.Time{Time: st.OldestDue},
		Now:         wire.Time{Time: st.Now},
		Instances:   st.Instances,
		Retention:   st.Retention.Seconds(),
		Store:       wireStore(st.Store),
		Lanes:       convert(st.Lanes, wireLane),
	}
	paused, total, err := s.o.Lanes.PausedLanes(ctx)
	if err != nil {
		return nil, err
	}
	w.PausedLanes, w.Paused = total, convert(paused, wireLane)
	for _, status := range dispatcher.Statuses { // those at 0 too, so that readers need no default
		w.Counts[string(status)] = st.Counts[status]
	}
	for reason, n := range st.Dead {
		w.Dead[string(reason)] = n
	}
	for _, reason := range dispatcher.DeadReasons {
		w.Ends.Dead[string(reason)] = st.EverDead[reason]
	}
	return answerJSON(http.StatusOK, w)
}

// instances serves GET /v1/instances.
func (s *server) instances(ctx context.Context, q *request) (*response, error) {
	list, next, err := s.o.Stats.Instances(ctx, q.limit(), q.cursor())
	if err != nil {
		return nil, err
	}
	return answerJSON(http.StatusOK, wire.InstancePage{Data: convert(list, wireInstance), NextCursor: nextCursor(next)})
}

// How long a tick may last: usually less than the 30 s after which many schedulers give a
// call up, and at most less than the time-outs of most platforms.
const (
	tickLeast = time.Second
	tickUsual = 25 * time.Second
	tickMost  = time.Minute
)

// tick serves POST /v1/tick.
func (s *server) tick(ctx context.Context, q *request) (*response, error) {
	ctx, leave, ok := s.waiting.Enter(ctx, q.w.caller)
	if !ok {
		return nil, &problem{kind: waiting, detail: "half of MAX_CONNECTIONS do; call less often, or raise the setting"}
	}
	defer leave()
	within := q.duration("for", tickUsual)
	conn := http.NewResponseController(q.w) // the server's deadlines would end it
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
	return answerJSON(http.StatusOK, w)
}

func wireInstance(i *dispatcher.InstanceState) wire.Instance {
	return wire.Instance{
		Name: i.Name, Version: strings.ToValidUTF8(i.Version, "�"),
		StartedAt: wire.Time{Time: i.StartedAt}, SeenAt: wire.Time{Time: i.SeenAt},
		Permits: i.Permits, InFlight: i.InFlight, Holding: i.Partitions,
	}
}

// healthz serves GET /healthz.
func (s *server) healthz(context.Context, *request) (*response, error) {
	return answerJSON(http.StatusOK, wire.Health{Status: "ok"})
}

// readyz serves GET /readyz. A store that does not keep what DURABILITY promises
// is not ready. A load balancer has no key, so the call needs none. The reason names
// the store, so only a key with the scope read gets it.
func (s *server) readyz(ctx context.Context, q *request) (*response, error) {
	store, err := s.o.Readiness.Ready(ctx)
	lost := store.Emptied
	if !q.reads && (err != nil || store.Durable == dispatcher.No || lost != nil && lost.Archived) {
		return nil, &problem{kind: notReady, detail: "a key with the scope read gets the reason"}
	}
	if errors.Is(err, dispatcher.ErrStopping) {
		return nil, err
	}
	if err != nil {
		kind := unavailable
		if errors.Is(err, dispatcher.ErrReadOnly) {
			kind = readOnly
		}
		return nil, &problem{kind: kind, detail: strings.ToValidUTF8(err.Error(), "�")}
	}
	if store.Durable == dispatcher.No {
		return nil, &problem{kind: weak, detail: notDurable(store)}
	}
	if lost != nil && lost.Archived { // it can be brought back
		return nil, emptied(lost)
	}
	w := wire.Ready{Status: "ready"}
	if q.reads {
		if lost != nil {
			w.Emptied = lost.Error()
		}
		told := wireStore(store)
		w.Store = &told
		if paused, total, err := s.o.Lanes.PausedLanes(ctx); err == nil { // else it is ready too
			w.PausedLanes, w.Paused = total, convert(paused, wireLane)
		}
	}
	return answerJSON(http.StatusOK, w)
}

// notDurable says why a store is not as durable as asked.
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
		Checks: convert(i.Checks, func(c *dispatcher.Check) wire.Check {
			return wire.Check{Name: c.Name, Holds: c.Holds.String(), Needed: c.Needed, Detail: c.Detail}
		}),
	}
}

// metrics serves GET /metrics.
func (s *server) metrics(ctx context.Context, q *request) (*response, error) {
	r := q.r.Clone(ctx)
	r.Header.Del("Accept-Encoding") // no answer of the API is compressed
	s.figures.ServeHTTP(q.w, r)
	return nil, nil
}

package httpapi

import (
	"context"
	"net/http"
	"strings"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// stats serves GET /v1/stats.
func (s *server) stats(ctx context.Context, c *call) (*reply, error) {
	if _, err := c.query(); err != nil {
		return nil, err
	}
	st, err := s.svc.Stats(ctx)
	if err != nil {
		return nil, err
	}
	w := wire.Stats{
		Counts:      make(map[string]int64, len(dispatcher.Statuses)),
		Dead:        make(map[string]int64, len(st.Dead)),
		InFlight:    st.Counts[dispatcher.StatusInFlight],
		OldestDueAt: wire.Time{Time: st.OldestDue},
		Now:         wire.Time{Time: st.Now},
		Instances:   st.Instances,
		Store:       wireStore(st.Store),
		Lanes:       make([]wire.Lane, len(st.Lanes)),
	}
	for _, status := range dispatcher.Statuses { // also those at 0, so that readers need no default
		w.Counts[string(status)] = st.Counts[status]
	}
	for reason, n := range st.Dead {
		w.Dead[string(reason)] = n
	}
	for i, l := range st.Lanes {
		w.Lanes[i] = wire.Lane{Destination: string(l.Lane), URL: l.URL, InFlight: l.InFlight, Waiting: l.Waiting}
	}
	return answerJSON(http.StatusOK, w)
}

// healthz serves GET /healthz.
func (s *server) healthz(context.Context, *call) (*reply, error) {
	return answerJSON(http.StatusOK, wire.Health{Status: "ok"})
}

// readyz serves GET /readyz.
func (s *server) readyz(ctx context.Context, _ *call) (*reply, error) {
	store, err := s.svc.Ready(ctx)
	if err != nil {
		return nil, &problem{kind: unavailable, detail: strings.ToValidUTF8(err.Error(), "�")}
	}
	return answerJSON(http.StatusOK, wire.Ready{Status: "ready", Store: wireStore(store)})
}

func wireStore(i dispatcher.StoreInfo) wire.Store {
	return wire.Store{
		Kind: i.Kind, Version: i.Version,
		UsedBytes: i.UsedBytes, MaxBytes: i.MaxBytes,
		AppendOnly: i.AppendOnly, Fsync: i.Fsync, Eviction: i.Eviction,
		WouldLose: wouldLose(i),
	}
}

// wouldLose says what is gone when the store's host dies.
func wouldLose(i dispatcher.StoreInfo) string {
	switch {
	case i.Kind == "miniredis":
		return "everything"
	case i.AppendOnly == nil:
		return "unknown"
	case !*i.AppendOnly:
		return "since_snapshot"
	case i.Fsync == "always":
		return "nothing"
	case i.Fsync == "everysec":
		return "last_second"
	default: // no: whenever the kernel writes
		return "unknown"
	}
}

package httpapi

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hookladder/hookladder/dispatcher/internal/callers"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/api"
)

// Counter counts the responses of the API, for metrics. It is called on the hot path.
type Counter interface {
	// Requested counts a call by its name, which Calls has, and its status.
	Requested(call string, status int, took time.Duration)
	// Refused counts messages that were rejected before the engine.
	Refused(messages int)
}

// Names of calls that are not operations.
const (
	callOther    = "other" // unknown path, other method, or a rejected caller
	callDocument = "openapi"
	callProfile  = "profile"
)

// Calls returns the names of all calls, each with its usual statuses. All other statuses of a
// call are rare, and share one count.
func Calls() map[string][]int {
	s := &server{o: Options{Metrics: http.NotFoundHandler()}}
	calls := map[string][]int{
		callOther:    {http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed},
		callDocument: {http.StatusOK},
		callProfile:  {http.StatusOK, http.StatusUnauthorized, http.StatusForbidden},
	}
	for _, o := range s.operations() {
		var all []int
		for status := range o.Answers {
			all = append(all, status)
		}
		for _, k := range o.Kinds() {
			all = append(all, k.Status)
		}
		slices.Sort(all)
		calls[o.ID] = slices.Compact(all)
	}
	return calls
}

// publishes reports whether the call accepts messages.
func publishes(w *api.ResponseWriter) bool {
	return w.Call == IDPublish || w.Call == IDBatch
}

// logCall counts a call, and logs it if it was rejected.
func (s *server) logCall(w *api.ResponseWriter, r *http.Request) {
	status := w.Status
	if status == 0 {
		status = http.StatusOK
	}
	refused := 400 <= status && status < 500
	if s.o.Counter != nil {
		s.o.Counter.Requested(w.Call, status, time.Since(w.Began))
		switch {
		case w.Refused > 0:
			s.o.Counter.Refused(w.Refused)
		case refused && publishes(w) && !w.Handed:
			s.o.Counter.Refused(1)
		}
	}
	if w.Refusal == nil || w.Refusal.Kind.Status >= 500 { // our own failures are logged elsewhere
		return
	}
	ctx := r.Context()
	if s.o.Log.Enabled(ctx, slog.LevelDebug) {
		s.o.Log.LogAttrs(ctx, slog.LevelDebug, "request refused", why(w)...)
	}
	if status := w.Refusal.Kind.Status; status == http.StatusUnauthorized || status == http.StatusForbidden || publishes(w) {
		s.refusals.note(ctx, s.o.Log, w, r)
	}
}

// why returns the reason of a rejection for the log. Of a field it includes only the path. The
// detail may repeat a value, which only the caller may see.
func why(w *api.ResponseWriter) []slog.Attr {
	p := w.Refusal
	attrs := []slog.Attr{
		slog.String("call", w.Call), slog.Int("status", p.Kind.Status), slog.String("problem", p.Kind.Word),
	}
	if w.Who != "" {
		attrs = append(attrs, slog.String("key", w.Who))
	}
	if len(p.Fields) > 0 {
		return append(attrs, slog.String("field", p.Fields[0].Path))
	}
	return append(attrs, slog.String("detail", p.Detail))
}

// mostRefused is the number of callers with their own log rate, because there are few keys but
// many addresses without a key.
const mostRefused = 64

// everyoneElse is the name of all callers beyond mostRefused.
const everyoneElse = "others"

// refusals logs the rejections of each caller at a limited rate.
type refusals struct {
	mu  sync.Mutex                  // guards the field below
	all map[string]*callers.LogRate // by caller
}

// note logs a rejection, if the rate of its caller allows it.
func (f *refusals) note(ctx context.Context, log *slog.Logger, w *api.ResponseWriter, r *http.Request) {
	caller, address := "key "+w.Who, ""
	if w.Who == "" {
		address = callers.AddressOf(r).Unmap().String()
		caller = "address " + callers.Address(callers.AddressOf(r)).Name
	}
	caller, rate := f.of(caller)
	missed, ok := rate.Allow()
	if !ok {
		return
	}
	attrs := why(w)
	if address != "" && caller != everyoneElse {
		attrs = append(attrs, slog.String("address", address))
	}
	log.LogAttrs(ctx, slog.LevelInfo, "call refused", append(attrs, slog.Int("missed", missed))...)
}

// of returns the rate of a caller. If there are too many, an address shares the rate of
// everyoneElse.
func (f *refusals) of(caller string) (as string, rate *callers.LogRate) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.all == nil {
		f.all = map[string]*callers.LogRate{}
	}
	if f.all[caller] == nil && len(f.all) >= mostRefused {
		maps.DeleteFunc(f.all, func(_ string, l *callers.LogRate) bool { return l.Idle() })
		if len(f.all) >= mostRefused && !strings.HasPrefix(caller, "key ") {
			caller = everyoneElse
		}
	}
	if f.all[caller] == nil {
		f.all[caller] = &callers.LogRate{}
	}
	return caller, f.all[caller]
}

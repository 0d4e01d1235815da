package httpapi

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Counter is told of what the API answers, for metrics. It is called on the hot
// path.
type Counter interface {
	// Requested counts a call by its name, which Calls has, and its status.
	Requested(call string, status int)
	// Refused counts messages that were refused before the engine saw them.
	Refused(messages int)
}

// The names of calls that are no operations.
const (
	callOther    = "other" // no such path, another method, or a foreign caller
	callDocument = "openapi"
	callProfile  = "profile"
)

// Calls are the names of all calls, each with the statuses that it answers. Any
// other status of a call is rare enough to be counted as one.
func Calls() map[string][]int {
	s := &server{figures: http.NotFoundHandler()}
	calls := map[string][]int{
		callOther:    {http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed},
		callDocument: {http.StatusOK},
		callProfile:  {http.StatusOK, http.StatusUnauthorized, http.StatusForbidden},
	}
	for _, o := range s.operations() {
		var all []int
		for status := range o.answers {
			all = append(all, status)
		}
		for _, k := range o.kinds() {
			all = append(all, k.status)
		}
		slices.Sort(all)
		calls[o.id] = slices.Compact(all)
	}
	return calls
}

// publishes reports whether it is a call that takes messages.
func (w *responseWriter) publishes() bool { return w.call == idPublish || w.call == idBatch }

// tell counts a call and, where it was refused, logs it.
func (s *server) tell(w *responseWriter, r *http.Request) {
	status := w.status
	if status == 0 {
		status = http.StatusOK
	}
	refused := 400 <= status && status < 500
	if s.counter != nil {
		s.counter.Requested(w.call, status)
		switch {
		case w.refused > 0:
			s.counter.Refused(w.refused)
		case refused && w.publishes() && !w.handed:
			s.counter.Refused(1)
		}
	}
	if w.refusal == nil || w.refusal.kind.status >= 500 { // what is ours is told elsewhere
		return
	}
	ctx := r.Context()
	if s.log.Enabled(ctx, slog.LevelDebug) {
		s.log.LogAttrs(ctx, slog.LevelDebug, "request refused", w.why()...)
	}
	if status := w.refusal.kind.status; status == http.StatusUnauthorized || status == http.StatusForbidden || w.publishes() {
		s.refusals.note(ctx, s.log, w, r)
	}
}

// why tells what was refused, and for what reason. Of a field it tells the path
// alone: the detail may repeat a value, which the caller is told and no log.
func (w *responseWriter) why() []slog.Attr {
	p := w.refusal
	attrs := []slog.Attr{
		slog.String("call", w.call), slog.Int("status", p.kind.status), slog.String("problem", p.kind.word),
	}
	if w.who != "" {
		attrs = append(attrs, slog.String("key", w.who))
	}
	if len(p.fields) > 0 {
		return append(attrs, slog.String("field", p.fields[0].Path))
	}
	return append(attrs, slog.String("detail", p.detail))
}

// mostRefused is how many callers are told apart at a time: keys are few, and of
// strangers' addresses there are as many as somebody likes.
const mostRefused = 64

// everyoneElse stands for the callers beyond mostRefused.
const everyoneElse = "others"

// refusals have a line logged of each caller that is refused, once in toldEvery.
type refusals struct {
	mu  sync.Mutex // guards all
	all map[string]*refusedCaller
}

// refusedCaller is one that was refused.
type refusedCaller struct {
	told   time.Time
	missed int // since then
}

// note logs a refusal where its caller's turn has come.
func (f *refusals) note(ctx context.Context, log *slog.Logger, w *responseWriter, r *http.Request) {
	who, address := "key "+w.who, ""
	if w.who == "" {
		address = r.RemoteAddr
		if host, _, err := net.SplitHostPort(address); err == nil {
			address = host
		}
		who = "address " + address
	}
	missed, caller, ok := f.turn(who, time.Now())
	if !ok {
		return
	}
	attrs := w.why()
	if address != "" && caller != everyoneElse {
		attrs = append(attrs, slog.String("address", address))
	}
	log.LogAttrs(ctx, slog.LevelInfo, "call refused", append(attrs, slog.Int("missed", missed))...)
}

// turn reports whether it may be logged of a caller now, and how often it was
// not since the last time.
func (f *refusals) turn(who string, now time.Time) (missed int, caller string, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.all[who] == nil && len(f.all) >= mostRefused {
		for name, c := range f.all {
			if now.Sub(c.told) >= toldEvery {
				delete(f.all, name)
			}
		}
		if len(f.all) >= mostRefused && !strings.HasPrefix(who, "key ") {
			who = everyoneElse
		}
	}
	c := f.all[who]
	switch {
	case c == nil:
		if f.all == nil {
			f.all = map[string]*refusedCaller{}
		}
		f.all[who] = &refusedCaller{told: now}
		return 0, who, true
	case now.Sub(c.told) < toldEvery:
		c.missed++
		return 0, who, false
	}
	missed = c.missed
	c.told, c.missed = now, 0
	return missed, who, true
}

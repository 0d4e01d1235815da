package httpapi

import (
	"context"
	"net/http"
	handlers "net/http/pprof"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
	"strconv"
	"strings"
	"sync"
	"time"
)

// profilesPath is where tools look for the profiles of a process.
const profilesPath = "/debug/pprof/"

// How long a profile is taken over, in seconds: usually, as tools expect, and
// at most, which is far more than one needs and still an end.
const (
	usualProfile = 30
	usualTrace   = 1
	mostProfiled = 300
)

// What is sampled of contended locks and of waiting: one in so many, and one in
// so many nanoseconds. Both cost, so nothing is unless somebody asks.
const (
	mutexRate = 10
	blockRate = 10_000
)

// profiles tell what the process does: where its time and its memory go. They
// are for people who look after it and no part of the API, so the document does
// not have them. They tell of all callers' work: only the scope admin may
// ask.
type profiles struct {
	sampling sync.Mutex // held while locks or waiting are sampled, which the process does for all alike
}

// routeProfiles routes to the profiles.
func (s *server) routeProfiles() {
	p := &profiles{}
	h := func(w http.ResponseWriter, r *http.Request) {
		if _, ok := s.authorised(w.(*responseWriter), r, scopeAdmin, callProfile); ok {
			p.ServeHTTP(w, r)
		}
	}
	s.mux.HandleFunc(strings.TrimSuffix(profilesPath, "/"), func(w http.ResponseWriter, _ *http.Request) { // the mux would send the caller on
		(&problem{kind: notFound, detail: "no such path; the profiles are at " + profilesPath}).write(w)
	})
	s.mux.HandleFunc("GET "+profilesPath, h)
	s.mux.HandleFunc("POST "+profilesPath+"symbol", h) // addresses may be too many for a URL
}

// ServeHTTP answers with a profile, or with a page that lists them.
func (p *profiles) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	seconds, wrong := profiledFor(r)
	if wrong != nil {
		wrong.write(w)
		return
	}
	switch name := strings.TrimPrefix(r.URL.Path, profilesPath); name {
	case "cmdline":
		handlers.Cmdline(w, r)
	case "symbol":
		handlers.Symbol(w, r)
	case "profile":
		record(w, r, given(seconds, usualProfile), func() error { return pprof.StartCPUProfile(w) }, pprof.StopCPUProfile)
	case "trace":
		record(w, r, given(seconds, usualTrace), func() error { return trace.Start(w) }, trace.Stop)
	default:
		if name != "" && pprof.Lookup(name) == nil {
			(&problem{kind: notFound, detail: "there is no such profile; GET " + profilesPath + " lists them"}).write(w)
			return
		}
		if seconds == 0 { // what there is by now
			handlers.Index(w, r)
			return
		}
		p.difference(w, r, name, seconds)
	}
}

// profiledFor is how many seconds a profile is to be taken over; 0: the caller
// does not say.
func profiledFor(r *http.Request) (seconds int, wrong *problem) {
	q := r.URL.Query()
	if !q.Has("seconds") {
		return 0, nil
	}
	seconds, err := strconv.Atoi(q.Get("seconds"))
	if err != nil || seconds < 1 || seconds > mostProfiled {
		return 0, wrongField("query.seconds", "must be a whole number of 1 to "+strconv.Itoa(mostProfiled))
	}
	return seconds, nil
}

func given(seconds, usual int) int {
	if seconds == 0 {
		return usual
	}
	return seconds
}

// patient lets an answer take so much longer than any other.
func patient(w http.ResponseWriter, seconds int) {
	until := time.Now().Add(time.Duration(seconds)*time.Second + answerWithin)
	_ = http.NewResponseController(w).SetWriteDeadline(until) // a writer that has none needs no later one
}

// record answers with what the process writes down from start to stop. It can
// do so for one at a time.
func record(w http.ResponseWriter, r *http.Request, seconds int, start func() error, stop func()) {
	patient(w, seconds)
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", `attachment; filename="`+strings.TrimPrefix(r.URL.Path, profilesPath)+`"`)
	if err := start(); err != nil {
		h.Del("Content-Disposition")
		(&problem{kind: profiling, detail: "ask again when it has ended"}).write(w)
		return
	}
	defer stop()
	enough := time.NewTimer(time.Duration(seconds) * time.Second)
	defer enough.Stop()
	select {
	case <-enough.C:
	case <-r.Context().Done():
	}
}

// difference answers with what came to a profile while the caller waits.
func (p *profiles) difference(w http.ResponseWriter, r *http.Request, name string, seconds int) {
	patient(w, seconds)
	if name == "mutex" || name == "block" {
		if !p.sampling.TryLock() {
			(&problem{kind: profiling, detail: "ask again when it has ended"}).write(w)
			return
		}
		defer p.sampling.Unlock()
		defer runtime.SetMutexProfileFraction(runtime.SetMutexProfileFraction(mutexRate))
		runtime.SetBlockProfileRate(blockRate)
		defer runtime.SetBlockProfileRate(0)
	}
	// Without a server that it knows, the handler leaves the time that patient gave.
	handlers.Index(w, r.WithContext(context.WithValue(r.Context(), http.ServerContextKey, nil)))
}

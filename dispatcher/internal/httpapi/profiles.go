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

	"github.com/hookladder/hookladder/dispatcher/internal/callers"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/api"
)

// profilesPath is the path at which tools expect the profiles of a process.
const profilesPath = "/debug/pprof/"

// Durations of profiles in seconds: the defaults that tools expect, and the maximum, which is
// far above any use.
const (
	usualProfile = 30
	usualTrace   = 1
	mostProfiled = 300
)

// Sampling rates of contended locks (one in n) and of blocking (one in n nanoseconds).
// Sampling costs time, so it is on only during such a profile.
const (
	mutexRate = 10
	blockRate = 10_000
)

// profiles serves profiles of the time and the memory of the process. They are for operators
// and no part of the API, so the document does not have them. They include the work for all
// callers, so they need the scope admin.
type profiles struct {
	sampling sync.Mutex // locked while locks or blocking are sampled, because the process has one rate for each
}

// routeProfiles routes to the profiles.
func (s *server) routeProfiles() {
	p, profile := &profiles{}, api.Operation{ID: callProfile, Scope: callers.Admin}
	h := func(w http.ResponseWriter, r *http.Request) {
		if _, ok := s.authorised(w.(*api.ResponseWriter), r, &profile); ok {
			p.ServeHTTP(w, r)
		}
	}
	s.mux.HandleFunc(strings.TrimSuffix(profilesPath, "/"), func(w http.ResponseWriter, _ *http.Request) { // the mux would redirect the caller
		(&api.Problem{Kind: api.NotFound, Detail: "no such path; the profiles are at " + profilesPath}).Write(w)
	})
	s.mux.HandleFunc("GET "+profilesPath, h)
	s.mux.HandleFunc("POST "+profilesPath+"symbol", h) // there may be too many addresses for a URL
}

// ServeHTTP returns a profile, or a page that lists them.
func (p *profiles) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	seconds, wrong := profiledFor(r)
	if wrong != nil {
		wrong.Write(w)
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
			(&api.Problem{Kind: api.NotFound, Detail: "there is no such profile; GET " + profilesPath + " lists them"}).Write(w)
			return
		}
		if seconds == 0 { // since the start of the process
			handlers.Index(w, r)
			return
		}
		p.difference(w, r, name, seconds)
	}
}

// profiledFor returns the requested duration in seconds; 0: the default.
func profiledFor(r *http.Request) (seconds int, wrong *api.Problem) {
	q := r.URL.Query()
	if !q.Has("seconds") {
		return 0, nil
	}
	seconds, err := strconv.Atoi(q.Get("seconds"))
	if err != nil || seconds < 1 || seconds > mostProfiled {
		return 0, api.WrongField("query.seconds", "must be a whole number of 1 to "+strconv.Itoa(mostProfiled))
	}
	return seconds, nil
}

func given(seconds, usual int) int {
	if seconds == 0 {
		return usual
	}
	return seconds
}

// patient extends the deadline of a response by some seconds.
func patient(w http.ResponseWriter, seconds int) {
	until := time.Now().Add(time.Duration(seconds)*time.Second + callers.AnswerWithin)
	_ = http.NewResponseController(w).SetWriteDeadline(until) // it fails for a writer without a deadline, which needs no later one
}

// record writes the profile of the time between start and stop. Only one recording of a kind
// may run at a time.
func record(w http.ResponseWriter, r *http.Request, seconds int, start func() error, stop func()) {
	patient(w, seconds)
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", `attachment; filename="`+strings.TrimPrefix(r.URL.Path, profilesPath)+`"`)
	if err := start(); err != nil {
		h.Del("Content-Disposition")
		(&api.Problem{Kind: api.Profiling, Detail: "ask again when it has ended"}).Write(w)
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

// difference writes the part of a profile that is added while the caller waits.
func (p *profiles) difference(w http.ResponseWriter, r *http.Request, name string, seconds int) {
	patient(w, seconds)
	if name == "mutex" || name == "block" {
		if !p.sampling.TryLock() {
			(&api.Problem{Kind: api.Profiling, Detail: "ask again when it has ended"}).Write(w)
			return
		}
		defer p.sampling.Unlock()
		defer runtime.SetMutexProfileFraction(runtime.SetMutexProfileFraction(mutexRate))
		runtime.SetBlockProfileRate(blockRate)
		defer runtime.SetBlockProfileRate(0)
	}
	// The handler would reject a duration beyond the server's WriteTimeout, so the server is
	// hidden from it.
	handlers.Index(w, r.WithContext(context.WithValue(r.Context(), http.ServerContextKey, nil)))
}

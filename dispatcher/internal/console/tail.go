package console

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

const (
	// tailLines is how many attempts the tail page shows at first.
	tailLines = 50
	// askAgain is how often a stream checks its session. The API sends something every 15
	// s, so each of these costs at most one check.
	askAgain = 10 * time.Second
)

// tailPage is the live list of attempts. The newest is on top, as in all lists. So it needs
// no script for scrolling, and a browser keeps the position of a reader that scrolled down.
type tailPage struct {
	Lines    []wire.LoggedAttempt
	Filter   tailFilter
	Filtered bool
	Outcomes []choice
	Wrong    string // the API's error about the filter; empty: none
	Events   string // the URL that the script follows; empty: this page is an older one
	Pages    listPages
	LookedAt int
}

// tailFilter is the filter form.
type tailFilter struct{ Tenant, Destination, Topic, Subject, Message, Code, Job string }

// choice is one of several links, some of which are selected.
type choice struct {
	Word, URL string
	On        bool
}

// outcomes are the filter values for the result of an attempt.
var outcomes = dispatcher.Texts(dispatcher.Happenings())

// tailQuery returns the filter in a visitor's query, without parameters that the API does
// not know.
func tailQuery(v *visit) url.Values {
	q := url.Values{}
	for _, name := range paramsOf(client.AttemptFilter{}, "since", "until", "limit", "cursor") {
		for _, value := range v.r.URL.Query()[name] {
			if value != "" {
				q.Add(name, value)
			}
		}
	}
	return q
}

// tail serves GET /console/tail: the newest attempts. A script adds new ones.
func tail(v *visit) (pageAnswer, error) {
	q, cursor := tailQuery(v), v.r.URL.Query().Get("cursor")
	page := tailPage{
		Filter: tailFilter{
			Tenant: q.Get("tenant"), Destination: q.Get("destination"), Topic: q.Get("topic"), Subject: q.Get("subject"),
			Message: q.Get("message"), Code: q.Get("status_code"), Job: q.Get("job"),
		},
		Events: v.base + "/tail/events?" + q.Encode(), Outcomes: choices(v.base+"/tail", q, "outcome", outcomes),
	}
	f := client.AttemptFilter{Limit: tailLines, Cursor: cursor}
	fill(&f, "query", q)
	log, err := v.Attempts(v.ctx, f)
	if page.Wrong, err = refusal(err); err != nil {
		return pageAnswer{}, err
	}
	page.Lines, page.Filtered, page.LookedAt = log.Data, len(q) > 0, log.LookedAt
	if page.Pages = pagesOf(v.base+"/tail", q, cursor, log.NextCursor); cursor != "" {
		page.Events = "" // this page is an older one
	} else if !page.Filtered {
		page.Pages = listPages{} // the live page has all attempts as they happen
	}
	return pageAnswer{template: "tail", title: "Tail", section: "tail", body: page}, nil
}

// choices returns links that each add or remove a value of a parameter.
func choices(path string, q url.Values, name string, words []string) []choice {
	var out []choice
	for _, word := range words {
		next, on := url.Values{}, false
		for key, values := range q {
			for _, value := range values {
				if key == name && value == word {
					on = true
					continue
				}
				next.Add(key, value)
			}
		}
		if !on {
			next.Add(name, word)
		}
		out = append(out, choice{Word: word, URL: path + "?" + next.Encode(), On: on})
	}
	return out
}

// tailEvents serves GET /console/tail/events: the API's stream of attempts, until the
// visitor's key or session ends.
func (s *server) tailEvents(v *visit) (pageAnswer, error) {
	ctx := v.r.Context() // without the page's timeout
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/v1/attempts?"+tailQuery(v).Encode(), nil)
	if err != nil {
		return pageAnswer{}, err
	}
	r.RequestURI, r.RemoteAddr = r.URL.RequestURI(), v.r.RemoteAddr
	r.Header.Set("Accept", "text/event-stream")
	if behind := v.r.Header.Get("Last-Event-ID"); behind != "" {
		r.Header.Set("Last-Event-ID", behind)
	}
	s.API.ServeHTTP(&streamWriter{ResponseWriter: v.w, known: func() bool { return s.stillKnown(ctx, v.r) }, asked: time.Now()}, r)
	return pageAnswer{}, nil
}

// stillKnown reports whether a browser is still signed in. It returns true if that is
// unknown.
func (s *server) stillKnown(ctx context.Context, r *http.Request) bool {
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	who, err := s.operator(ctx, r)
	return err != nil || s.may(who, "list-attempts")
}

var errSignedOut = errors.New("signed out")

// streamWriter is the response of a stream. It ends when the visitor has signed out.
type streamWriter struct {
	http.ResponseWriter
	known func() bool
	asked time.Time
}

// Write sends a part of the stream.
func (w *streamWriter) Write(b []byte) (int, error) {
	if time.Since(w.asked) >= askAgain {
		if !w.known() {
			return 0, errSignedOut
		}
		w.asked = time.Now()
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap supports http.ResponseController.
func (w *streamWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

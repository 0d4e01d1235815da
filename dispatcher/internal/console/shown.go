package console

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/hookladder/hookladder/dispatcher/access"
)

// Shown keeps the pages that answer actions, each for access.ShownFor and for one session
// or link. access.ErrNotShown says that the owner has no such page.
type Shown struct {
	Put func(ctx context.Context, owner string, page []byte) (id string, err error)
	Get func(ctx context.Context, owner, id string) ([]byte, error)
}

// shownParam names the parameter with the id of a page that is kept.
const shownParam = "shown"

// caughtAnswer is what an action answers. Every POST is answered with a redirect, so that
// no reload, no step back and no copied URL acts again: a page is caught, kept, and shown
// behind the redirect.
type caughtAnswer struct {
	heldAnswer
	to http.ResponseWriter
}

// catch catches what an action answers, but for its headers.
func catch(to http.ResponseWriter) *caughtAnswer {
	return &caughtAnswer{heldAnswer: heldAnswer{header: to.Header(), status: http.StatusOK}, to: to}
}

// Unwrap is for http.ResponseController.
func (w *caughtAnswer) Unwrap() http.ResponseWriter { return w.to }

// placeOf is how many segments of an action's path are not of the page that shows what
// it answers: the next page above it, or one with the same path.
func placeOf(action pageRoute, routes []pageRoute) (above int) {
	for path := action.path; path != ""; above++ {
		if slices.ContainsFunc(routes, func(o pageRoute) bool { return o.method == http.MethodGet && o.path == path }) {
			return above
		}
		path = path[:strings.LastIndexByte(path, '/')]
	}
	return above
}

// place is the page that shows what an action answers, unless it says another one.
func place(r *http.Request, base string, above int) string {
	path := r.URL.EscapedPath()
	for range above {
		path = path[:strings.LastIndexByte(path, '/')]
	}
	if path == base {
		path += "/"
	}
	return path
}

// leave sends the browser from an action to its place, where the page is shown that w caught.
func (s *server) leave(v *visit, w *caughtAnswer) {
	v.w = w.to
	h := v.w.Header()
	switch {
	case !w.begun: // the browser has gone
		return
	case w.status >= 300 && w.status < 400:
		v.w.WriteHeader(w.status)
		return
	case w.status == http.StatusServiceUnavailable: // the store can keep nothing then
		http.Redirect(v.w, v.r, withTold(v.at, "unknown"), http.StatusSeeOther)
		return
	}
	h.Del("Content-Type")
	h.Set("Cache-Control", "no-store")
	owner := s.owner(v)
	if owner == "" { // its place says the same to somebody who is not signed in
		http.Redirect(v.w, v.r, v.at, http.StatusSeeOther)
		return
	}
	ctx, cancel := context.WithTimeout(v.r.Context(), lookFor) // the action's own time may be over
	defer cancel()
	path, query, _ := strings.Cut(v.at, "?")
	page := fmt.Appendf(nil, "%d %s\n%s", w.status, path, w.body.Bytes())
	id, err := within(ctx, func() (string, error) { return s.Shown.Put(ctx, owner, page) })
	if err != nil {
		s.Log.WarnContext(v.r.Context(), "answer not kept", "path", s.logPath(v.r), "err", err)
		http.Redirect(v.w, v.r, withTold(v.at, "unshown"), http.StatusSeeOther)
		return
	}
	q, _ := url.ParseQuery(query)
	q.Set(shownParam, id)
	http.Redirect(v.w, v.r, path+"?"+q.Encode(), http.StatusSeeOther)
}

// owner names the session or link whose answers are kept; empty: there is none.
func (s *server) owner(v *visit) string {
	switch {
	case v.Visitor.Link != nil:
		return "link:" + v.Visitor.Link.ID
	case v.Visitor.Key == nil:
		return ""
	case s.Keyless():
		return "local"
	}
	c, err := v.r.Cookie(s.cookie())
	if err != nil {
		return ""
	}
	return "session:" + access.HashToken(c.Value)
}

// showKept shows the page with the id, or sends the browser to what is there now.
func (s *server) showKept(v *visit, id string) error {
	page, err := within(v.ctx, func() ([]byte, error) { return s.Shown.Get(v.ctx, s.owner(v), id) })
	if err != nil && !errors.Is(err, access.ErrNotShown) {
		return err
	}
	var status int
	var path string
	head, html, _ := bytes.Cut(page, []byte("\n"))
	if _, scanned := fmt.Sscanf(string(head), "%d %s", &status, &path); err != nil || scanned != nil || path != v.r.URL.EscapedPath() {
		q := v.r.URL.Query()
		q.Del(shownParam)
		to := url.URL{Path: v.r.URL.Path, RawPath: v.r.URL.RawPath, RawQuery: q.Encode()}
		http.Redirect(v.w, v.r, withTold(to.String(), "gone"), http.StatusSeeOther)
		return nil
	}
	h := v.w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	v.w.WriteHeader(status)
	_, _ = v.w.Write(html)
	return nil
}

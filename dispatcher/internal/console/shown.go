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

	"github.com/hookladder/hookladder/dispatcher"
)

// Shown stores the results of actions, each for access.ShownFor and for one session or
// link. access.ErrNotShown says that the owner has no such result.
type Shown struct {
	Put func(ctx context.Context, owner string, page []byte) (id string, err error)
	Get func(ctx context.Context, owner, id string) ([]byte, error)
}

// shownParam is the parameter with the id of a stored result.
const shownParam = "shown"

// caughtAnswer is the response of an action. Every POST ends in a redirect, so that a
// reload or a copied URL does not repeat the action. Therefore the response is stored and
// shown after the redirect.
type caughtAnswer struct {
	bufferedAnswer
	to http.ResponseWriter
}

// catch records the response of an action without its headers.
func catch(to http.ResponseWriter) *caughtAnswer {
	return &caughtAnswer{bufferedAnswer: bufferedAnswer{header: to.Header(), status: http.StatusOK}, to: to}
}

// Unwrap supports http.ResponseController.
func (w *caughtAnswer) Unwrap() http.ResponseWriter { return w.to }

// placeOf returns how many segments an action's path has more than the page that shows its
// result. That is the next page above it, or one with the same path.
func placeOf(action pageRoute, routes []pageRoute) (above int) {
	for path := action.path; path != ""; above++ {
		if slices.ContainsFunc(routes, func(o pageRoute) bool { return o.method == http.MethodGet && o.path == path }) {
			return above
		}
		path = path[:strings.LastIndexByte(path, '/')]
	}
	return above
}

// place returns the page that shows an action's result, unless the action names another
// one.
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

// leave stores the recorded response and redirects the browser to its page.
func (s *server) leave(v *visit, w *caughtAnswer) {
	v.w = w.to
	h := v.w.Header()
	switch {
	case !w.begun: // the browser has closed the connection
		return
	case w.status >= 300 && w.status < 400:
		v.w.WriteHeader(w.status)
		return
	case w.status == http.StatusServiceUnavailable: // the store can't store it then
		http.Redirect(v.w, v.r, withResult(v.at, "unknown"), http.StatusSeeOther)
		return
	}
	h.Del("Content-Type")
	owner := s.owner(v)
	if owner == "" { // a visitor without a session sees the same error there
		http.Redirect(v.w, v.r, v.at, http.StatusSeeOther)
		return
	}
	ctx, cancel := context.WithTimeout(v.r.Context(), pageTimeout) // the action's timeout may be over
	defer cancel()
	path, query, _ := strings.Cut(v.at, "?")
	page := fmt.Appendf(nil, "%d %s\n%s", w.status, path, w.body.Bytes())
	id, err := within(ctx, func() (string, error) { return s.Shown.Put(ctx, owner, page) })
	if err != nil {
		s.Log.WarnContext(v.r.Context(), "answer not kept", "path", s.logPath(v.r), "err", err)
		http.Redirect(v.w, v.r, withResult(v.at, "unshown"), http.StatusSeeOther)
		return
	}
	q, _ := url.ParseQuery(query)
	q.Set(shownParam, id)
	http.Redirect(v.w, v.r, path+"?"+q.Encode(), http.StatusSeeOther)
}

// owner names the session or link that owns a result; empty: none.
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
	return "session:" + dispatcher.HashToken(c.Value)
}

// showKept writes the stored result with this id, or redirects to the present page.
func (s *server) showKept(v *visit, id string) error {
	page, err := within(v.ctx, func() ([]byte, error) { return s.Shown.Get(v.ctx, s.owner(v), id) })
	if err != nil && !errors.Is(err, dispatcher.ErrNotShown) {
		return err
	}
	var status int
	var path string
	head, html, _ := bytes.Cut(page, []byte("\n"))
	if _, scanned := fmt.Sscanf(string(head), "%d %s", &status, &path); err != nil || scanned != nil || path != v.r.URL.EscapedPath() {
		q := v.r.URL.Query()
		q.Del(shownParam)
		to := url.URL{Path: v.r.URL.Path, RawPath: v.r.URL.RawPath, RawQuery: q.Encode()}
		http.Redirect(v.w, v.r, withResult(to.String(), "gone"), http.StatusSeeOther)
		return nil
	}
	v.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	v.w.WriteHeader(status)
	_, _ = v.w.Write(html)
	return nil
}

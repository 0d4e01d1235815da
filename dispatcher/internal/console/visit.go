package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/internal/callers"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

const (
	// pageTimeout is the timeout of a page, including reading its session. Parts that are not
	// ready then are missing on the page.
	pageTimeout = time.Second
	// actFor is the timeout of an action.
	actFor = 20 * time.Second
	// maxForm limits the form of an action, and maxOpenForm that of a visitor who is not signed in:
	// a key and the page where to go.
	maxForm     = 128 << 10
	maxOpenForm = 4 << 10
	// linkForms is the share of all links in the memory for forms. No key has this name.
	linkForms = "links:"
)

// visit is a request and its visitor.
type visit struct {
	Visitor
	*client.Client // the API inside the process, for contexts of this visit
	srv            *server
	w              http.ResponseWriter
	r              *http.Request
	ctx            context.Context // ends at the page's timeout
	base           string          // /console or /link
	at             string          // of an action: path and query of the page that shows the result; empty for a page
}

// pageAnswer is the result of a page or an action: data for a template, or a redirect.
type pageAnswer struct {
	template string // its name
	title    string
	section  string      // in the navigation; empty: none
	status   int         // 0: 200
	body     any         // the template's data, without times of now, so that an unchanged page has the same ETag
	stats    *wire.Stats // the figures for the navigation, if the page has read them; nil: they are read
	to       string      // the target of a redirect
	result   string      // after an action: a word of results that the target shows
	goesOn   bool        // after an action: the page is its usual one, with the result in addition
}

// identify returns the visitor of a request.
type identify func(ctx context.Context, r *http.Request) (Visitor, error)

// handle serves a route that is a page.
func (s *server) handle(o pageRoute, base string, who identify) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), pageTimeout)
		defer cancel()
		s.answer(o, who, &visit{srv: s, w: w, r: r, ctx: ctx, base: base})
	}
}

// act serves a route that is an action.
func (s *server) act(o pageRoute, above int, base string, who identify) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		caught := catch(w)
		v := &visit{srv: s, w: caught, r: r, base: base, at: place(r, base, above)}
		ctx, cancel := context.WithTimeout(r.Context(), actFor)
		defer cancel()
		v.ctx = ctx
		s.answer(o, who, v)
		s.leave(v, caught)
	}
}

// answer reads the visitor and runs the page or action of a route.
func (s *server) answer(o pageRoute, who identify, v *visit) {
	visitor, err := who(v.ctx, v.r)
	v.Visitor, v.Client = visitor, s.api
	v.r = v.r.WithContext(dispatcher.WithBrowser(v.r.Context(), visitor.browser()))
	v.ctx = dispatcher.WithBrowser(v.ctx, visitor.browser())
	if err == nil {
		err = callers.Identify(v.w, v.r, callerOf(visitor, v.r))
	}
	if err == nil {
		err = v.refusal(o.needs)
	}
	if err == nil && v.r.Method == http.MethodPost {
		var release func()
		release, err = s.readForm(v)
		defer release()
	}
	var a pageAnswer
	if err == nil {
		if id := v.r.URL.Query().Get(shownParam); id != "" && v.at == "" {
			err = s.showKept(v, id)
		} else {
			a, err = o.do(v)
		}
	}
	switch {
	case err != nil:
		s.fail(v, err)
	case a.to != "":
		http.Redirect(v.w, v.r, withResult(a.to, a.result), http.StatusSeeOther)
	case a.template != "":
		s.render(v, a)
	}
}

// readForm parses the form of an action, after its visitor is known.
func (s *server) readForm(v *visit) (release func(), err error) {
	switch {
	case v.Key != nil:
		release, err = s.Form(v.w, v.r, v.Key.Name, maxForm)
	case v.Link != nil:
		release, err = s.Form(v.w, v.r, linkForms, maxForm)
	default:
		release, err = readPlain(v.w, v.r, "", maxOpenForm)
	}
	if err != nil && !errors.Is(err, ErrNoRoom) {
		err = &client.Problem{Problem: wire.Problem{Title: "the form is too large, or broken", Status: http.StatusBadRequest}}
	}
	return release, err
}

// callerOf returns the identity whose share of requests a visitor uses.
func callerOf(v Visitor, r *http.Request) callers.Identity {
	switch {
	case v.Link != nil:
		return callers.Link(v.Link.Tenant)
	case v.Key != nil:
		return callers.Key(v.Key.Key)
	}
	return callers.Address(callers.AddressOf(r))
}

// withResult adds the word of a result to a path.
func withResult(to, result string) string {
	if result == "" {
		return to
	}
	path, query, _ := strings.Cut(to, "?")
	q, _ := url.ParseQuery(query)
	q.Set("told", result)
	return path + "?" + q.Encode()
}

// fail writes a page about an error, with a link back.
func (s *server) fail(v *visit, err error) {
	var p *client.Problem
	var spent *SpentError
	switch {
	case errors.Is(err, ErrNoRoom):
		s.wrong(v, http.StatusTooManyRequests, "Too many forms at once", "Nothing was done. Try again in a moment.")
	case errors.Is(err, ErrSignIn), errors.As(err, &p) && p.Status == http.StatusUnauthorized:
		s.toSignIn(v)
	case errors.Is(err, ErrForbidden), errors.As(err, &p) && p.Status == http.StatusForbidden:
		s.wrong(v, http.StatusForbidden, "Your key may not do this", "It lacks the scope for it. Sign in with another key, or ask for the scope admin.")
	case errors.Is(err, ErrHidden), v.Link != nil && errors.Is(err, client.ErrNotFound):
		s.wrong(v, http.StatusNotFound, "Nothing here", "There is nothing of this name, or it was forgotten.")
	case errors.Is(err, callers.ErrShare):
		v.w.Header().Set("Retry-After", "1")
		s.wrong(v, http.StatusTooManyRequests, "Too many at once", "Half of all connections are yours, and others need them. Try again in a moment.")
	case errors.Is(err, ErrDisabled):
		s.wrong(v, http.StatusConflict, "Not done", sentence(err))
	case errors.As(err, &spent):
		v.w.Header().Set("Retry-After", strconv.Itoa(int(spent.Wait.Seconds())+1))
		s.wrong(v, http.StatusTooManyRequests, "Too many at once", sentence(spent))
	case wrongCursor(p) && v.r.Method != http.MethodPost:
		first := v.r.URL.Query()
		first.Del("cursor")
		http.Redirect(v.w, v.r, (&url.URL{Path: v.r.URL.Path, RawQuery: first.Encode()}).String(), http.StatusSeeOther)
	case errors.As(err, &p) && p.Status < http.StatusInternalServerError:
		s.wrong(v, p.Status, p.Title, p.Problem.Error())
	case v.r.Context().Err() != nil: // the browser has closed the connection
	case p != nil && p.Status == http.StatusInternalServerError:
		s.Log.ErrorContext(v.r.Context(), "page failed", "path", s.logPath(v.r), "err", err)
		s.wrong(v, http.StatusInternalServerError, "This went wrong", "It is our fault, and the log says why.")
	default:
		s.away(v, err)
	}
}

// wrongCursor reports whether the API refused the cursor of a list.
func wrongCursor(p *client.Problem) bool {
	return p != nil && len(p.Errors) > 0 && p.Errors[0].Path == "query.cursor"
}

// refusal returns the API's error about a filter, so that a page can show it and continue
// without the filter. It returns all other errors, and errors of a cursor, as rest.
func refusal(err error) (sentence string, rest error) {
	var p *client.Problem
	if errors.As(err, &p) && !wrongCursor(p) && (p.Status == http.StatusUnprocessableEntity || p.Status == http.StatusBadRequest) {
		if len(p.Errors) == 0 {
			return p.Problem.Error() + ".", nil
		}
		first := p.Errors[0]
		return fmt.Sprintf("The filter %s is wrong: %s.", strings.TrimPrefix(first.Path, "query."), first.Detail), nil
	}
	return "", err
}

// awayPage is the data of a page about an outage.
type awayPage struct {
	Why    absence
	Title  string // of an absence that the API's problem names
	Detail string
}

// away writes a page that nothing can be shown now, and why. It is different from the page for a
// browser that is not signed in. Meanwhile it logs one page in a minute.
func (s *server) away(v *visit, err error) {
	if missed, ok := s.failures.Allow(); ok {
		s.Log.WarnContext(v.r.Context(), "page failed", "path", s.logPath(v.r), "err", err, "missed", missed)
	}
	v.w.Header().Set("Retry-After", "5")
	page := awayPage{Why: v.absenceOf(err)}
	var p *client.Problem
	title := "Redis can't be reached"
	switch {
	case page.Why == absentSlow:
		title = "This took too long"
	case v.base == s.link:
		title = "Nothing can be shown now"
	case page.Why == absentRefused && errors.As(err, &p):
		title, page.Title, page.Detail = p.Title, p.Title, p.Detail
	default:
		page.Why = absentStore
	}
	s.render(v, pageAnswer{template: "away", title: title, status: http.StatusServiceUnavailable, body: page})
}

// sentence returns an error as a sentence for a page.
func sentence(err error) string {
	text := err.Error()
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

// wrongPage is the data of an error page.
type wrongPage struct{ Title, Text string }

func (s *server) wrong(v *visit, status int, title, text string) {
	s.render(v, pageAnswer{template: "error", title: title, status: status, body: wrongPage{Title: title, Text: text}})
}

// toSignIn redirects a browser that is not signed in. A request from another site has no
// session cookie, so the browser is made to repeat it from our own page, with the cookie.
func (s *server) toSignIn(v *visit) {
	switch {
	case v.r.Header.Get("X-Refresh") != "": // from the refresh script: the page reloads
		v.w.WriteHeader(http.StatusUnauthorized)
	case v.r.Method == http.MethodGet && v.r.Header.Get("Sec-Fetch-Site") == "cross-site" && !s.opensLink(v.r.URL.Path):
		s.render(v, pageAnswer{template: "again", title: "One moment", body: v.r.URL.RequestURI()})
	case v.base == s.link:
		s.wrong(v, http.StatusNotFound, "This link opens nothing", "It is wrong, has expired, or was revoked; or this browser closed it. Open it again, or ask for another one.")
	default:
		to := s.console + "/sign-in"
		if v.r.Method == http.MethodGet && v.r.URL.RequestURI() != s.console+"/" {
			to += "?" + url.Values{"to": {v.r.URL.RequestURI()}}.Encode()
		}
		http.Redirect(v.w, v.r, to, http.StatusSeeOther)
	}
}

// refuse refuses a request before its visitor is known.
func (s *server) refuse(w http.ResponseWriter, r *http.Request, status int, text string) {
	v := &visit{Client: s.api, srv: s, w: w, r: r, ctx: r.Context(), base: s.console}
	if underBase(r.URL.Path, s.link) {
		v.base = s.link
	}
	s.wrong(v, status, "Not done", text)
}

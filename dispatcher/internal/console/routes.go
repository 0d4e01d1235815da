package console

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/hookladder/hookladder/dispatcher/internal/console/desk"
)

// The paths below which everything lies, behind that of PublicURL.
const (
	consolePath = "/console"
	linkPath    = "/link"
)

// bases are these paths as browsers know them.
type bases struct{ public, console, link string }

// basesOf are those below a PublicURL. A proxy may take its path away or leave it.
func basesOf(public *url.URL) bases {
	if public == nil {
		return bases{console: consolePath, link: linkPath}
	}
	p := strings.TrimRight(public.Path, "/")
	return bases{p, p + consolePath, p + linkPath}
}

// pageRoute is a page, or an action.
type pageRoute struct {
	method, path string // below the base
	needs        desk.Right
	do           func(v *visit) (pageAnswer, error)
}

// consoleRoutes are for the operator's people.
func (s *server) consoleRoutes() []pageRoute {
	return []pageRoute{
		{"GET", "/sign-in", desk.Open, s.showSignIn},
		{"POST", "/sign-in", desk.Open, s.signIn},
		{"POST", "/sign-out", desk.Open, s.signOut},
		{"GET", "/{$}", desk.Survey, now},

		{"GET", "/deliveries", desk.See, deliveries},
		{"POST", "/deliveries/picked", desk.Attempt, picked},
		{"GET", "/messages/{id}", desk.See, message},
		{"GET", "/messages/{id}/body", desk.Contents, body},
		{"POST", "/messages/{id}/retry", desk.Attempt, retry},
		{"POST", "/messages/{id}/cancel", desk.Operate, cancel},
		{"GET", "/dead", desk.Survey, dead},
		{"GET", "/jobs", desk.Survey, jobs},
		{"GET", "/jobs/new", desk.Operate, newJob},
		{"POST", "/jobs", desk.Operate, startJob},
		{"GET", "/jobs/{id}", desk.Survey, job},
		{"POST", "/jobs/{id}/stop", desk.Operate, stopJob},
		{"POST", "/jobs/{id}/resume", desk.Operate, resumeJob},

		{"GET", "/endpoints", desk.See, endpoints},
		{"POST", "/endpoints", desk.Edit, createEndpoint},
		{"GET", "/endpoints/new", desk.Edit, newEndpoint},
		{"GET", "/endpoints/{id}", desk.See, endpoint},
		{"POST", "/endpoints/{id}", desk.Edit, changeEndpoint},
		{"GET", "/endpoints/{id}/edit", desk.Edit, editEndpoint},
		{"POST", "/endpoints/{id}/test", desk.Attempt, testEndpoint},
		{"POST", "/endpoints/{id}/pause", desk.Hold, pauseEndpoint},
		{"POST", "/endpoints/{id}/resume", desk.Hold, resumeEndpoint},
		{"POST", "/endpoints/{id}/confirm", desk.Configure, confirmEndpoint},
		{"GET", "/endpoints/{id}/rotate", desk.Edit, askRotate},
		{"POST", "/endpoints/{id}/rotate", desk.Edit, rotateSecret},
		{"POST", "/endpoints/{id}/secret", desk.Configure, showSecret},
		{"GET", "/endpoints/{id}/delete", desk.Configure, askDelete},
		{"POST", "/endpoints/{id}/delete", desk.Configure, deleteEndpoint},

		{"GET", "/tail", desk.Survey, tail},
		{"GET", "/tail/events", desk.Survey, s.tailEvents},

		{"GET", "/system", desk.Survey, system},
		{"GET", "/lanes", desk.Survey, lanes},
		{"GET", "/lanes/{lane}", desk.Survey, lane},
		{"POST", "/lanes/{lane}/pause", desk.Operate, pauseLane},
		{"POST", "/lanes/{lane}/resume", desk.Operate, resumeLane},
		{"GET", "/audit", desk.Govern, audit},
		{"GET", "/links", desk.Govern, links},
		{"POST", "/links", desk.Govern, createLink},
		{"POST", "/links/{link}/revoke", desk.Govern, revokeLink},
	}
}

// linkRoutes are for a merchant's people.
func (s *server) linkRoutes() []pageRoute {
	return []pageRoute{
		{"GET", "/{token}", desk.Open, s.showLink},
		{"POST", "/{token}", desk.Open, s.openLink},
		{"POST", "/sign-out", desk.Open, s.closeLink},
		{"GET", "/{$}", desk.See, home},

		{"GET", "/deliveries", desk.See, deliveries},
		{"POST", "/deliveries/picked", desk.Attempt, picked},
		{"GET", "/messages/{id}", desk.See, message},
		{"GET", "/messages/{id}/body", desk.Contents, body},
		{"POST", "/messages/{id}/retry", desk.Attempt, retry},

		{"GET", "/endpoints", desk.See, endpoints},
		{"POST", "/endpoints", desk.Edit, createEndpoint},
		{"GET", "/endpoints/new", desk.Edit, newEndpoint},
		{"GET", "/endpoints/{id}", desk.See, endpoint},
		{"POST", "/endpoints/{id}", desk.Edit, changeEndpoint},
		{"GET", "/endpoints/{id}/edit", desk.Edit, editEndpoint},
		{"POST", "/endpoints/{id}/test", desk.Attempt, testEndpoint},
		{"POST", "/endpoints/{id}/pause", desk.Hold, pauseEndpoint},
		{"POST", "/endpoints/{id}/resume", desk.Hold, resumeEndpoint},
		{"GET", "/endpoints/{id}/rotate", desk.Edit, askRotate},
		{"POST", "/endpoints/{id}/rotate", desk.Edit, rotateSecret},
	}
}

// Route is a page or an action, as tests of all of them need it.
type Route struct {
	Method, Path string // of a request, with names in braces
	Needs        desk.Right
}

// Routes are all pages and actions.
func Routes() []Route {
	var all []Route
	s := &server{}
	for base, list := range map[string][]pageRoute{consolePath: s.consoleRoutes(), linkPath: s.linkRoutes()} {
		for _, o := range list {
			all = append(all, Route{o.method, base + o.path, o.needs})
		}
	}
	return all
}

// register makes the routes known.
func (s *server) register() {
	for _, all := range []struct {
		base   string
		routes []pageRoute
		who    identify
	}{{s.console, s.consoleRoutes(), s.operator}, {s.link, s.linkRoutes(), s.merchant}} {
		for _, o := range all.routes {
			h := s.handle(o, all.base, all.who)
			if o.method == http.MethodPost {
				h = s.act(o, placeOf(o, all.routes), all.base, all.who)
			}
			s.mux.HandleFunc(o.method+" "+all.base+o.path, h)
		}
	}
	for _, base := range []string{s.console, s.link} {
		s.mux.HandleFunc("GET "+base+"/static/{name}", s.look.serve)
		s.mux.HandleFunc("GET "+base, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, base+"/", http.StatusSeeOther)
		})
	}
	nothing := pageRoute{needs: desk.Open, do: func(*visit) (pageAnswer, error) { return pageAnswer{}, desk.ErrHidden }}
	s.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		base, who := s.console, s.operator
		if underBase(r.URL.Path, s.link) {
			base, who = s.link, s.merchant
		}
		s.handle(nothing, base, who)(w, r)
	})
}

// Serves reports whether a path is of the pages, and not of the API.
func Serves(path string, public *url.URL) bool {
	b := basesOf(public)
	return slices.ContainsFunc([]string{b.console, b.link, consolePath, linkPath}, func(base string) bool { return underBase(path, base) })
}

// Start is where a person begins who typed the address alone.
func Start(public *url.URL) string { return basesOf(public).console + "/" }

// underBase reports whether a path is a base or lies below it.
func underBase(path, base string) bool {
	rest, ok := strings.CutPrefix(path, base)
	return ok && (rest == "" || rest[0] == '/')
}

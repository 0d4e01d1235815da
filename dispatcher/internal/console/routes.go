package console

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// The paths below which everything lies, behind that of PublicURL.
const (
	consolePath = "/console"
	linkPath    = "/link"
)

// bases are these paths as browsers know them.
type bases struct{ public, console, link, docs string }

// basesOf are those below a PublicURL. A proxy may take its path away or leave it.
func basesOf(public *url.URL) bases {
	p := ""
	if public != nil {
		p = strings.TrimRight(public.Path, "/")
	}
	return bases{p, p + consolePath, p + linkPath, p + documentsPath}
}

// pageRoute is a page, or an action.
type pageRoute struct {
	method, path string // below the base
	needs        string // the operation of the API that a visitor must be allowed to call; empty: none
	do           func(v *visit) (pageAnswer, error)
	on           side
}

// side is where a route is served: on the operator's console, on the pages of links for a
// merchant's people, or on both.
type side uint8

const (
	onConsole side = 1 << iota
	onLinks
	onBoth = onConsole | onLinks
)

// routes are all pages and actions.
func (s *server) routes() []pageRoute {
	return []pageRoute{
		{"GET", "/{token}", "", s.showLink, onLinks},
		{"POST", "/{token}", "", s.openLink, onLinks},
		{"POST", "/sign-out", "", s.closeLink, onLinks},
		{"GET", "/{$}", "list-deliveries", home, onLinks},

		{"GET", "/sign-in", "", s.showSignIn, onConsole},
		{"POST", "/sign-in", "", s.signIn, onConsole},
		{"POST", "/sign-out", "", s.signOut, onConsole},
		{"GET", "/{$}", "stats", now, onConsole},

		{"GET", "/deliveries", "list-deliveries", deliveries, onBoth},
		{"GET", "/deliveries/rows.csv", "list-deliveries", deliveriesCSV, onBoth},
		{"POST", "/deliveries/picked", "retry-message", picked, onBoth},
		{"GET", "/messages/{id}", "get-message", message, onBoth},
		{"GET", "/messages/{id}/body", "get-message", body, onBoth},
		{"GET", "/messages/{id}/signature", "get-message", signature, onBoth},
		{"POST", "/messages/{id}/signature", "get-message", signature, onBoth},
		{"POST", "/messages/{id}/retry", "retry-message", retry, onBoth},
		{"POST", "/messages/{id}/cancel", "cancel-message", cancel, onConsole},
		{"GET", "/dead", "list-dead", dead, onConsole},
		{"GET", "/jobs", "list-jobs", jobs, onConsole},
		{"GET", "/jobs/new", "retry-deliveries", newJob, onConsole},
		{"POST", "/jobs", "retry-deliveries", startJob, onConsole},
		{"GET", "/jobs/{id}", "get-job", job, onBoth},
		{"POST", "/jobs/{id}/stop", "stop-job", stopJob, onConsole},
		{"POST", "/jobs/{id}/resume", "resume-job", resumeJob, onConsole},

		{"GET", "/endpoints", "list-endpoints", endpoints, onBoth},
		{"POST", "/endpoints", "create-endpoint", createEndpoint, onBoth},
		{"GET", "/endpoints/new", "create-endpoint", newEndpoint, onBoth},
		{"GET", "/endpoints/{id}", "get-endpoint", endpoint, onBoth},
		{"POST", "/endpoints/{id}", "patch-endpoint", changeEndpoint, onBoth},
		{"GET", "/endpoints/{id}/edit", "patch-endpoint", editEndpoint, onBoth},
		{"POST", "/endpoints/{id}/test", "test-endpoint", testEndpoint, onBoth},
		{"POST", "/endpoints/{id}/pause", "pause-endpoint", pauseEndpoint, onBoth},
		{"POST", "/endpoints/{id}/resume", "resume-endpoint", resumeEndpoint, onBoth},
		{"POST", "/endpoints/{id}/retry", "retry-endpoint", retryEndpoint, onBoth},
		{"POST", "/endpoints/{id}/confirm", "confirm-endpoint", confirmEndpoint, onConsole},
		{"GET", "/endpoints/{id}/rotate", "rotate-secret", askRotate, onBoth},
		{"POST", "/endpoints/{id}/rotate", "rotate-secret", rotateSecret, onBoth},
		{"POST", "/endpoints/{id}/secret", "get-secret", showSecret, onConsole},
		{"GET", "/endpoints/{id}/delete", "delete-endpoint", askDelete, onConsole},
		{"POST", "/endpoints/{id}/delete", "delete-endpoint", deleteEndpoint, onConsole},

		{"GET", "/tail", "list-attempts", tail, onConsole},
		{"GET", "/tail/events", "list-attempts", s.tailEvents, onConsole},

		{"GET", "/system", "stats", system, onConsole},
		{"GET", "/failing", "list-lanes", failing, onConsole},
		{"POST", "/failing/try", "retry-deliveries", tryFailing, onConsole},
		{"POST", "/failing/pause", "pause-lane", pauseFailing, onConsole},
		{"GET", "/lanes", "list-lanes", lanes, onConsole},
		{"GET", "/lanes/{lane}", "list-lanes", lane, onConsole},
		{"POST", "/lanes/{lane}/pause", "pause-lane", pauseLane, onConsole},
		{"POST", "/lanes/{lane}/resume", "resume-lane", resumeLane, onConsole},
		{"GET", "/audit", "list-audit", audit, onConsole},
		{"GET", "/links", "list-links", links, onConsole},
		{"POST", "/links", "create-link", createLink, onConsole},
		{"POST", "/links/{link}/revoke", "revoke-link", revokeLink, onConsole},
	}
}

// routesOn are the routes of one side.
func (s *server) routesOn(one side) []pageRoute {
	return slices.DeleteFunc(s.routes(), func(o pageRoute) bool { return o.on&one == 0 })
}

// Route is a page or an action, as tests of all of them need it.
type Route struct {
	Method, Path string // of a request, with names in braces
	Needs        string // an operation of the API; empty: none
}

// Routes are all pages and actions.
func Routes() []Route {
	var all []Route
	s := &server{}
	for base, one := range map[string]side{consolePath: onConsole, linkPath: onLinks} {
		for _, o := range s.routesOn(one) {
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
	}{{s.console, s.routesOn(onConsole), s.operator}, {s.link, s.routesOn(onLinks), s.merchant}} {
		for _, o := range all.routes {
			h := s.handle(o, all.base, all.who)
			if o.method == http.MethodPost {
				h = s.act(o, placeOf(o, all.routes), all.base, all.who)
			}
			s.mux.HandleFunc(o.method+" "+all.base+o.path, h)
		}
	}
	for _, base := range []string{s.console, s.link} {
		s.mux.HandleFunc("GET "+base+"/static/{name}", s.resources.serve)
		s.mux.HandleFunc("GET "+base, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, base+"/", http.StatusSeeOther)
		})
	}
	nothing := pageRoute{do: func(*visit) (pageAnswer, error) { return pageAnswer{}, ErrHidden }}
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

// docSection is the section of the documents that describes a page.
type docSection struct{ Section, Title string }

// subjects are the sections that describe the pages of the console, by their templates. The
// pages of errors and of links have none.
var subjects = map[string]docSection{
	"now":           {"operate#console", "the console"},
	"deliveries":    {"find#list-deliveries", "filters and lists"},
	"message":       {"find#show-one-message", "messages and their history"},
	"missing":       {"find#show-one-message", "how long messages are kept"},
	"signature":     {"receive#signatures", "verifying signatures, with examples in several languages"},
	"dead":          {"find#retry-many", "retrying many deliveries"},
	"jobs":          {"find#retry-many", "jobs"},
	"job":           {"find#retry-many", "jobs"},
	"preview":       {"find#retry-many", "jobs"},
	"picked":        {"publish#retry-and-cancel-one-message", "retrying and cancelling"},
	"endpoints":     {"endpoints", "endpoints"},
	"endpoint":      {"endpoints#when-a-receiver-fails-for-days", "receivers that fail"},
	"endpoint-form": {"endpoints#change-an-endpoint", "the fields of an endpoint"},
	"secret":        {"receive#signatures", "signatures"},
	"rotate":        {"endpoints#rotate-a-secret", "rotating a secret"},
	"delete":        {"endpoints#change-an-endpoint", "changing and deleting endpoints"},
	"deleted":       {"endpoints#change-an-endpoint", "changing and deleting endpoints"},
	"tail":          {"find#attempts-as-a-list-and-as-a-stream", "attempts"},
	"system":        {"settings", "all settings"},
	"lanes":         {"isolation#lane-states", "the states of lanes"},
	"lane":          {"isolation#pause-and-resume", "pausing and resuming"},
	"audit":         {"find#audit", "the audit"},
	"links":         {"endpoints#links-for-a-merchants-people", "links for merchants"},
	"sign-in":       {"security#keys-and-sessions", "keys and sessions"},
}

// merchantSubjects are the same for the pages of a merchant. All are about receiving.
var merchantSubjects = map[string]docSection{
	"home":          {"receive", "receiving notifications"},
	"deliveries":    {"receive#respond", "how responses are judged"},
	"message":       {"receive#respond", "how responses are judged"},
	"endpoints":     {"receive", "receiving notifications"},
	"endpoint":      {"receive#respond", "how responses are judged"},
	"job":           {"receive#respond", "how responses are judged"},
	"signature":     {"receive#signatures", "verifying signatures, with examples in several languages"},
	"endpoint-form": {"receive", "receiving notifications"},
	"secret":        {"receive#signatures", "verifying signatures"},
	"rotate":        {"receive#signatures", "verifying signatures"},
}

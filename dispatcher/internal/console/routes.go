package console

import (
	"context"
	"net/http"
	"strings"

	"github.com/hookladder/hookladder/dispatcher/internal/console/desk"
)

// The paths below which everything lies.
const (
	consoleBase = "/console"
	linkBase    = "/link"
)

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

		{"GET", "/tail", desk.Survey, tail},
		{"GET", "/tail/events", desk.Survey, s.tailEvents},
	}
}

// linkRoutes are for a merchant's people.
func (s *server) linkRoutes() []pageRoute {
	return nil
}

// register makes the routes known.
func (s *server) register() {
	for _, o := range s.consoleRoutes() {
		s.mux.HandleFunc(o.method+" "+consoleBase+o.path, s.handle(o, consoleBase, s.operator))
	}
	for _, o := range s.linkRoutes() {
		s.mux.HandleFunc(o.method+" "+linkBase+o.path, s.handle(o, linkBase, s.merchant))
	}
	s.mux.HandleFunc("GET "+consoleBase+"/static/{name}", s.look.serve)
	s.mux.HandleFunc("GET "+consoleBase, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, consoleBase+"/", http.StatusSeeOther)
	})
	nothing := pageRoute{needs: desk.Open, do: func(*visit) (pageAnswer, error) { return pageAnswer{}, desk.ErrHidden }}
	s.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		base, who := consoleBase, s.operator
		if strings.HasPrefix(r.URL.Path, linkBase) {
			base, who = linkBase, s.merchant
		}
		s.handle(nothing, base, who)(w, r)
	})
}

// merchant finds the link by which a browser came.
func (s *server) merchant(context.Context, *http.Request) (v desk.Visitor, err error) {
	return v, nil
}

// Serves reports whether a path is of the pages, and not of the API.
func Serves(path string) bool {
	for _, base := range []string{consoleBase, linkBase} {
		if rest, ok := strings.CutPrefix(path, base); ok && (rest == "" || rest[0] == '/') {
			return true
		}
	}
	return false
}

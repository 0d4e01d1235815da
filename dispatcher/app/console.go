package app

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/hookladder/hookladder/deploy"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
	"github.com/hookladder/hookladder/dispatcher/internal/callers"
	"github.com/hookladder/hookladder/dispatcher/internal/console"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/api"
)

// withDocuments serves the documents in addition to all other paths. They need no key.
func withDocuments(rest http.Handler, p *process, o Options) http.Handler {
	pages := guarded(p, console.NewDocuments(console.DocumentOptions{Documents: deploy.Documents, Version: o.Version, PublicURL: o.Console.PublicURL, Log: o.Log}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if console.ServesDocuments(r.URL.Path, o.Console.PublicURL) {
			pages.ServeHTTP(w, r)
		} else {
			rest.ServeHTTP(w, r)
		}
	})
}

// guarded serves pages to this host only while there are no keys, like the API.
func guarded(p *process, pages http.Handler) http.Handler {
	local := httpapi.Local(pages)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.keyring.Keys().Empty() {
			local.ServeHTTP(w, r)
		} else {
			pages.ServeHTTP(w, r)
		}
	})
}

// forms takes the memory for forms from the budget for requests.
func forms(b *api.Bodies) console.ReadForm {
	return func(w http.ResponseWriter, r *http.Request, share string, most int64) (func(), error) {
		release, err := b.Form(w, r, share, most)
		if errors.Is(err, api.ErrNoRoom) {
			err = console.ErrNoRoom
		}
		return release, err
	}
}

// withConsole serves the pages for people in addition to the API, unless they are off.
func withConsole(rest http.Handler, p *process, o Options) (http.Handler, error) {
	if o.Console.Off {
		return rest, nil
	}
	keyring, links := p.keyring, p.store.Access()
	caller := func(k callers.APIKey, ok bool) (dispatcher.Browser, bool) { return k.Caller(), ok }
	var archived func() archive.Status
	if p.archiver != nil {
		archived = p.archiver.Status
	}
	pages, err := console.New(console.Options{
		API:      rest,
		May:      httpapi.May,
		Find:     func(key string) (dispatcher.Browser, bool) { return caller(keyring.Keys().Find(key)) },
		Owned:    func(owner string) (dispatcher.Browser, bool) { return caller(keyring.Keys().Owned(owner)) },
		Keyless:  func() bool { return keyring.Keys().Empty() },
		Sessions: console.Sessions{Open: links.OpenSession, Get: links.Session, Close: links.CloseSession},
		Link:     links.LinkByToken, Meter: console.LinkMeter{Spend: links.SpendLink, TakeBack: links.UnspendLink},
		Signing: func(ctx context.Context, id string) (*dispatcher.Endpoint, error) {
			e, err := p.endpoints.Endpoint(ctx, id)
			return e.Endpoint, err
		},
		Form:    forms(p.bodies),
		Shown:   console.Shown{Put: links.PutShown, Get: links.Shown},
		Minutes: p.gauge.Minutes, Bars: p.gauge.Bars, FiguresSince: p.gauge.Since, Archive: archived,

		Settings: o.Console.Settings,
		Lost:     p.engine.Lost,
		Now:      p.engine.Now, Project: o.Project, Version: o.Version, PublicURL: o.Console.PublicURL, Log: o.Log,
		Brand: console.Brand{Name: o.Console.Name, Logo: o.Console.Logo, Color: o.Console.Color},
	})
	if err != nil {
		return nil, err
	}
	pages = guarded(p, pages)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case console.Serves(r.URL.Path, o.Console.PublicURL):
			pages.ServeHTTP(w, r)
		case r.URL.Path == "/" && r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html"):
			http.Redirect(w, r, console.Start(o.Console.PublicURL), http.StatusSeeOther) // a person typed the address
		default:
			rest.ServeHTTP(w, r)
		}
	}), nil
}

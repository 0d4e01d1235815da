package main

import (
	"html/template"
	"net/http"
	"sync/atomic"
)

// demoFailing is a path that fails until a person repairs it.
type demoFailing struct{ mended atomic.Bool }

// ServeHTTP receives a message.
func (f *demoFailing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if f.mended.Load() {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	http.Error(w, "this path fails until you mend it: open http://"+r.Host+"/ and press Mend", http.StatusInternalServerError)
}

// show serves a page with the switch.
func (f *demoFailing) show(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = switchPage.Execute(w, f.mended.Load())
}

// turn serves the button of that page.
func (f *demoFailing) turn(to bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		f.mended.Store(to)
		http.Redirect(w, r, "/", http.StatusSeeOther)
	}
}

var switchPage = template.Must(template.New("switch").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
<title>Demo receiver</title>
<style>body{font:16px/24px system-ui,sans-serif;max-width:34rem;margin:12vh auto;padding:0 16px}button{font:inherit;padding:6px 16px}</style></head>
<body><h1>Demo receiver</h1>
<p><code>/ok</code> takes everything, <code>/flaky</code> fails twice for each message, <code>/slow</code> answers after two seconds.</p>
{{if .}}<p><code>/fail</code> is <strong>mended</strong>: it takes everything. What died there is delivered when you send it again.</p>
<form method="post" action="/break"><button>Break it again</button></form>
{{else}}<p><code>/fail</code> <strong>fails</strong>.</p>
<form method="post" action="/mend"><button>Mend it</button></form>{{end}}
</body></html>
`))

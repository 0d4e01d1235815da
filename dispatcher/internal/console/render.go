package console

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html/template"
	"io/fs"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher/internal/console/brand"
	"github.com/hookladder/hookladder/dispatcher/internal/console/desk"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

//go:embed all:templates assets
var files embed.FS

// look is how pages look: templates, styles, scripts.
type look struct {
	pages map[string]map[string]*template.Template // by base and name
	files map[string]asset                         // by the name in URLs
	names map[string]string
	build string // changes with any of them
}

// asset is a file that pages load.
type asset struct {
	media string
	bytes []byte
}

// bundles are files made of those of a folder, in the order of their names.
var bundles = map[string]string{"console.css": "assets/css", "console.js": "assets/js"}

var medias = map[string]string{
	".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
}

func newLook(b bases, now func() time.Time, of Brand) (*look, error) {
	l := &look{pages: map[string]map[string]*template.Template{}, files: map[string]asset{}, names: map[string]string{}}
	if err := l.readAssets(); err != nil {
		return nil, err
	}
	if of.Color != "" {
		css, err := brand.Stylesheet(of.Color)
		if err != nil {
			return nil, err
		}
		l.add(brandSheet, css)
	}
	for _, base := range []string{b.console, b.link} {
		if err := l.parse(base, base == b.link, functions(now)); err != nil {
			return nil, fmt.Errorf("parse templates: %w", err)
		}
	}
	return l, nil
}

// brandSheet is the file of the operator's colour.
const brandSheet = "brand.css"

// parse reads the templates of the pages below a base, from where they load their files too.
func (l *look) parse(base string, merchant bool, own template.FuncMap) error {
	whole := sha256.New()
	layout := template.New("layout").Funcs(own).Funcs(template.FuncMap{
		"asset":    func(name string) (string, error) { return l.url(base, name) },
		"base":     func() string { return base },
		"merchant": func() bool { return merchant },
		"branded":  func() bool { return merchant && l.names[brandSheet] != "" },
		"logo":     logo,
	})
	all, err := fs.Glob(files, "templates/*.html")
	if err != nil {
		return err
	}
	var parts, pages []string
	for _, file := range all {
		text, err := files.ReadFile(file)
		if err != nil {
			return err
		}
		whole.Write(text)
		if strings.HasPrefix(path.Base(file), "_") {
			parts = append(parts, file)
		} else {
			pages = append(pages, file)
		}
	}
	if layout, err = layout.ParseFS(files, parts...); err != nil {
		return err
	}
	l.pages[base] = map[string]*template.Template{}
	for _, file := range pages {
		page, err := template.Must(layout.Clone()).ParseFS(files, file)
		if err != nil {
			return err
		}
		l.pages[base][strings.TrimSuffix(path.Base(file), ".html")] = page
	}
	for _, name := range slices.Sorted(maps.Values(l.names)) {
		whole.Write([]byte(name))
	}
	l.build = hex.EncodeToString(whole.Sum(nil)[:8])
	return nil
}

// logo is the operator's logo as the address of a picture: html/template would refuse the
// scheme data.
func logo(text string) template.URL {
	if strings.HasPrefix(text, "https://") || strings.HasPrefix(text, "data:image/png;base64,") {
		return template.URL(text) //nolint:gosec // a setting, of one of these two kinds
	}
	return ""
}

// readAssets reads the files that pages load, and names each by its content, so that a
// browser may keep it for ever.
func (l *look) readAssets() error {
	plain := map[string][]byte{}
	for name, folder := range bundles {
		parts, err := fs.Glob(files, folder+"/*")
		if err != nil {
			return err
		}
		for _, file := range parts {
			text, err := files.ReadFile(file)
			if err != nil {
				return err
			}
			plain[name] = append(append(plain[name], text...), '\n')
		}
	}
	single, err := fs.Glob(files, "assets/*.*")
	if err != nil {
		return err
	}
	for _, file := range single {
		if plain[path.Base(file)], err = files.ReadFile(file); err != nil {
			return err
		}
	}
	for name, text := range plain {
		l.add(name, text)
	}
	return nil
}

// add names a file by its content.
func (l *look) add(name string, text []byte) {
	sum := sha256.Sum256(text)
	ext := path.Ext(name)
	l.names[name] = strings.TrimSuffix(name, ext) + "." + hex.EncodeToString(sum[:6]) + ext
	l.files[l.names[name]] = asset{media: medias[ext], bytes: text}
}

// url is where a page finds a file.
func (l *look) url(base, name string) (string, error) {
	if l.names[name] == "" {
		return "", fmt.Errorf("there is no file %s", name)
	}
	return base + "/static/" + l.names[name], nil
}

// serve serves a file that pages load.
func (l *look) serve(w http.ResponseWriter, r *http.Request) {
	a, ok := l.files[r.PathValue("name")]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", a.media)
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	_, _ = w.Write(a.bytes)
}

// frame is what every template gets: the page's own data is Body.
type frame struct {
	Title, Section string
	Base, URL      string // /console or /link; path and query of this page
	Still          bool   // it shows what an action answered, and does not refresh
	Project        string
	Version        string
	Visitor        desk.Visitor
	Keyless        bool
	Counts         *wire.Stats // what the navigation shows; nil: nothing
	Told           string      // what an action did, as a sentence
	Brand          Brand
	Now            time.Time
	Body           any
}

// May reports whether the visitor has a right, by its word.
func (f frame) May(word string) (bool, error) {
	for r, w := range rightWords {
		if w == word {
			return f.Visitor.May(r), nil
		}
	}
	return false, fmt.Errorf("there is no right %s", word)
}

// rightWords are the rights as templates name them.
var rightWords = map[desk.Right]string{
	desk.Open: "open", desk.See: "see", desk.Contents: "contents", desk.Survey: "survey", desk.Attempt: "attempt",
	desk.Hold: "hold", desk.Edit: "edit", desk.Configure: "configure", desk.Operate: "operate", desk.Govern: "govern",
}

// tellings are what actions did, by the word in the URL that they lead to. Any other
// word shows nothing.
var tellings = map[string]string{
	"signed-out": "You are signed out.",

	"picked-none":  "Nothing was selected.",
	"job-started":  "The job has begun. It goes on by itself, whether this page is open or not.",
	"jobs-started": "The jobs have begun, one for each destination. They go on by themselves.",
	"job-stopped":  "The job is stopped: nothing more is changed.",
	"job-resumed":  "The job goes on.",
	"retried":      "It is due now. A pause, a breaker or a limit would still hold it.",
	"retried-all":  "All are due now. A pause, a breaker or a limit would still hold them.",
	"retried-some": "Some are due now; the others are under way, due already, or delivered.",
	"cancelled":    "It is cancelled. An attempt under way can't be recalled.",
	"left-":        "Nothing was changed.", "left-ready": "It is due already, so nothing was changed.",
	"left-in_flight": "An attempt is under way already, so nothing was changed.", "left-order": "Others of its ordering key go first, so nothing was changed.",
	"left-delivered": "It was delivered already, so nothing was changed.", "left-expired": "It has expired: publish it anew under another id.",
	"left-disabled": "Its endpoint is disabled: resume that first.", "left-deleted": "Its endpoint was deleted, so nothing was changed.",

	"changed":   "Saved. It holds for the next attempt on.",
	"unchanged": "Nothing was changed.",
	"paused":    "Paused. What is published waits, and nothing is lost.",
	"revoked":   "Revoked. All browsers that it let in are out.",
	"unknown":   "It is not known whether this was done: look before you do it again.",
	"unshown":   "What this answered can't be shown: look here for what was done.",
	"gone":      "What was shown here is gone: it is kept for a minute, and for the browser that asked for it.",
	"unsure":    "Nothing was paused: tick the box to say that you are sure.",
	"confirmed": "Confirmed. Its headers are sent to this URL from the next attempt on.",
	"resumed":   "Resumed. What is due goes out now. What waits for its next attempt waits until then.",
}

// render writes a page. One that shows what the browser has already is 304: what it has
// is told by the data, not by the HTML, in which times go on.
func (s *server) render(v *visit, a pageAnswer) {
	f := frame{
		Title: a.title, Section: a.section, Base: v.base, URL: cmp.Or(v.at, v.r.URL.RequestURI()), Still: v.at != "", Project: s.Project, Version: s.Version,
		Visitor: v.Visitor, Keyless: s.Keyless(), Told: tellings[v.r.URL.Query().Get("told")], Brand: s.Brand, Now: s.Now(), Body: a.body,
	}
	if a.status == 0 {
		a.status = http.StatusOK
	}
	if f.Counts = a.stats; a.section != "" && a.stats == nil && v.May(desk.Survey) {
		if stats, err := v.Stats(v.ctx); err == nil {
			f.Counts = &stats
		}
	}
	if v.r.Method == http.MethodGet && a.status == http.StatusOK {
		if tag := s.tag(f); tag != "" {
			v.w.Header().Set("ETag", tag)
			if v.r.Header.Get("If-None-Match") == tag {
				v.w.WriteHeader(http.StatusNotModified)
				return
			}
		}
	}
	var out bytes.Buffer
	if err := s.look.pages[v.base][a.template].ExecuteTemplate(&out, "layout", f); err != nil {
		s.Log.ErrorContext(v.r.Context(), "page not rendered", "page", a.template, "err", err)
		http.Error(v.w, "This page could not be made. The log says why.", http.StatusInternalServerError)
		return
	}
	v.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	v.w.WriteHeader(a.status)
	_, _ = v.w.Write(out.Bytes())
}

// tag is the ETag of what a page shows.
func (s *server) tag(f frame) string {
	f.Now = time.Time{}
	if f.Counts != nil { // without its own clock and the store's size, which always change
		f.Counts = &wire.Stats{Counts: f.Counts.Counts}
	}
	text, err := json.Marshal(f)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(append(text, s.look.build...))
	return `"` + hex.EncodeToString(sum[:12]) + `"`
}

package console

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

//go:embed all:templates assets
var files embed.FS

// resources has the templates, styles and scripts of the pages.
type resources struct {
	assets
	pages map[string]*pageSet // by base
	build string              // a hash of all of them
}

// pageSet is the templates of one base. A page is parsed when it is first requested,
// because each page is a copy of the layout, and most pages are never requested.
type pageSet struct {
	layout func() (*template.Template, error)
	mu     sync.Mutex
	parsed map[string]*template.Template
}

// page returns the template of a page by the name of its file below templates.
func (p *pageSet) page(name string) (*template.Template, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t := p.parsed[name]; t != nil {
		return t, nil
	}
	layout, err := p.layout()
	if err != nil {
		return nil, err
	}
	if layout, err = layout.Clone(); err != nil {
		return nil, err
	}
	t, err := layout.ParseFS(files, "templates/"+name+".html")
	if err != nil {
		return nil, err
	}
	p.parsed[name] = t
	return t, nil
}

// assets are the files that pages load. Their names contain a hash of the content, so a browser
// may cache them forever.
type assets struct {
	files map[string]asset // by their names in URLs
	names map[string]string
}

// asset is a file that pages load.
type asset struct {
	media  string
	bytes  []byte
	packed func() []byte // gzip of bytes, made at the first request; nil: that is no smaller
}

// bundles are files that are joined from the files of a folder, ordered by name.
var bundles = map[string]string{"console.css": "assets/css", "console.js": "assets/js"}

var medias = map[string]string{
	".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml", ".woff2": "font/woff2", ".png": "image/png",
}

func newResources(b bases, now func() time.Time, of Brand) (*resources, error) {
	own, err := readAssets()
	if err != nil {
		return nil, err
	}
	l := &resources{assets: own, pages: map[string]*pageSet{}}
	if of.Color != "" {
		css, err := BrandStylesheet(of.Color)
		if err != nil {
			return nil, err
		}
		l.add(brandSheet, css)
	}
	funcs := functions(now)
	funcs["docs"] = func(section string) string { return b.docs + "/" + section }
	for _, base := range []string{b.console, b.link} {
		l.pages[base] = l.pageSet(base, base == b.link, funcs)
	}
	return l, l.hash()
}

// brandSheet is the style file with the operator's colour.
const brandSheet = "brand.css"

// pageSet returns the pages below a base, which is also the base of their files.
func (l *resources) pageSet(base string, merchant bool, own template.FuncMap) *pageSet {
	return &pageSet{parsed: map[string]*template.Template{}, layout: sync.OnceValues(func() (*template.Template, error) {
		return template.New("layout").Funcs(own).Funcs(template.FuncMap{
			"asset":    func(name string) (string, error) { return l.url(base, name) },
			"base":     func() string { return base },
			"merchant": func() bool { return merchant },
			"branded":  func() bool { return merchant && l.names[brandSheet] != "" },
			"logo":     logo,
		}).ParseFS(files, "templates/_*.html")
	})}
}

// hash sets build to a hash of the templates and of the names of the other files, which
// contain hashes of their own.
func (l *resources) hash() error {
	whole := sha256.New()
	all, err := fs.Glob(files, "templates/*.html")
	if err != nil {
		return err
	}
	for _, file := range all {
		text, err := files.ReadFile(file)
		if err != nil {
			return err
		}
		whole.Write(text)
	}
	for _, name := range slices.Sorted(maps.Values(l.names)) {
		whole.Write([]byte(name))
	}
	l.build = hex.EncodeToString(whole.Sum(nil)[:8])
	return nil
}

// logo returns the operator's logo as a safe URL, because html/template refuses the scheme
// data.
func logo(text string) template.URL {
	if strings.HasPrefix(text, "https://") || strings.HasPrefix(text, "data:image/png;base64,") {
		return template.URL(text) //nolint:gosec // a setting, of one of these two kinds
	}
	return ""
}

// readAssets reads the files that all pages load.
func readAssets() (assets, error) {
	l := assets{map[string]asset{}, map[string]string{}}
	plain := map[string][]byte{}
	for name, folder := range bundles {
		parts, err := fs.Glob(files, folder+"/*")
		if err != nil {
			return l, err
		}
		for _, file := range parts {
			text, err := files.ReadFile(file)
			if err != nil {
				return l, err
			}
			plain[name] = append(append(plain[name], text...), '\n')
		}
	}
	single, err := fs.Glob(files, "assets/*.*")
	if err != nil {
		return l, err
	}
	for _, file := range single {
		if plain[path.Base(file)], err = files.ReadFile(file); err != nil {
			return l, err
		}
	}
	l.add(font, plain[font])
	plain["console.css"] = bytes.ReplaceAll(plain["console.css"], []byte("url("+font+")"), []byte("url("+l.names[font]+")"))
	for name, text := range plain {
		l.add(name, text)
	}
	return l, nil
}

// font is Inter with weights from 400 to 600, and the characters of our own texts: ASCII and some signs. It has
// the licence beside it. Other characters of what people send come from the system's fonts.
const font = "inter.woff2"

// add adds a file under a name with a hash of its content.
func (l assets) add(name string, text []byte) {
	ext := path.Ext(name)
	l.names[name] = strings.TrimSuffix(name, ext) + "." + sum(text) + ext
	l.files[l.names[name]] = asset{media: medias[ext], bytes: text, packed: sync.OnceValue(func() []byte { return pack(text) })}
}

// sum returns a short hash of a text.
func sum(text []byte) string {
	h := sha256.Sum256(text)
	return hex.EncodeToString(h[:6])
}

// pack returns the gzip of a file, if it is smaller.
func pack(text []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write(text)
	if err = errors.Join(err, w.Close()); err != nil || out.Len() >= len(text) {
		return nil
	}
	return out.Bytes()
}

// takesGzip reports whether the sender of a request understands gzip (RFC 9110, section 12.5.3).
func takesGzip(r *http.Request) bool {
	for one := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		coding, weight, _ := strings.Cut(strings.ReplaceAll(one, " ", ""), ";")
		if strings.EqualFold(coding, "gzip") {
			return strings.Trim(strings.TrimPrefix(weight, "q="), "0.") != "" || weight == ""
		}
	}
	return false
}

// url returns the URL of a file.
func (l assets) url(base, name string) (string, error) {
	if l.names[name] == "" {
		return "", fmt.Errorf("no file %s", name)
	}
	return base + "/static/" + l.names[name], nil
}

// serve serves a file that pages load.
func (l assets) serve(w http.ResponseWriter, r *http.Request) {
	a, ok := l.files[r.PathValue("name")]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", a.media)
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	w.Header().Set("Vary", "Accept-Encoding")
	if takesGzip(r) {
		if packed := a.packed(); packed != nil {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(packed)
			return
		}
	}
	_, _ = w.Write(a.bytes)
}

// frame is the data of every template. The page's own data is Body.
type frame struct {
	Title, Section string
	Base, URL      string // Base is /console or /link; URL is path and query of this page
	Query          string // what was searched; empty: nothing
	Still          bool   // the page shows the result of an action and does not refresh
	Acted          bool   // the page also shows the result of an action; it refreshes from URL, and the result stays
	Project        string
	Version        string
	Visitor        Visitor
	Keyless        bool
	Counts         *wire.Stats // for the navigation; nil: none
	Result         string      // the result of an action, as a sentence
	Brand          Brand
	Now            time.Time
	About          docSection // the documents' section about this page; zero: none
	Body           any
	may            func(operation string) bool
}

// May reports whether the visitor may call an operation of the API.
func (f frame) May(operation string) bool { return f.may(operation) }

// results are the results of actions, by the word in the URL of the redirect. An unknown
// word shows nothing.
var results = map[string]string{
	"signed-out": "You are signed out.",

	"picked-none":  "Nothing was selected.",
	"job-started":  "The job was started. It goes on whether this page is open or not.",
	"jobs-started": "The jobs have started, one for each destination. They continue by themselves.",
	"job-stopped":  "The job is stopped: nothing more is changed.",
	"job-resumed":  "The job continues.",
	"retried":      "It is due now. A pause, a breaker or a limit would still delay it.",
	"retried-all":  "All are due now. A pause, a breaker or a limit would still delay them.",
	"retried-some": "Some are due now; the others are under way, due already, or delivered.",
	"cancelled":    "It is cancelled. An attempt under way can't be recalled.",
	"left-":        "Nothing was changed.", "left-ready": "It is due already, so nothing was changed.",
	"left-in_flight": "An attempt is under way already, so nothing was changed.", "left-order": "Others of its ordering key go first, so nothing was changed.",
	"left-delivered": "It was delivered already, so nothing was changed.", "left-expired": "It has expired: publish it anew under another id.",
	"left-disabled": "Its endpoint is disabled: resume that first.", "left-deleted": "Its endpoint was deleted, so nothing was changed.",

	"changed":   "Saved. It applies from the next attempt on.",
	"unchanged": "Nothing was changed.",
	"paused":    "Paused. New messages wait, and nothing is lost.",
	"revoked":   "Revoked. All browsers that it let in are out.",
	"tried":     "One delivery is attempted first at each destination. The others follow where it succeeds.",
	"unknown":   "It is unknown whether this was done: check before you do it again.",
	"unshown":   "The result can't be shown: check here what was done.",
	"gone":      "The result is gone: it is kept for a minute, and only for the browser that requested it.",
	"unsure":    "Nothing was paused: tick the box to say that you are sure.",
	"confirmed": "Confirmed. Its headers are sent to this URL from the next attempt on.",
	"resumed":   "Resumed. Due deliveries are sent now. The others wait for their next attempt.",
}

// render writes a page. It answers 304 if the browser has the same data. The ETag comes
// from the data, because relative times in the HTML change all the time.
func (s *server) render(v *visit, a pageAnswer) {
	f := frame{
		Title: a.title, Section: a.section, Base: v.base, URL: cmp.Or(v.at, v.r.URL.RequestURI()), Still: v.at != "" && !a.goesOn, Acted: v.at != "" && a.goesOn, Project: s.Project, Version: s.Version,
		Query: searched(v.r), Visitor: v.Visitor, Keyless: s.Keyless(), Result: results[v.r.URL.Query().Get("told")], Brand: s.Brand, Now: s.Now(), Body: a.body, may: v.May,
	}
	if f.About = subjects[a.template]; v.base == s.link {
		f.About = merchantSubjects[a.template]
	}
	if a.status == 0 {
		a.status = http.StatusOK
	}
	if f.Counts = a.stats; a.section != "" && a.stats == nil && v.May("stats") {
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
	page, err := s.resources.pages[v.base].page(a.template)
	if err == nil {
		err = page.ExecuteTemplate(&out, "layout", f)
	}
	if err != nil {
		s.Log.ErrorContext(v.r.Context(), "page not rendered", "page", a.template, "err", err)
		http.Error(v.w, "This page could not be made. The log says why.", http.StatusInternalServerError)
		return
	}
	v.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	v.w.WriteHeader(a.status)
	_, _ = v.w.Write(out.Bytes())
}

// tag returns the ETag of a page's data.
func (s *server) tag(f frame) string {
	f.Now = time.Time{}
	if f.Counts != nil { // without the clock and the store's size, which always change
		f.Counts = &wire.Stats{Counts: f.Counts.Counts}
	}
	text, err := json.Marshal(f)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(append(text, s.resources.build...))
	return `"` + hex.EncodeToString(sum[:12]) + `"`
}

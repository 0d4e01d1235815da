package console

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/hookladder/hookladder/dispatcher/internal/callers"
)

// The paths of the documents, and of the types of problems, which lead to them.
const (
	documentsPath = "/docs"
	problemsPath  = "/problems/"
)

// problemsPage is the page with a row for each type of problem.
const problemsPage = "problems"

// DocumentOptions are what the pages are made of.
type DocumentOptions struct {
	Documents fs.FS             // README.md, docs/ and pictures/
	Files     map[string][]byte // the console's console.css, inter.woff2, theme.js, icons.svg and icon.svg
	Version   string
	PublicURL *url.URL // the public URL of this process; nil: the URL of the request
	Log       *slog.Logger
}

// documentServer serves the pages.
type documentServer struct {
	public  string // the path of PublicURL
	base    string // /docs behind that
	version string
	library *library
	page    *template.Template
	files   map[string]documentFile // by their names in URLs
	names   map[string]string
	mux     *http.ServeMux
	turns   *callers.Shares // of searches
}

// documentFile is a style, a script or a picture.
type documentFile struct {
	media string
	bytes []byte
}

//go:embed documents
var documentAssets embed.FS

// documentMedias are the kinds of files.
var documentMedias = map[string]string{
	".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml", ".woff2": "font/woff2", ".png": "image/png",
}

// NewDocuments returns the handler of all paths that Serves reports. The pages are made on the first
// request, because they cost more than the rest of a start.
func NewDocuments(o DocumentOptions) http.Handler {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	made := sync.OnceValues(func() (http.Handler, error) { return newServer(o) })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, err := made()
		if err != nil {
			o.Log.ErrorContext(r.Context(), "documents not made", "err", err)
			http.Error(w, "The documents could not be made. The log says why.", http.StatusInternalServerError)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// newServer makes all pages.
func newServer(o DocumentOptions) (*documentServer, error) {
	s := &documentServer{public: publicPath(o.PublicURL), version: o.Version, files: map[string]documentFile{}, names: map[string]string{}, mux: http.NewServeMux(), turns: callers.NewTurns(searchesAtOnce, errBusy)}
	s.base = s.public + documentsPath
	if err := s.addFiles(o); err != nil {
		return nil, fmt.Errorf("read files: %w", err)
	}
	var err error
	if s.library, err = readLibrary(o.Documents, s.base, s.picture); err != nil {
		return nil, fmt.Errorf("read documents: %w", err)
	}
	s.page, err = template.New("page.html").Funcs(template.FuncMap{"file": s.file}).ParseFS(documentAssets, "documents/page.html")
	if err != nil {
		return nil, fmt.Errorf("parse template: %w", err)
	}
	s.mux.HandleFunc("GET "+documentsPath, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, s.base+"/", http.StatusSeeOther)
	})
	s.mux.HandleFunc("GET "+documentsPath+"/{$}", s.index)
	s.mux.HandleFunc("GET "+documentsPath+"/search", s.search)
	s.mux.HandleFunc("GET "+documentsPath+"/{page}", s.document)
	s.mux.HandleFunc("GET "+documentsPath+"/static/{name}", s.static)
	s.mux.HandleFunc("GET "+problemsPath+"{word}", s.problem)
	s.mux.HandleFunc("GET /", s.missing)
	return s, nil
}

// publicPath returns the path of a PublicURL. A proxy may remove it or keep it.
func publicPath(public *url.URL) string {
	if public == nil {
		return ""
	}
	return strings.TrimRight(public.Path, "/")
}

// ServesDocuments reports whether a path is of the documents, and not of the API.
func ServesDocuments(requested string, public *url.URL) bool {
	for _, own := range []string{requested, strings.TrimPrefix(requested, publicPath(public))} {
		if own == documentsPath || strings.HasPrefix(own, documentsPath+"/") || strings.HasPrefix(own, problemsPath) {
			return true
		}
	}
	return false
}

// addFiles gives each file a name with a hash of its content, so a browser may cache it forever.
func (s *documentServer) addFiles(o DocumentOptions) error {
	own, err := documentAssets.ReadFile("documents/docs.css")
	if err != nil {
		return err
	}
	s.add("docs.css", own)
	for name, text := range o.Files {
		s.add(name, text)
	}
	pictures, err := fs.Glob(o.Documents, "pictures/*")
	if err != nil {
		return err
	}
	for _, name := range pictures {
		text, err := fs.ReadFile(o.Documents, name)
		if err != nil {
			return err
		}
		s.add(path.Base(name), text)
	}
	return nil
}

func (s *documentServer) add(name string, text []byte) {
	ext := path.Ext(name)
	s.names[name] = strings.TrimSuffix(name, ext) + "." + sum(text) + ext
	s.files[s.names[name]] = documentFile{documentMedias[ext], text}
}

// sum returns a short hash of a text.
func sum(text []byte) string {
	h := sha256.Sum256(text)
	return hex.EncodeToString(h[:6])
}

// file returns the URL of a file.
func (s *documentServer) file(name string) (string, error) {
	if s.names[name] == "" {
		return "", fmt.Errorf("no file %s", name)
	}
	return s.base + "/static/" + s.names[name], nil
}

// picture returns the URL of a picture, or an empty text if there is none.
func (s *documentServer) picture(name string) string {
	to, _ := s.file(name)
	return to
}

// documentPolicy allows a page to load only files of this process. Inline styles and scripts are refused.
const documentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"

// ServeHTTP serves a page or a file.
func (s *documentServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", documentPolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	if err := callers.Identify(w, r, callers.Address(callers.AddressOf(r))); err != nil {
		s.busy(w, r, "Half of all connections are yours, and others need them. Try again in a moment.")
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		s.write(w, r, http.StatusMethodNotAllowed, view{Title: "Only for reading", Text: "The documents are only for reading."})
		return
	}
	if !ServesDocuments(r.URL.Path, nil) { // a proxy kept the path of PublicURL
		below := *r.URL
		below.Path, below.RawPath = strings.TrimPrefix(r.URL.Path, s.public), ""
		r = r.WithContext(r.Context())
		r.URL = &below
	}
	s.mux.ServeHTTP(w, r)
}

// view is the data of a page.
type view struct {
	Title string
	Base  string
	Page  string // the name of the document; empty: another page
	Query string // of a search

	HTML    template.HTML // of a document
	Text    string        // of a fault
	Index   bool          // it lists the documents
	Search  bool
	Groups  []docGroup
	Found   []hit
	Version string
}

// index serves GET /docs/, a list of all documents.
func (s *documentServer) index(w http.ResponseWriter, r *http.Request) {
	s.write(w, r, http.StatusOK, view{Title: "Documentation", Index: true})
}

// document serves a page.
func (s *documentServer) document(w http.ResponseWriter, r *http.Request) {
	d := s.library.pages[r.PathValue("page")]
	if d == nil {
		s.missing(w, r)
		return
	}
	s.write(w, r, http.StatusOK, view{Title: d.Title, Page: d.Name, HTML: d.html})
}

// searchesAtOnce is how many searches run at a time, because they need no key.
const searchesAtOnce = 1

var errBusy = errors.New("too many searches")

// search serves GET /docs/search.
func (s *documentServer) search(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query().Get("q")
	found, err := s.find(r, query)
	if err != nil {
		s.busy(w, r, "Too many searches wait. Try again in a moment.")
		return
	}
	s.write(w, r, http.StatusOK, view{Title: "Search", Search: true, Query: query, Found: found})
}

// find searches in the turn of its caller. The turn ends before the response, because a caller may
// read that slowly.
func (s *documentServer) find(r *http.Request, query string) ([]hit, error) {
	_, leave, err := s.turns.Enter(callers.With(r.Context(), callers.Address(callers.AddressOf(r))))
	if err != nil {
		return nil, err
	}
	defer leave()
	return s.library.find(query), nil
}

// busy serves a caller that has its share.
func (s *documentServer) busy(w http.ResponseWriter, r *http.Request, why string) {
	w.Header().Set("Retry-After", "1")
	s.write(w, r, http.StatusTooManyRequests, view{Title: "Too many at once", Text: why})
}

// problem leads from a type of problem, /problems/<word>, to its description.
func (s *documentServer) problem(w http.ResponseWriter, r *http.Request) {
	word := r.PathValue("word")
	if d := s.library.pages[problemsPage]; d == nil || !d.anchors[word] {
		s.missing(w, r)
		return
	}
	http.Redirect(w, r, s.base+"/"+problemsPage+"#"+word, http.StatusSeeOther)
}

// missing serves a path without a page.
func (s *documentServer) missing(w http.ResponseWriter, r *http.Request) {
	s.write(w, r, http.StatusNotFound, view{Title: "There is no such page", Text: "This version has no document of this name. The list and the search have all of them."})
}

// static serves a file that pages load.
func (s *documentServer) static(w http.ResponseWriter, r *http.Request) {
	f, ok := s.files[r.PathValue("name")]
	if !ok {
		s.missing(w, r)
		return
	}
	w.Header().Set("Content-Type", f.media)
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.bytes))
}

// write writes a page. A browser asks before it uses a page again, because the next version has
// other pages at the same URL.
func (s *documentServer) write(w http.ResponseWriter, r *http.Request, status int, v view) {
	v.Base, v.Version, v.Groups = s.base, s.version, s.library.groups
	var out bytes.Buffer
	if err := s.page.Execute(&out, v); err != nil {
		http.Error(w, "This page could not be made.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-cache")
	if status == http.StatusOK {
		w.Header().Set("ETag", `"`+sum(out.Bytes())+`"`)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(out.Bytes()))
		return
	}
	w.WriteHeader(status)
	_, _ = w.Write(out.Bytes()) // fails if the caller is gone; net/http drops it for HEAD
}

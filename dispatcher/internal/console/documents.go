package console

import (
	"bytes"
	"cmp"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	east "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"

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
	Documents fs.FS // README.md, docs/ and pictures/
	Version   string
	PublicURL *url.URL // the public URL of this process; nil: the URL of the request
	Log       *slog.Logger
}

// documentServer serves the pages.
type documentServer struct {
	bases
	assets
	version string
	library *library
	page    *template.Template
	mux     *http.ServeMux
	turns   *callers.Shares // of searches
}

//go:embed documents
var documentAssets embed.FS

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
	s := &documentServer{bases: basesOf(o.PublicURL), version: o.Version, mux: http.NewServeMux(), turns: callers.NewTurns(searchesAtOnce, errBusy)}
	err := s.readFiles(o.Documents)
	if err != nil {
		return nil, fmt.Errorf("read files: %w", err)
	}
	if s.library, err = readLibrary(o.Documents, s.docs, s.picture); err != nil {
		return nil, fmt.Errorf("read documents: %w", err)
	}
	s.page, err = template.New("page.html").Funcs(template.FuncMap{"file": s.file}).ParseFS(documentAssets, "documents/page.html")
	if err != nil {
		return nil, fmt.Errorf("parse template: %w", err)
	}
	s.mux.HandleFunc("GET "+documentsPath, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, s.docs+"/", http.StatusSeeOther)
	})
	s.mux.HandleFunc("GET "+documentsPath+"/{$}", s.index)
	s.mux.HandleFunc("GET "+documentsPath+"/search", s.search)
	s.mux.HandleFunc("GET "+documentsPath+"/{page}", s.document)
	s.mux.HandleFunc("GET "+documentsPath+"/static/{name}", s.static)
	s.mux.HandleFunc("GET "+problemsPath+"{word}", s.problem)
	s.mux.HandleFunc("GET /", s.missing)
	return s, nil
}

// ServesDocuments reports whether a path is of the documents, and not of the API.
func ServesDocuments(requested string, public *url.URL) bool {
	for _, own := range []string{requested, strings.TrimPrefix(requested, basesOf(public).public)} {
		if own == documentsPath || strings.HasPrefix(own, documentsPath+"/") || strings.HasPrefix(own, problemsPath) {
			return true
		}
	}
	return false
}

// readFiles reads the files that the pages load: those of the console, a style of their own, and
// the pictures of the documents.
func (s *documentServer) readFiles(documents fs.FS) (err error) {
	if s.assets, err = readAssets(); err != nil {
		return err
	}
	own, err := documentAssets.ReadFile("documents/docs.css")
	if err != nil {
		return err
	}
	s.add("docs.css", own)
	pictures, err := fs.Glob(documents, "pictures/*")
	if err != nil {
		return err
	}
	for _, name := range pictures {
		text, err := fs.ReadFile(documents, name)
		if err != nil {
			return err
		}
		s.add(path.Base(name), text)
	}
	return nil
}

// file returns the URL of a file.
func (s *documentServer) file(name string) (string, error) {
	return s.url(s.docs, name)
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
	http.Redirect(w, r, s.docs+"/"+problemsPage+"#"+word, http.StatusSeeOther)
}

// missing serves a path without a page.
func (s *documentServer) missing(w http.ResponseWriter, r *http.Request) {
	s.write(w, r, http.StatusNotFound, view{Title: "There is no such page", Text: "This version has no document of this name. The list and the search have all of them."})
}

// static serves a file that pages load.
func (s *documentServer) static(w http.ResponseWriter, r *http.Request) {
	if s.files[r.PathValue("name")].media == "" {
		s.missing(w, r)
		return
	}
	s.serve(w, r)
}

// write writes a page. A browser asks before it uses a page again, because the next version has
// other pages at the same URL.
func (s *documentServer) write(w http.ResponseWriter, r *http.Request, status int, v view) {
	v.Base, v.Version, v.Groups = s.docs, s.version, s.library.groups
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

// deployPage is the name of README.md among the pages.
const deployPage = "deploy"

// shelves are the groups of the pages, in the order of the navigation.
var shelves = []struct {
	title string
	pages []string
}{
	{"Use it", []string{"publish", "endpoints", "receive", "find", "queues", "outbox", "faq"}},
	{"Run it", []string{deployPage, "operate", "traces", "archive", "isolation", "security", "speed", "migrate", "compare", "design"}},
	{"Reference", []string{"settings", "commands", "metrics", problemsPage}},
}

// library has all pages.
type library struct {
	pages    map[string]*document
	groups   []docGroup
	sections []section
	index    *index
}

// docGroup is a part of the navigation.
type docGroup struct {
	Title string
	Pages []*document
}

// document is a page.
type document struct {
	Name, Title string
	First       string // its first sentence
	html        template.HTML
	anchors     map[string]bool // the ids of its headings and rows
}

// readLibrary makes the pages of the documents. Pages that no shelf lists are in a group of their own.
func readLibrary(documents fs.FS, base string, picture func(name string) string) (*library, error) {
	l := &library{pages: map[string]*document{}}
	add := func(title string, names []string) error {
		g := docGroup{Title: title}
		for _, name := range names {
			own := &press{file: fileOf(name), base: base, picture: picture}
			source, err := fs.ReadFile(documents, own.file)
			if err != nil {
				return err
			}
			d, sections, err := own.print(name, source)
			if err != nil {
				return fmt.Errorf("render %s: %w", own.file, err)
			}
			l.pages[name], g.Pages, l.sections = d, append(g.Pages, d), append(l.sections, sections...)
		}
		if len(g.Pages) > 0 {
			l.groups = append(l.groups, g)
		}
		return nil
	}
	for _, shelf := range shelves {
		if err := add(shelf.title, shelf.pages); err != nil {
			return nil, err
		}
	}
	files, err := fs.Glob(documents, "docs/*.md")
	if err != nil {
		return nil, err
	}
	var others []string
	for _, file := range files {
		if name := pageOf(file); l.pages[name] == nil {
			others = append(others, name)
		}
	}
	if err := add("Other", others); err != nil {
		return nil, err
	}
	for i := range l.sections {
		s := &l.sections[i]
		s.text = strings.ToValidUTF8(s.text, "?")
		s.low = lowered{heading: lower(s.heading), title: lower(s.page.Title), text: lower(s.text)}
	}
	l.index = newIndex(l.sections)
	return l, nil
}

// fileOf returns the file of a page.
func fileOf(page string) string {
	if page == deployPage {
		return "README.md"
	}
	return "docs/" + page + ".md"
}

// pageOf returns the page of a file, or an empty text if it has none.
func pageOf(file string) string {
	switch {
	case file == "README.md":
		return deployPage
	case path.Dir(file) == "docs" && path.Ext(file) == ".md":
		return strings.TrimSuffix(path.Base(file), ".md")
	}
	return ""
}

// press makes the page of one file.
type press struct {
	file    string
	base    string
	picture func(name string) string
}

// markdown renders no HTML of a document, only its Markdown. Alignment is an attribute, because
// the policy of the pages refuses inline styles.
var markdown = goldmark.New(
	goldmark.WithExtensions(extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute)), extension.Linkify, extension.Strikethrough),
	goldmark.WithParserOptions(parser.WithAutoHeadingID()),
)

// foldTag matches the only HTML that a page keeps: the begin and the end of a part that is folded.
var foldTag = regexp.MustCompile(`^(?:<details><summary>[A-Za-z0-9#+ ]+</summary>|</details>)\s*$`)

// focusable lets the keyboard scroll wide code and wide tables. In the text of a document these
// tags are escaped.
var focusable = strings.NewReplacer("<pre>", `<pre tabindex="0">`, "<table>", `<table tabindex="0">`)

// print makes a page, and the sections by which the search finds it.
func (p *press) print(name string, source []byte) (*document, []section, error) {
	ids := &anchors{taken: map[string]bool{}}
	doc := markdown.Parser().Parse(text.NewReader(source), parser.WithContext(parser.NewContext(parser.WithIDs(ids))))
	var links, comments, folds []ast.Node
	err := ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Link, *ast.Image:
			links = append(links, n)
		case *ast.HTMLBlock:
			if n.HTMLBlockType == ast.HTMLBlockType2 {
				comments = append(comments, n)
			} else if foldTag.Match(n.Lines().Value(source)) {
				folds = append(folds, n)
			}
		case *east.TableRow:
			if word := ids.unused(slug(codeOf(n, source))); word != "" {
				n.SetAttributeString("id", []byte(word))
			}
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		return nil, nil, err
	}
	for _, n := range links {
		p.lead(n)
	}
	for _, n := range comments { // for the tests of the documents
		n.Parent().RemoveChild(n.Parent(), n)
	}
	for _, n := range folds {
		tag := ast.NewString(n.(*ast.HTMLBlock).Lines().Value(source))
		tag.SetCode(true) // as it stands
		n.Parent().ReplaceChild(n.Parent(), n, tag)
	}
	d := &document{Name: name, anchors: ids.taken}
	sections := sectionsOf(d, doc, source)
	var out bytes.Buffer
	if err := markdown.Renderer().Render(&out, source, doc); err != nil {
		return nil, nil, err
	}
	d.html = template.HTML(focusable.Replace(out.String())) //nolint:gosec // goldmark escapes all but its own tags
	return d, sections, nil
}

// lead changes the target of a link or picture to its URL here. A link to a file that is not a
// page becomes plain text.
func (p *press) lead(n ast.Node) {
	if image, ok := n.(*ast.Image); ok {
		image.Destination = []byte(p.picture(path.Base(string(image.Destination))))
		return
	}
	link := n.(*ast.Link)
	to, err := url.Parse(string(link.Destination))
	if err == nil && (to.Scheme != "" || to.Path == "") {
		return
	}
	if err == nil {
		if page := pageOf(path.Join(path.Dir(p.file), to.Path)); page != "" {
			link.Destination = []byte(p.base + "/" + page)
			if to.Fragment != "" {
				link.Destination = append(link.Destination, "#"+to.Fragment...)
			}
			return
		}
	}
	parent := n.Parent()
	for c := n.FirstChild(); c != nil; c = n.FirstChild() {
		parent.InsertBefore(parent, n, c)
	}
	parent.RemoveChild(parent, n)
}

// anchors makes the ids of headings in GitHub's way.
type anchors struct{ taken map[string]bool }

var notInAnchor = regexp.MustCompile(`[^\pL\pN _-]`)

// slug returns the id of a heading.
func slug(heading string) string {
	return strings.ReplaceAll(notInAnchor.ReplaceAllString(strings.ToLower(strings.TrimSpace(heading)), ""), " ", "-")
}

// Generate returns the id of a heading. A second heading with the same words gets a number.
func (a *anchors) Generate(value []byte, _ ast.NodeKind) []byte {
	first := slug(string(value))
	id := first
	for n := 1; a.taken[id]; n++ {
		id = first + "-" + strconv.Itoa(n)
	}
	a.taken[id] = true
	return []byte(id)
}

// Put takes an id.
func (a *anchors) Put(value []byte) { a.taken[string(value)] = true }

// unused takes an id, and returns an empty text if it is taken.
func (a *anchors) unused(id string) string {
	if id == "" || a.taken[id] {
		return ""
	}
	a.taken[id] = true
	return id
}

// codeOf returns the name that a row of a table describes: the code with which it begins, without
// labels and arguments in brackets.
func codeOf(row ast.Node, source []byte) string {
	cell := row.FirstChild()
	if cell == nil {
		return ""
	}
	span, ok := cell.FirstChild().(*ast.CodeSpan)
	if !ok {
		return ""
	}
	name, _, _ := strings.Cut(plain(span, source), "{")
	return name
}

// plain returns the text of a node, without its marks.
func plain(n ast.Node, source []byte) string {
	var out strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch n := n.(type) {
		case *ast.Text:
			if entering {
				out.Write(n.Segment.Value(source))
				if n.SoftLineBreak() || n.HardLineBreak() {
					out.WriteByte(' ')
				}
			}
		case *ast.String:
			if entering {
				out.Write(n.Value)
			}
		case *ast.AutoLink:
			if entering {
				out.Write(n.Label(source))
			}
		case *ast.FencedCodeBlock, *ast.CodeBlock:
			if entering {
				out.Write(n.Lines().Value(source))
			}
		}
		if !entering && n.Type() == ast.TypeBlock { // blocks are apart
			out.WriteByte(' ')
		}
		return ast.WalkContinue, nil
	})
	return strings.Join(strings.Fields(out.String()), " ")
}

// firstSentence returns the first sentence of a text.
func firstSentence(text string) string {
	if end := strings.Index(text, ". "); end >= 0 {
		return text[:end+1]
	}
	return text
}

// sectionsOf divides a page by its headings, and by the rows of tables that describe a name. It
// also finds the page's title and first sentence.
func sectionsOf(d *document, doc ast.Node, source []byte) []section {
	all := []section{{page: d}}
	add := func(text string) {
		last := &all[len(all)-1]
		last.text = strings.TrimSpace(last.text + " " + text)
	}
	for n := doc.FirstChild(); n != nil; n = n.NextSibling() {
		switch n := n.(type) {
		case *ast.Heading:
			words := plain(n, source)
			if n.Level == 1 && d.Title == "" {
				d.Title = words
				continue
			}
			all = append(all, section{page: d, heading: words, anchor: idOf(n)})
		case *east.Table:
			var named []section
			for row := n.FirstChild(); row != nil; row = row.NextSibling() {
				if id := idOf(row); id != "" {
					named = append(named, section{page: d, heading: codeOf(row, source), anchor: id, text: plain(row, source)})
				} else {
					add(plain(row, source))
				}
			}
			at := len(all) - 1 // the text below the table still belongs to the heading above it
			all = slices.Insert(all, at, named...)
		case *ast.Paragraph:
			if d.First == "" {
				d.First = firstSentence(plain(n, source))
			}
			add(plain(n, source))
		default:
			add(plain(n, source))
		}
	}
	return all
}

// idOf returns the id of a heading or a row.
func idOf(n ast.Node) string {
	id, _ := n.AttributeString("id")
	text, _ := id.([]byte)
	return string(text)
}

// The limits of a search, because callers without a key may search too. A single letter is in
// every section, so a query needs longer words.
const (
	queryBytes = 200
	queryWords = 8
	leastWord  = 2 // bytes
	mostCount  = 5 // of a word in a section
	mostHits   = 30
	mostMarks  = 6 // in a result
)

// excerptBytes is about how much of a section a result shows, and
// excerptLead how much of it is before the first word.
const (
	excerptBytes = 240
	excerptLead  = 80
)

// section is a part of a page.
type section struct {
	page    *document
	heading string // empty: the beginning of the page
	anchor  string
	text    string

	low lowered
}

// lowered has the texts of a section in lower case.
type lowered struct{ heading, title, text string }

// hit is a section that the search found.
type hit struct {
	Page, Anchor, Title string
	Excerpt             template.HTML
}

// index lists for each word of the sections where it is. A search reads the words and these lists,
// and not the texts, which would take ten times as long.
type index struct {
	words  []string
	places [][]documentPlace // by word
}

// documentPlace is a section with a word.
type documentPlace struct {
	section        int32
	count          uint16 // how often it is in the text, up to mostCount
	heading, title bool   // it is in the heading, or in the page's title
}

// newIndex makes the index. Words are separated by white space, as in a query.
func newIndex(sections []section) *index {
	x := &index{}
	ids := map[string]int{}
	at := func(word string, section int32) *documentPlace {
		id, ok := ids[word]
		if !ok {
			id = len(x.words)
			ids[word], x.words, x.places = id, append(x.words, word), append(x.places, nil)
		}
		if list := x.places[id]; len(list) == 0 || list[len(list)-1].section != section {
			x.places[id] = append(list, documentPlace{section: section})
		}
		return &x.places[id][len(x.places[id])-1]
	}
	for n, s := range sections {
		i := int32(n)
		for word := range strings.FieldsSeq(s.low.heading) {
			at(word, i).heading = true
		}
		for word := range strings.FieldsSeq(s.low.title) {
			at(word, i).title = true
		}
		for word := range strings.FieldsSeq(s.low.text) {
			if p := at(word, i); p.count < mostCount {
				p.count++
			}
		}
	}
	return x
}

// find adds up the places of all words that contain a part, by section. Its work is bounded by the
// size of the index.
func (x *index) find(part string, sections int) []documentPlace {
	found := make([]documentPlace, sections)
	for id, word := range x.words {
		if !strings.Contains(word, part) {
			continue
		}
		for _, p := range x.places[id] {
			f := &found[p.section]
			f.heading, f.title = f.heading || p.heading, f.title || p.title
			f.count = min(f.count+p.count, mostCount)
		}
	}
	return found
}

// find returns the sections that have all words of a query, the best ones first.
func (l *library) find(query string) []hit {
	words := strings.Fields(lower(query[:min(len(query), queryBytes)]))
	phrase := strings.Join(words, " ")
	words = slices.DeleteFunc(words, func(w string) bool { return len(w) < leastWord })
	words = words[:min(len(words), queryWords)]
	if len(words) == 0 {
		return nil
	}
	scores := make([]int, len(l.sections)) // 0: it lacks a word
	for i, w := range words {
		for at, p := range l.index.find(w, len(l.sections)) {
			if own := p.score(); own == 0 || i > 0 && scores[at] == 0 {
				scores[at] = 0
			} else {
				scores[at] += own
			}
		}
	}
	var best []int
	for at := range l.sections {
		if scores[at] > 0 && l.sections[at].low.heading == phrase {
			scores[at] += 100
		}
		if scores[at] > 0 {
			best = append(best, at)
		}
	}
	slices.SortStableFunc(best, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	var found []hit
	for _, at := range best[:min(len(best), mostHits)] {
		s := &l.sections[at]
		h := hit{Page: s.page.Name, Anchor: s.anchor, Title: s.page.Title, Excerpt: s.excerpt(words)}
		if s.heading != "" {
			h.Title += ": " + s.heading
		}
		found = append(found, h)
	}
	return found
}

// score rates the places of a word in a section, 0 if there are none. A word in the heading counts
// more than some in the text.
func (p documentPlace) score() int {
	total := int(p.count)
	if p.heading {
		total += 20
	}
	if p.title {
		total += 5
	}
	return total
}

// lower returns a text in lower case. It changes only ASCII, so that each place in it is the same
// as in the text.
func lower(text string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
}

// firstOf returns the place and the length of the first word in a text, or -1.
func firstOf(text string, words []string) (at, length int) {
	at = -1
	for _, w := range words {
		i := strings.Index(text, w)
		if i >= 0 && (at < 0 || i < at || i == at && len(w) > length) {
			at, length = i, len(w)
		}
	}
	return at, length
}

// excerpt returns the part of the section around the first word, with the first words marked.
func (s *section) excerpt(words []string) template.HTML {
	text, low := s.text, s.low.text // of the same length
	at, _ := firstOf(low, words)
	from := max(at-excerptLead, 0)
	if next := strings.IndexByte(text[from:], ' '); from > 0 && next >= 0 && from+next < at {
		from += next + 1
	}
	to := min(from+excerptBytes, len(text))
	if last := strings.LastIndexByte(text[from:to], ' '); to < len(text) && from+last > at {
		to = from + last
	}
	text, low = text[from:to], low[from:to]
	var out strings.Builder
	add := func(text string) { // without the halves of letters at the ends of a cut text
		out.WriteString(template.HTMLEscapeString(strings.ToValidUTF8(text, "")))
	}
	if from > 0 {
		out.WriteString("… ")
	}
	for range mostMarks {
		i, n := firstOf(low, words)
		if i < 0 {
			break
		}
		add(text[:i])
		out.WriteString("<mark>")
		add(text[i : i+n])
		out.WriteString("</mark>")
		text, low = text[i+n:], low[i+n:]
	}
	add(text)
	if to < len(s.text) {
		out.WriteString(" …")
	}
	return template.HTML(out.String()) //nolint:gosec // each part of it is escaped
}

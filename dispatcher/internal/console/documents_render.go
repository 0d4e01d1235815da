package console

import (
	"bytes"
	"fmt"
	"html/template"
	"io/fs"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	east "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

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

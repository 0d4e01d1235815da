package console

import (
	"cmp"
	"html/template"
	"slices"
	"strings"
)

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

package docs

import (
	"cmp"
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

// lowered has the texts of a section in lower case. They are made once, because a search reads all
// sections.
type lowered struct{ heading, title, text string }

// hit is a section that the search found.
type hit struct {
	Page, Anchor, Title string
	Excerpt             []fragment
}

// fragment is a part of an excerpt.
type fragment struct {
	Text string
	Mark bool // it is a word of the query
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
	type rated struct {
		section *section
		score   int
	}
	var best []rated
	for i := range l.sections {
		if score := l.sections[i].score(words, phrase); score > 0 {
			best = append(best, rated{&l.sections[i], score})
		}
	}
	slices.SortStableFunc(best, func(a, b rated) int { return cmp.Compare(b.score, a.score) })
	var found []hit
	for _, r := range best[:min(len(best), mostHits)] {
		s := r.section
		h := hit{Page: s.page.Name, Anchor: s.anchor, Title: s.page.Title, Excerpt: s.excerpt(words)}
		if s.heading != "" {
			h.Title += ": " + s.heading
		}
		found = append(found, h)
	}
	return found
}

// score rates a section, 0 if it lacks a word. A word in the heading counts more than some in
// the text.
func (s *section) score(words []string, phrase string) int {
	total := 0
	for _, w := range words {
		own := count(s.low.text, w)
		if strings.Contains(s.low.heading, w) {
			own += 20
		}
		if strings.Contains(s.low.title, w) {
			own += 5
		}
		if own == 0 {
			return 0
		}
		total += own
	}
	if s.low.heading == phrase {
		total += 100
	}
	return total
}

// count returns how often a word is in a text, up to mostCount.
func count(text, word string) (n int) {
	for n < mostCount {
		_, rest, ok := strings.Cut(text, word)
		if !ok {
			break
		}
		text = rest
		n++
	}
	return n
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
func (s *section) excerpt(words []string) []fragment {
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
	var all []fragment
	if from > 0 {
		all = append(all, fragment{Text: "… "})
	}
	for range mostMarks {
		i, n := firstOf(low, words)
		if i < 0 {
			break
		}
		all = append(all, fragment{Text: valid(text[:i])}, fragment{Text: valid(text[i : i+n]), Mark: true})
		text, low = text[i+n:], low[i+n:]
	}
	all = append(all, fragment{Text: valid(text)})
	if to < len(s.text) {
		all = append(all, fragment{Text: " …"})
	}
	return all
}

// valid removes the halves of a letter at the ends of a cut text.
func valid(text string) string { return strings.ToValidUTF8(text, "") }

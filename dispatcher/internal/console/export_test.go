package console

import (
	"errors"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher/internal/callers"
)

// What tests look at.
var (
	Span    = span
	Count   = count
	Size    = size
	Millis  = millis
	Visible = visible
	OwnPath = (&server{bases: basesOf(nil)}).ownPath
	Clock   = clock
	Rel     = relative
	Inside  = inside

	Urgency      = urgency
	OutcomeWords = outcomeWords
	Results      = results
	Lost         = lost
	Kinds        = kinds
	Files        = files

	Subjects         = subjects
	MerchantSubjects = merchantSubjects
)

// ParsePages parses the templates of all pages, of operators and of merchants.
func ParsePages() error {
	b := basesOf(nil)
	l, err := newResources(b, time.Now, Brand{})
	if err != nil {
		return err
	}
	pages, err := fs.Glob(files, "templates/[^_]*.html")
	for _, file := range pages {
		for _, base := range []string{b.console, b.link} {
			_, errPage := l.pages[base].page(strings.TrimSuffix(path.Base(file), ".html"))
			err = errors.Join(err, errPage)
		}
	}
	return err
}

// What tests look at.
var (
	Waits  = waits
	Short  = short
	KnobOf = knobOf
)

// NewSearches returns the handler of the documents with the turns of its searches.
func NewSearches(o DocumentOptions) (http.Handler, *callers.Shares, error) {
	s, err := newServer(o)
	if err != nil {
		return nil, nil, err
	}
	return s, s.turns, nil
}

package console

import (
	"maps"
	"net/url"
)

// listPages are the links from a page of a list to others.
type listPages struct {
	Newest string // URL of the first page; empty: this is it
	Older  string // URL of the next page; empty: this is the last
}

// pagesOf returns the links of a page. filter is the query of the list, cursor the one of this
// page, and next the one of the next page.
func pagesOf(path string, filter url.Values, cursor string, next *string) (p listPages) {
	q := url.Values{}
	maps.Copy(q, filter)
	q.Del("cursor")
	if cursor != "" {
		p.Newest = (&url.URL{Path: path, RawQuery: q.Encode()}).String()
	}
	if next != nil {
		q.Set("cursor", *next)
		p.Older = (&url.URL{Path: path, RawQuery: q.Encode()}).String()
	}
	return p
}

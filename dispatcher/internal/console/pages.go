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
	if cursor != "" {
		p.Newest = pageURL(path, filter, "")
	}
	if next != nil {
		p.Older = pageURL(path, filter, *next)
	}
	return p
}

// pageURL returns the URL of a page of a list.
func pageURL(path string, filter url.Values, cursor string) string {
	q := url.Values{}
	maps.Copy(q, filter)
	q.Del("cursor")
	if cursor != "" {
		q.Set("cursor", cursor)
	}
	return (&url.URL{Path: path, RawQuery: q.Encode()}).String()
}

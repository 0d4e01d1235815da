package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/hookladder/hookladder/dispatcher/client"
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

// absence is why a page, or a part of it, is not shown. The script of the pages knows these texts.
type absence string

const (
	// absentSlow: there was no response in time. The store is slow, or hangs, or was asked for too
	// much. What is published meanwhile is accepted if the store responds to that.
	absentSlow absence = "slow"
	// absentStore: Redis can't be reached.
	absentStore absence = "store"
	// absentRefused: the API refuses for another reason, which its problem names.
	absentRefused absence = "refused"
)

// absenceOf returns why there was no response. It returns the empty text for an error that is no
// outage, such as a missing right.
func (v *visit) absenceOf(err error) absence {
	var p *client.Problem
	api := errors.As(err, &p)
	late := errors.Is(v.ctx.Err(), context.DeadlineExceeded)
	switch {
	case api && p.Status != http.StatusServiceUnavailable:
		return ""
	case api && p.Title != titleSlow && p.Title != titleAway:
		return absentRefused
	case v.srv.Lost() != nil:
		return absentStore
	case late || errors.Is(err, context.DeadlineExceeded) || api && p.Title == titleSlow:
		return absentSlow
	case !api && errors.Is(err, context.Canceled):
		return ""
	}
	return absentStore
}

// The titles of the API's problems for a store that can't be reached, and for one that did not respond
// in time. Both have the type unavailable.
const (
	titleAway = "The store can't be reached"
	titleSlow = "The store did not answer in time"
)

// missing has the parts of a page that could not be read, with the reason of each.
type missing map[string]absence

// parts reads the parts of a page side by side. A part without a response is missing, and the page
// shows the others.
type parts struct {
	v     *visit
	group sync.WaitGroup

	mu     sync.Mutex
	read   int     // parts that were read
	absent missing // nil: none
	err    error   // of a part that is missing; or else, one that concerns the whole page
	whole  bool    // err concerns the whole page
}

// add reads one part.
func (p *parts) add(name string, read func() error) {
	p.group.Go(func() {
		err := read()
		p.mu.Lock()
		defer p.mu.Unlock()
		why := absence("")
		if err != nil {
			why = p.v.absenceOf(err)
		}
		switch {
		case err == nil:
			p.read++
		case why == "" && !p.whole:
			p.err, p.whole = err, true
		case why != "":
			if p.absent == nil {
				p.absent = missing{}
			}
			p.absent[name] = why
			if p.err == nil {
				p.err = err
			}
		}
	})
}

// wait waits for all parts. It returns an error if one concerns the whole page, or if no part could
// be read.
func (p *parts) wait() (missing, error) {
	p.group.Wait()
	if p.whole || p.read == 0 && p.err != nil {
		return nil, p.err
	}
	return p.absent, nil
}

// address returns a path of this server as a URL for other people.
func (v *visit) address(path string) string {
	u := url.URL{Scheme: "http", Host: v.r.Host}
	if v.r.TLS != nil {
		u.Scheme = "https"
	}
	if public := v.srv.PublicURL; public != nil {
		u.Scheme, u.Host = public.Scheme, public.Host
	}
	return u.String() + path
}

// share returns a sentence about a message for a ticket, with the URL of its page.
func (p *messagePage) share(v *visit) string {
	text := cmp.Or(p.Message.Subject, p.ID)
	if p.Message.Subject != "" {
		text += " (" + p.ID + ")"
	}
	for i, c := range p.Deliveries {
		if i == deliveriesShared {
			text += fmt.Sprintf("; and to %d more", p.Count-i)
			break
		}
		d := &c.Delivery
		text += fmt.Sprintf("%s to %s: %s, %s", map[bool]string{true: ",", false: ";"}[i == 0], c.Name, strings.ReplaceAll(d.Status, "_", " "), manyThings(d.Attempts, "attempt"))
		if d.LastError != "" {
			text += ", the last failed: " + d.LastError
		}
	}
	return text + ". " + v.address(v.base+"/messages/"+url.PathEscape(p.ID))
}

// deliveriesShared is how many deliveries the sentence about a message names.
const deliveriesShared = 3

// share returns a sentence about an endpoint for a ticket, with the URL of its page.
func (p *endpointPage) share(v *visit) string {
	text := fmt.Sprintf("%s: %s, %d waiting", p.Name, p.State(), p.Waiting)
	if p.Cause != nil && p.Cause.Last != nil {
		text += ", the last attempt failed: " + p.Cause.Last.Error
	}
	return text + ". " + v.address(v.base+"/endpoints/"+url.PathEscape(p.ID))
}

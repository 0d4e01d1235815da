package access

import (
	"bytes"
	"context"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/access"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
)

const (
	// mostLinks is how many may be kept: 3 MB of Redis, or 12 MB where each makes all
	// its calls. A deployment of 1,000 merchants has one for each of ten people.
	mostLinks = 10_000
	// tidied is how many expired links one that is made removes: 0.2 ms of Redis.
	tidied = 100
	// chunk is how many links one call looks at: at most 200 KiB.
	chunk = 100
	// mostCalls of a page find its links among those that have expired: 20 ms of Redis.
	// The next page goes on.
	mostCalls = 20
	// spendWithin is the hour of access.LinkCalls.
	spendWithin = time.Hour
)

// linkRecord is what a link allows, as the store has it. Redis has the rest before it.
type linkRecord struct {
	Tenant   string
	Endpoint string `json:",omitempty"`
	Manage   bool   `json:",omitempty"`
	Name     string `json:",omitempty"`
	By       string `json:",omitempty"`
}

// CreateLink keeps a new link, which a new token opens and which lasts for so long. It
// answers the link with its id and times. The token is kept nowhere.
func (s *Store) CreateLink(ctx context.Context, token string, l access.Link, lasts time.Duration) (access.Link, error) {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false) // it is no page, and would be longer
	if err := enc.Encode(linkRecord{l.Tenant, l.Endpoint, l.Manage, l.Name, l.By}); err != nil {
		return l, fmt.Errorf("create link: %w", err)
	}
	if err := s.conn.Intact(ctx); err != nil { // its endpoint, or tenant, has to be known
		return l, fmt.Errorf("create link: %w", err)
	}
	l.ID = access.LinkID(token)
	r, err := s.conn.RunHome(ctx, s.createLink, l.ID, access.HashToken(token), lasts.Milliseconds(), mostLinks, tidied, strings.TrimSpace(text.String()))
	switch {
	case err != nil:
		return l, err
	case !r.More():
		return l, access.ErrLinks
	}
	l.CreatedAt, l.ExpiresAt = r.Time(), r.Time()
	return l, r.Err
}

// LinkByToken is the link that a token opens. It answers access.ErrNoLink where there is none;
// any other error is the store's.
func (s *Store) LinkByToken(ctx context.Context, token string) (access.Link, error) {
	l, have, err := s.read(ctx, access.LinkID(token))
	if err == nil && subtle.ConstantTimeCompare([]byte(access.HashToken(token)), []byte(have)) != 1 {
		return access.Link{}, access.ErrNoLink
	}
	return l, err
}

// Link is the link of an id.
func (s *Store) Link(ctx context.Context, id string) (access.Link, error) {
	l, _, err := s.read(ctx, id)
	return l, err
}

// read reads a link and the hash of its token.
func (s *Store) read(ctx context.Context, id string) (l access.Link, hash string, err error) {
	r, err := s.conn.RunHome(ctx, s.readLink, id)
	switch {
	case err != nil:
		return l, "", err
	case !r.More():
		return l, "", s.noLink(ctx)
	}
	l, hash, ok := decodeLink(id, r.Text())
	if !ok {
		return access.Link{}, "", access.ErrNoLink
	}
	return l, hash, r.Err
}

// noLink is the error of a link that was not found.
func (s *Store) noLink(ctx context.Context) error {
	if err := s.conn.Intact(ctx); err != nil {
		return err
	}
	return access.ErrNoLink
}

// decodeLink reads a record; ok is false where it is none of ours.
func decodeLink(id, text string) (l access.Link, hash string, ok bool) {
	parts := strings.SplitN(text, " ", 5)
	var r linkRecord
	if len(parts) != 5 || json.Unmarshal([]byte(parts[4]), &r) != nil || r.Tenant == "" {
		return l, "", false
	}
	made, _ := strconv.ParseInt(parts[1], 10, 64)
	ends, _ := strconv.ParseInt(parts[2], 10, 64)
	return access.Link{
		ID: id, Tenant: r.Tenant, Endpoint: r.Endpoint, Manage: r.Manage, Name: r.Name, By: r.By,
		CreatedAt: conn.FromMillis(made), ExpiresAt: conn.FromMillis(ends),
	}, parts[0], true
}

// Links reads links, newest first, and forgets those that have expired. next is where
// another call goes on, empty at the end.
func (s *Store) Links(ctx context.Context, limit int, after string) (list []access.Link, next string, err error) {
	below := "" // score of the last one that was looked at
	if after != "" {
		if err := s.sealer.Open(ctx, linkList, after, &below); err != nil {
			return nil, "", err
		}
	}
	for range mostCalls {
		r, err := s.conn.RunHome(ctx, s.listLinks, below, min(chunk, limit-len(list)))
		if err != nil {
			return nil, "", err
		}
		below = r.Text()
		for r.More() {
			if l, _, ok := decodeLink(r.Text(), r.Text()); ok {
				list = append(list, l)
			}
		}
		if r.Err != nil {
			return nil, "", r.Err
		}
		if below == "" || len(list) == limit {
			break
		}
	}
	if below != "" {
		if next, err = s.sealer.Seal(ctx, linkList, below); err != nil {
			return nil, "", err
		}
	}
	if len(list) == 0 {
		return nil, next, s.conn.Intact(ctx)
	}
	return list, next, nil
}

// linkList is the name of the list, which has no filter.
var linkList = dispatcher.ListName("links", nil)

// RevokeLink ends a link, and with it all browsers that it let in.
func (s *Store) RevokeLink(ctx context.Context, id string) error {
	r, err := s.conn.RunHome(ctx, s.revokeLink, id)
	if err != nil {
		return err
	}
	if there := r.Number(); there == 0 && r.Err == nil {
		return s.noLink(ctx)
	}
	return r.Err
}

// SpendLink counts a test or a resend. Where wait is more than zero the link has made
// all the calls of an hour, and may make the next one after so long.
func (s *Store) SpendLink(ctx context.Context, id string) (wait time.Duration, err error) {
	r, err := s.conn.RunHome(ctx, s.spendLinks, id, access.LinkCalls, spendWithin.Milliseconds())
	switch {
	case err != nil:
		return 0, err
	case !r.More():
		return 0, s.noLink(ctx)
	}
	wait = time.Duration(r.Number()) * time.Millisecond
	return wait, r.Err
}

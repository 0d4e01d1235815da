package home

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/input"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
)

const (
	// mostLinks is the most links that are kept. They take 3 MB of Redis, or 12 MB if each makes
	// all its calls. A deployment with 1,000 merchants has one link for each of ten people per
	// merchant.
	mostLinks = 10_000
	// tidied is the most expired links that a new link removes. That takes 0.2 ms of Redis.
	tidied = 100
	// linkChunk is the number of links that one call reads, at most 200 KiB.
	linkChunk = 100
	// mostCalls limits the calls that a page makes to find its links among expired ones. They take
	// 20 ms of Redis. The next page continues the search.
	mostCalls = 20
	// spendWithin is the hour of access.LinkCalls.
	spendWithin = time.Hour
)

// linkRecord is the part of a stored link that describes its rights. In Redis the other fields come
// before it.
type linkRecord struct {
	Tenant   string
	Endpoint string `json:",omitempty"`
	Manage   bool   `json:",omitempty"`
	Name     string `json:",omitempty"`
	By       string `json:",omitempty"`
	Key      string // the owner text of the key that signed it
}

// CreateLink stores a new link of l.Key that expires after lasts. It returns the token, which is
// not stored, and the link with its id and times.
func (s *Access) CreateLink(ctx context.Context, l dispatcher.Link, lasts time.Duration) (token string, made dispatcher.Link, err error) {
	if err := s.conn.Intact(ctx); err != nil { // its endpoint or tenant must be known
		return "", l, fmt.Errorf("create link: %w", err)
	}
	key, err := s.maker(ctx, l.Key)
	if err != nil {
		return "", l, fmt.Errorf("create link: %w", err)
	}
	if l.CreatedAt, err = s.storeTime(ctx); err != nil {
		return "", l, err
	}
	token = key.NewLink()
	l.Key, l.ID, l.ExpiresAt = key.Owner, dispatcher.LinkID(token), l.CreatedAt.Add(lasts)
	text, err := encodeLink(key, dispatcher.HashToken(token), l)
	if err != nil {
		return "", l, fmt.Errorf("create link: %w", err)
	}
	r, err := s.conn.RunHome(ctx, createLinkScript, l.ID, conn.ToMillis(l.CreatedAt), conn.ToMillis(l.ExpiresAt), mostLinks, tidied, text)
	switch {
	case err != nil:
		return "", l, err
	case !r.More():
		return "", l, dispatcher.ErrLinks
	}
	return token, l, r.Err
}

// LinkByToken returns the link that a token opens. If there is none, it returns access.ErrNoLink.
// Any other error comes from the store. A token that was not made by a valid key costs no query.
func (s *Access) LinkByToken(ctx context.Context, token string) (dispatcher.Link, error) {
	all, err := s.keysNow(ctx)
	if err != nil {
		return dispatcher.Link{}, err
	}
	key, ok := all.OfLink(token)
	if !ok {
		return dispatcher.Link{}, dispatcher.ErrNoLink
	}
	l, hash, err := s.read(ctx, all, dispatcher.LinkID(token))
	if err == nil && (l.Key != key.Owner || !dispatcher.SameToken(hash, dispatcher.HashToken(token))) {
		return dispatcher.Link{}, dispatcher.ErrNoLink
	}
	return l, err
}

// Link returns the link with an id. If the key of the link was removed, the link reports that.
func (s *Access) Link(ctx context.Context, id string) (dispatcher.Link, error) {
	all, err := s.keysNow(ctx)
	if err != nil {
		return dispatcher.Link{}, err
	}
	l, _, err := s.read(ctx, all, id)
	return l, err
}

// read returns a link and the hash of its token.
func (s *Access) read(ctx context.Context, all dispatcher.AccessKeys, id string) (l dispatcher.Link, hash string, err error) {
	r, err := s.conn.RunHome(ctx, readLinkScript, id)
	switch {
	case err != nil:
		return l, "", err
	case !r.More():
		return l, "", s.noLink(ctx)
	}
	l, hash, ok := decodeLink(all, id, r.Text())
	if !ok {
		return dispatcher.Link{}, "", dispatcher.ErrNoLink
	}
	return l, hash, r.Err
}

// noLink returns the error for a link that was not found.
func (s *Access) noLink(ctx context.Context) error {
	if err := s.conn.Intact(ctx); err != nil {
		return err
	}
	return dispatcher.ErrNoLink
}

// encodeLink returns the record of a link that has made no calls yet. Its MAC covers all fields
// except for the calls.
func encodeLink(key dispatcher.AccessKey, hash string, l dispatcher.Link) (string, error) {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false) // the record is no HTML page, and escapes would make it longer
	if err := enc.Encode(linkRecord{l.Tenant, l.Endpoint, l.Manage, l.Name, l.By, l.Key}); err != nil {
		return "", err
	}
	made, ends := strconv.FormatInt(conn.ToMillis(l.CreatedAt), 10), strconv.FormatInt(conn.ToMillis(l.ExpiresAt), 10)
	allows := strings.TrimSpace(text.String())
	return strings.Join([]string{hash, made, ends, "-", key.SignLink(l.ID, hash, made, ends, allows), allows}, " "), nil
}

// decodeLink parses a record. It returns false in ok if the record is not valid. If the key is no
// longer valid, the record can't be checked. The link then opens no page and has Ended set.
func decodeLink(all dispatcher.AccessKeys, id, text string) (l dispatcher.Link, hash string, ok bool) {
	parts := strings.SplitN(text, " ", 6)
	var r linkRecord
	if len(parts) != 6 || json.Unmarshal([]byte(parts[5]), &r) != nil || r.Tenant == "" {
		return l, "", false
	}
	made, err1 := strconv.ParseInt(parts[1], 10, 64)
	ends, err2 := strconv.ParseInt(parts[2], 10, 64)
	if errors.Join(err1, err2) != nil {
		return l, "", false
	}
	l = dispatcher.Link{
		ID: id, Tenant: r.Tenant, Endpoint: r.Endpoint, Manage: r.Manage, Name: r.Name, By: r.By, Key: r.Key,
		CreatedAt: conn.FromMillis(made), ExpiresAt: conn.FromMillis(ends),
	}
	key, valid := all.Of(r.Key)
	if !valid {
		l.Ended = dispatcher.EndedKey
		return l, parts[0], true
	}
	return l, parts[0], dispatcher.SameToken(parts[4], key.SignLink(id, parts[0], parts[1], parts[2], parts[5]))
}

// Links returns links, newest first, and removes expired ones. It returns in next the cursor of the
// next call, which is empty at the end.
func (s *Access) Links(ctx context.Context, limit int, after string) (list []dispatcher.Link, next string, err error) {
	below := "" // score of the last link that was read
	limit = input.PageSize(limit, input.MaxPage)
	if err := s.conn.Cursors().Open(ctx, linkList, after, &below); err != nil {
		return nil, "", err
	}
	all, err := s.keysNow(ctx)
	if err != nil {
		return nil, "", err
	}
	for range mostCalls {
		r, err := s.conn.RunHome(ctx, listLinksScript, below, min(linkChunk, limit-len(list)))
		if err != nil {
			return nil, "", err
		}
		below = r.Text()
		for r.More() {
			if l, _, ok := decodeLink(all, r.Text(), r.Text()); ok {
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
		if next, err = s.conn.Cursors().Seal(ctx, linkList, below); err != nil {
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

// RevokeLink ends a link and the sessions of all browsers that used it.
func (s *Access) RevokeLink(ctx context.Context, id string) error {
	r, err := s.conn.RunHome(ctx, revokeLinkScript, id)
	if err != nil {
		return err
	}
	if there := r.Number(); there == 0 && r.Err == nil {
		return s.noLink(ctx)
	}
	return r.Err
}

// CountLinks returns the number of links of keys, given by their owner texts.
func (s *Access) CountLinks(ctx context.Context, owners []string) (n int, err error) {
	for after := ""; ; {
		list, next, err := s.Links(ctx, linkChunk, after)
		if err != nil {
			return n, err
		}
		for _, l := range list {
			if slices.Contains(owners, l.Key) {
				n++
			}
		}
		if after = next; after == "" {
			return n, nil
		}
	}
}

// SpendLink counts a change by a link. If the link has made all calls of an hour, SpendLink returns
// a wait above zero. The next call is allowed after this wait.
func (s *Access) SpendLink(ctx context.Context, id string) (wait time.Duration, err error) {
	r, err := s.conn.RunHome(ctx, spendLinkScript, id, dispatcher.LinkCalls, spendWithin.Milliseconds())
	switch {
	case err != nil:
		return 0, err
	case !r.More():
		return 0, s.noLink(ctx)
	}
	wait = time.Duration(r.Number()) * time.Millisecond
	return wait, r.Err
}

// UnspendLink removes a change from the count because the change was refused.
func (s *Access) UnspendLink(ctx context.Context, id string) error {
	_, err := s.conn.RunHome(ctx, unspendLinkScript, id)
	return err
}

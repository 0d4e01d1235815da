package access

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
	Key      string // the owner text of the key that signed it
}

// CreateLink keeps a new link of l.Key, which lasts for so long. It answers its token, which
// is kept nowhere, and the link with its id and times.
func (s *Store) CreateLink(ctx context.Context, l access.Link, lasts time.Duration) (token string, made access.Link, err error) {
	if err := s.conn.Intact(ctx); err != nil { // its endpoint, or tenant, has to be known
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
	l.Key, l.ID, l.ExpiresAt = key.Owner, access.LinkID(token), l.CreatedAt.Add(lasts)
	text, err := encodeLink(key, access.HashToken(token), l)
	if err != nil {
		return "", l, fmt.Errorf("create link: %w", err)
	}
	r, err := s.conn.RunHome(ctx, s.createLink, l.ID, conn.ToMillis(l.CreatedAt), conn.ToMillis(l.ExpiresAt), mostLinks, tidied, text)
	switch {
	case err != nil:
		return "", l, err
	case !r.More():
		return "", l, access.ErrLinks
	}
	return token, l, r.Err
}

// LinkByToken is the link that a token opens. It answers access.ErrNoLink where there is none;
// any other error is the store's. A token that no valid key made costs no query.
func (s *Store) LinkByToken(ctx context.Context, token string) (access.Link, error) {
	all, err := s.keysNow(ctx)
	if err != nil {
		return access.Link{}, err
	}
	key, ok := all.OfLink(token)
	if !ok {
		return access.Link{}, access.ErrNoLink
	}
	l, hash, err := s.read(ctx, all, access.LinkID(token))
	if err == nil && (l.Key != key.Owner || !access.Same(hash, access.HashToken(token))) {
		return access.Link{}, access.ErrNoLink
	}
	return l, err
}

// Link is the link of an id. One whose key was taken away says so.
func (s *Store) Link(ctx context.Context, id string) (access.Link, error) {
	all, err := s.keysNow(ctx)
	if err != nil {
		return access.Link{}, err
	}
	l, _, err := s.read(ctx, all, id)
	return l, err
}

// read reads a link and the hash of its token.
func (s *Store) read(ctx context.Context, all access.Keys, id string) (l access.Link, hash string, err error) {
	r, err := s.conn.RunHome(ctx, s.readLink, id)
	switch {
	case err != nil:
		return l, "", err
	case !r.More():
		return l, "", s.noLink(ctx)
	}
	l, hash, ok := decodeLink(all, id, r.Text())
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

// encodeLink is the record of a link that has made no call so far. Its MAC covers all but
// these calls.
func encodeLink(key access.Key, hash string, l access.Link) (string, error) {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false) // it is no page, and would be longer
	if err := enc.Encode(linkRecord{l.Tenant, l.Endpoint, l.Manage, l.Name, l.By, l.Key}); err != nil {
		return "", err
	}
	made, ends := strconv.FormatInt(conn.ToMillis(l.CreatedAt), 10), strconv.FormatInt(conn.ToMillis(l.ExpiresAt), 10)
	allows := strings.TrimSpace(text.String())
	return strings.Join([]string{hash, made, ends, "-", key.SignLink(l.ID, hash, made, ends, allows), allows}, " "), nil
}

// decodeLink reads a record; ok is false where it is none of ours. The record of a key that
// is not valid any more can't be checked: it opens nothing, and is Ended.
func decodeLink(all access.Keys, id, text string) (l access.Link, hash string, ok bool) {
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
	l = access.Link{
		ID: id, Tenant: r.Tenant, Endpoint: r.Endpoint, Manage: r.Manage, Name: r.Name, By: r.By, Key: r.Key,
		CreatedAt: conn.FromMillis(made), ExpiresAt: conn.FromMillis(ends),
	}
	key, valid := all.Of(r.Key)
	if !valid {
		l.Ended = access.EndedKey
		return l, parts[0], true
	}
	return l, parts[0], access.Same(parts[4], key.SignLink(id, parts[0], parts[1], parts[2], parts[5]))
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
	all, err := s.keysNow(ctx)
	if err != nil {
		return nil, "", err
	}
	for range mostCalls {
		r, err := s.conn.RunHome(ctx, s.listLinks, below, min(chunk, limit-len(list)))
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

// CountLinks counts the links of keys, by their owner texts.
func (s *Store) CountLinks(ctx context.Context, owners []string) (n int, err error) {
	for after := ""; ; {
		list, next, err := s.Links(ctx, chunk, after)
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

// SpendLink counts a change. Where wait is more than zero the link has made all the calls of
// an hour, and may make the next one after so long.
func (s *Store) SpendLink(ctx context.Context, id string) (wait time.Duration, err error) {
	r, err := s.conn.RunHome(ctx, s.spendLink, id, access.LinkCalls, spendWithin.Milliseconds())
	switch {
	case err != nil:
		return 0, err
	case !r.More():
		return 0, s.noLink(ctx)
	}
	wait = time.Duration(r.Number()) * time.Millisecond
	return wait, r.Err
}

// UnspendLink takes back a change that was counted, because it was refused.
func (s *Store) UnspendLink(ctx context.Context, id string) error {
	_, err := s.conn.RunHome(ctx, s.unspendLink, id)
	return err
}

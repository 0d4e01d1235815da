package endpoints

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// Public keys are for everybody. So they are read all at once and kept: no
// caller, however many there are, costs the store more than one reading in
// keysFor.

const (
	// keysFor is how long public keys are kept: a new one is known by then.
	keysFor = time.Minute
	// keysAgain is how long the store is left alone where it did not answer.
	keysAgain = time.Second
	// keysWithin bounds one reading.
	keysWithin = 30 * time.Second
	// keysPage bounds one call: 100 endpoints have 2.5 MiB at the most.
	keysPage = 100
	// keysMost bounds the memory, some 300 bytes each.
	keysMost = 100_000
)

// keySet are the public keys that there were at a time, or why they are unknown.
type keySet struct {
	list  []keyOwner // by id
	byUID map[string]int
	until time.Time // monotonic
	err   error
}

type keyOwner struct {
	id   string
	keys []dispatcher.PublicKey
}

// keyCache keeps them.
type keyCache struct {
	registry *Registry
	turn     chan struct{} // 1 deep: its holder reads set, and makes a new one
	set      *keySet
}

func newKeyCache(r *Registry) *keyCache {
	return &keyCache{registry: r, turn: make(chan struct{}, 1), set: &keySet{}}
}

// PublicKeys reads a page of the public keys of endpoints, as of keysFor ago at
// most. It tells nothing of endpoints that have none.
func (r *Registry) PublicKeys(ctx context.Context, f dispatcher.PublicKeyFilter) (dispatcher.PublicKeyPage, error) {
	if f.Cursor != "" && !dispatcher.Lane(f.Cursor).IsEndpoint() {
		return dispatcher.PublicKeyPage{}, fmt.Errorf("%w: %q", dispatcher.ErrCursor, f.Cursor)
	}
	set, err := r.keys.get(ctx)
	if err != nil {
		return dispatcher.PublicKeyPage{}, fmt.Errorf("read public keys: %w", err)
	}
	page := dispatcher.PublicKeyPage{Fresh: time.Until(set.until)}
	owners := set.list
	if f.Name != "" {
		owners = set.named(f.Name)
	} else {
		owners = owners[set.after(f.Cursor):]
		if limit := cmp.Or(f.Limit, 50); len(owners) > limit {
			owners = owners[:limit]
			page.Next = owners[limit-1].id
		}
	}
	now := r.Queue.Now()
	for _, owner := range owners {
		for _, key := range owner.keys {
			if key.Until.IsZero() || key.Until.After(now) {
				page.Keys = append(page.Keys, key)
			}
		}
	}
	return page, nil
}

// after is where the ids behind a cursor begin.
func (s *keySet) after(cursor string) int {
	at, found := slices.BinarySearchFunc(s.list, cursor, func(o keyOwner, id string) int { return strings.Compare(o.id, id) })
	if found {
		at++
	}
	return at
}

// named is the owner with an id or uid, if there is one.
func (s *keySet) named(name string) []keyOwner {
	at, found := s.byUID[name]
	if dispatcher.Lane(name).IsEndpoint() {
		at, found = slices.BinarySearchFunc(s.list, name, func(o keyOwner, id string) int { return strings.Compare(o.id, id) })
	}
	if !found {
		return nil
	}
	return s.list[at : at+1]
}

// get answers the keys, and reads them where they are too old. All others wait
// for the one that reads, which goes on also where its own caller leaves.
func (c *keyCache) get(ctx context.Context) (*keySet, error) {
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", dispatcher.ErrUnavailable, ctx.Err())
	}
	defer func() { <-c.turn }()
	if !time.Now().Before(c.set.until) {
		call, cancel := context.WithTimeout(context.WithoutCancel(ctx), keysWithin)
		defer cancel()
		c.set = c.read(call)
	}
	return c.set, c.set.err
}

// read reads all public keys. What stands in the index without a key is passed
// over: the endpoint itself says what it has.
func (c *keyCache) read(ctx context.Context) *keySet {
	s := &keySet{byUID: map[string]int{}}
	uids := map[string]string{}
	store := c.registry.Store
	for f := (dispatcher.EndpointFilter{Public: true, Limit: keysPage}); store != nil; {
		page, next, err := store.ListEndpoints(ctx, f)
		if err != nil {
			return &keySet{until: time.Now().Add(keysAgain), err: err}
		}
		for _, e := range page {
			if keys := e.PublicKeys(); len(keys) > 0 {
				s.list = append(s.list, keyOwner{e.ID, keys})
				uids[e.ID] = e.UID
			}
		}
		if len(s.list) > keysMost {
			c.registry.Log.LogAttrs(ctx, slog.LevelWarn, "more endpoints have public keys than are told: only the newest are", slog.Int("told", keysMost))
			s.list = s.list[:keysMost]
			next = ""
		}
		if f.Cursor = next; next == "" {
			break
		}
	}
	slices.SortFunc(s.list, func(a, b keyOwner) int { return strings.Compare(a.id, b.id) })
	for i, owner := range s.list {
		if uid := uids[owner.id]; uid != "" {
			s.byUID[uid] = i
		}
	}
	s.until = time.Now().Add(keysFor)
	return s
}

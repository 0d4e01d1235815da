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

// Anyone may ask for public keys. So they are read all at once and cached: however many
// callers ask, the store is read once in keysFor.

const (
	// keysFor is how long public keys are cached, so a new one is shown by then.
	keysFor = time.Minute
	// keysAgain is the wait after a reading that failed.
	keysAgain = time.Second
	// keysWithin bounds one reading.
	keysWithin = 30 * time.Second
	// keysPage bounds one call: 100 endpoints have 2.5 MiB at the most.
	keysPage = 100
	// keysMost bounds the memory, some 300 bytes each.
	keysMost = 100_000
)

// keySet holds the public keys as of one reading, or its error.
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

// keyCache is the cache of public keys.
type keyCache struct {
	registry *Registry
	turn     chan struct{} // 1 deep: a mutex that can be waited for with a context; guards set
	set      *keySet
}

func newKeyCache(r *Registry) *keyCache {
	return &keyCache{registry: r, turn: make(chan struct{}, 1), set: &keySet{}}
}

// PublicKeys reads a page of the public keys of endpoints, at most keysFor old. It leaves
// out endpoints that have none.
func (r *Registry) PublicKeys(ctx context.Context, f dispatcher.PublicKeyFilter) (dispatcher.PublicKeyPage, error) {
	last := "" // id of the last endpoint of the page before
	if f.Cursor != "" {
		if err := r.Queue.OpenCursor(ctx, keyList, f.Cursor, &last); err != nil {
			return dispatcher.PublicKeyPage{}, err
		}
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
		owners = owners[set.after(last):]
		if limit := cmp.Or(f.Limit, 50); len(owners) > limit {
			owners = owners[:limit]
			if page.Next, err = r.Queue.SealCursor(ctx, keyList, owners[limit-1].id); err != nil {
				return dispatcher.PublicKeyPage{}, err
			}
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

// keyList is the name of the list of all keys.
var keyList = dispatcher.ListName("keys", nil)

// after is the place of the first id behind one.
func (s *keySet) after(id string) int {
	at, found := s.find(id)
	if found {
		at++
	}
	return at
}

// named is the owner with that id or uid, or none.
func (s *keySet) named(name string) []keyOwner {
	at, found := s.byUID[name]
	if dispatcher.Lane(name).IsEndpoint() {
		at, found = s.find(name)
	}
	if !found {
		return nil
	}
	return s.list[at : at+1]
}

func (s *keySet) find(id string) (at int, found bool) {
	return slices.BinarySearchFunc(s.list, id, func(o keyOwner, id string) int { return strings.Compare(o.id, id) })
}

// get answers the keys, and reads them first where they are too old. Other callers wait
// for that reading, which goes on even if its own caller leaves.
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

// read reads all public keys. It skips endpoints that are in the index but have no key.
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

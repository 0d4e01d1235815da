package endpoints

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/input"
)

// Public keys need no authentication. So they are read all at once and cached: the store
// is read once in keysFor, however many callers there are.

const (
	// keysFor is how long public keys are cached, and so the longest delay of a new one.
	keysFor = time.Minute
	// keysRetry is the wait after a read that failed.
	keysRetry = time.Second
	// keysTimeout is the timeout of one read.
	keysTimeout = 30 * time.Second
	// keysPage bounds one call: 100 endpoints have at most 2.5 MiB.
	keysPage = 100
	// maxKeys bounds the memory, some 300 bytes for each endpoint.
	maxKeys = 100_000
)

// keySet has the public keys of one read, or its error.
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
	turn     chan struct{} // a mutex with a context; guards set
	set      *keySet
}

func newKeyCache(r *Registry) *keyCache {
	return &keyCache{registry: r, turn: make(chan struct{}, 1), set: &keySet{}}
}

// PublicKeys returns a page of the public keys of endpoints, at most keysFor old. It
// skips endpoints that have none.
func (r *Registry) PublicKeys(ctx context.Context, f dispatcher.PublicKeyFilter) (dispatcher.PublicKeyPage, error) {
	last := "" // id of the last endpoint on the page before
	if err := r.Queue.OpenCursor(ctx, keyList, f.Cursor, &last); err != nil {
		return dispatcher.PublicKeyPage{}, err
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
		if limit := input.PageSize(f.Limit, input.MaxPage); len(owners) > limit {
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

// keyList is the name of the list in its cursors.
var keyList = dispatcher.ListName("keys", nil)

// after returns the index of the first id after one.
func (s *keySet) after(id string) int {
	at, found := s.find(id)
	if found {
		at++
	}
	return at
}

// named returns the owner with that id or uid, or none.
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

// get returns the keys, and reads them first if the cache is too old. Other callers wait
// for that read, which continues even if its own caller leaves.
func (c *keyCache) get(ctx context.Context) (*keySet, error) {
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", dispatcher.ErrUnavailable, ctx.Err())
	}
	defer func() { <-c.turn }()
	if !time.Now().Before(c.set.until) {
		call, cancel := context.WithTimeout(context.WithoutCancel(ctx), keysTimeout)
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
			return &keySet{until: time.Now().Add(keysRetry), err: err}
		}
		for _, e := range page {
			if keys := e.PublicKeys(); len(keys) > 0 {
				s.list = append(s.list, keyOwner{e.ID, keys})
				uids[e.ID] = e.UID
			}
		}
		if len(s.list) > maxKeys {
			c.registry.Log.LogAttrs(ctx, slog.LevelWarn, "too many endpoints have public keys: only the newest are published", slog.Int("told", maxKeys))
			s.list = s.list[:maxKeys]
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

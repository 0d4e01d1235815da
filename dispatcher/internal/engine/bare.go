package engine

import (
	"net/url"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/signer"
)

// mostSigners bounds the memory of tenants' own signers. Beyond it the least recently
// used one is evicted.
const mostSigners = 20_000

// signers sign for bare URLs: one signer for all tenants, or one for each.
type signers struct {
	plain   *signer.Signer
	secrets []signer.Secret // nil: tenants have none of their own

	mu    sync.Mutex // guards known
	known *simplelru.LRU[string, *signer.Signer]
}

func newSigners(secrets []signer.Secret, derive bool) (*signers, error) {
	plain, err := signer.NewSigner(secrets...)
	if err != nil {
		return nil, err
	}
	known, err := simplelru.NewLRU[string, *signer.Signer](mostSigners, nil)
	if err != nil {
		return nil, err // impossible: it fails for a bound below 1 only
	}
	s := &signers{plain: plain, known: known}
	if derive {
		s.secrets = secrets
	}
	return s, nil
}

// of is the signer of a tenant. Messages without a tenant count as one more.
func (s *signers) of(tenant string) (*signer.Signer, error) {
	if s.secrets == nil {
		return s.plain, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if sign, ok := s.known.Get(tenant); ok {
		return sign, nil
	}
	own := make([]signer.Secret, len(s.secrets))
	for i, secret := range s.secrets {
		own[i] = secret.Derive(tenant)
	}
	sign, err := signer.NewSigner(own...)
	if err != nil {
		return nil, err
	}
	s.known.Add(tenant, sign)
	return sign, nil
}

// target is where the messages of a tenant with a bare URL go. It is never changed.
type target struct {
	url   *url.URL
	lanes []dispatcher.Lane // its only one
}

// targetKey names a target. One URL leads to another lane for each tenant.
type targetKey struct{ url, tenant string }

// targets is a cache of parsed URLs: most messages go where others went.
type targets struct {
	mu    sync.RWMutex // guards known
	known map[targetKey]*target
}

// mostTargets bounds the memory. Beyond it the whole cache is dropped, which costs one
// more parsing for each URL.
const mostTargets = 10_000

func (t *targets) of(m *dispatcher.Message) (*target, error) {
	at := targetKey{url: m.URL, tenant: m.Tenant}
	t.mu.RLock()
	found := t.known[at]
	t.mu.RUnlock()
	if found != nil {
		return found, nil
	}
	u, err := dispatcher.ParseURL(m.URL)
	if err != nil {
		return nil, err
	}
	found = &target{url: u, lanes: []dispatcher.Lane{dispatcher.URLLane(u, m.Tenant)}}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known == nil || len(t.known) >= mostTargets {
		t.known = map[targetKey]*target{}
	}
	t.known[at] = found
	return found, nil
}

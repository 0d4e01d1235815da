package callers

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/input"
)

// minKey is the length below which a key can be guessed.
const minKey = 16

// maxName bounds a name, which logs contain.
const maxName = 64

// hashed is the prefix of a key that is given as its SHA-256.
const hashed = "sha256:"

// Scope is the set of a key's permissions; 0: nothing.
type Scope uint8

// The scopes.
const (
	Publish Scope = 1 << iota
	Read
	Bodies // beside Read: bodies of messages, and what receivers answered
	Tick
	Consume // from every queue and pull endpoint
	Admin   // includes all others
)

// consumeOf is the prefix of a scope that is for one queue, or one pull endpoint, only.
const consumeOf = "consume@"

var scopes = map[string]Scope{
	"publish": Publish,
	"read":    Read,
	"bodies":  Bodies,
	"tick":    Tick,
	"consume": Consume,
	"admin":   Admin,
}

// String is the name of a single scope, as API_KEYS has it.
func (s Scope) String() string {
	for name, one := range scopes {
		if s == one {
			return name
		}
	}
	return "none"
}

// Allows reports whether a key with the scopes s may do what needs the scope want.
func (s Scope) Allows(want Scope) bool {
	return s&(want|Admin) != 0
}

// APIKey is one caller's key. Only its hash is kept.
type APIKey struct {
	Scope Scope
	Name  string // for logs

	queues []string // it may take from these, where Scope does not allow all
	owner  string
	sum    [sha256.Size]byte
}

// MayTake reports whether the key may take from a queue, named by its name, or from a pull
// endpoint, named by its id, and settle the deliveries.
func (k APIKey) MayTake(queue string) bool {
	return k.Scope.Allows(Consume) || slices.Contains(k.queues, queue)
}

// Owner identifies the key without revealing it. The deliveries that a key takes belong to it. A
// key that was only given another name or another scope has the same one.
func (k APIKey) Owner() string {
	if k.owner == "" { // it was not parsed: it is of this host, or of a link
		return ownerOf(k.sum)
	}
	return k.owner
}

// Binding binds sessions and links to the key.
func (k APIKey) Binding() dispatcher.AccessKey { return dispatcher.NewAccessKey(k.Owner(), k.sum) }

// APIKeys are the keys with which the API may be called.
type APIKeys struct {
	keys []APIKey
}

// Empty reports whether there is no key, so that only this host may call.
func (k APIKeys) Empty() bool { return len(k.keys) == 0 }

// Len is how many there are.
func (k APIKeys) Len() int { return len(k.keys) }

// Bindings bind sessions and links to each of the keys.
func (k APIKeys) Bindings() dispatcher.AccessKeys {
	all := make(dispatcher.AccessKeys, len(k.keys))
	for i, one := range k.keys {
		all[i] = one.Binding()
	}
	return all
}

// Without are the owner texts of the keys that others lack.
func (k APIKeys) Without(others APIKeys) (owners []string) {
	for _, one := range k.keys {
		if _, ok := others.Owned(one.Owner()); !ok {
			owners = append(owners, one.Owner())
		}
	}
	return owners
}

// KeyRing holds the keys that are valid now. It may be used from several
// goroutines.
type KeyRing struct{ now atomic.Pointer[APIKeys] }

// NewKeyRing returns a ring of keys; none: only this host may call.
func NewKeyRing(keys APIKeys) *KeyRing {
	r := &KeyRing{}
	r.now.Store(&keys)
	return r
}

// Renew replaces the keys from the next request on. It ignores an empty set, because without
// keys the API would be open to all on this host.
func (r *KeyRing) Renew(keys APIKeys) {
	if !keys.Empty() {
		r.now.Store(&keys)
	}
}

// Keys are those that are valid now.
func (r *KeyRing) Keys() APIKeys { return *r.now.Load() }

// NewAPIKey returns a fresh key.
func NewAPIKey() string { return "hk_" + rand.Text() }

// Find looks a key up. It compares with each key in constant time, because the time would reveal
// a part of a key.
func (k APIKeys) Find(text string) (found APIKey, ok bool) {
	sum := sha256.Sum256([]byte(text))
	at := -1
	for i := range k.keys {
		if subtle.ConstantTimeCompare(sum[:], k.keys[i].sum[:]) == 1 {
			at = i
		}
	}
	if at < 0 || text == "" { // an empty text has a hash too
		return APIKey{}, false
	}
	return k.keys[at], true
}

// Owned looks a key up by its owner text.
func (k APIKeys) Owned(owner string) (found APIKey, ok bool) {
	for _, one := range k.keys {
		if one.Owner() == owner {
			return one, true
		}
	}
	return APIKey{}, false
}

// Caller is the key as a browser's.
func (k APIKey) Caller() dispatcher.Browser {
	return dispatcher.Browser{
		Name: k.Name, Key: k.Owner(),
		Read: k.Scope.Allows(Read), Bodies: k.Scope.Allows(Bodies), Admin: k.Scope.Allows(Admin),
	}
}

// ParseAPIKeys reads API_KEYS: key:scope+scope[:name] with commas between, where
// a key may be given as sha256:<hex>. Its errors number the entry that is wrong
// and repeat nothing of it: where key and scope are swapped, that would log the key.
func ParseAPIKeys(text string) (APIKeys, error) {
	if strings.TrimSpace(text) == "" {
		return APIKeys{}, nil
	}
	var keys APIKeys
	var wrong []error
	sums, names := map[[sha256.Size]byte]int{}, map[string]int{}
	for i, entry := range strings.Split(text, ",") {
		n := i + 1
		k, named, err := parseKey(strings.TrimSpace(entry))
		if err != nil {
			wrong = append(wrong, fmt.Errorf("entry %d: %w", n, err))
			continue
		}
		if first, ok := sums[k.sum]; ok {
			wrong = append(wrong, fmt.Errorf("entry %d: has the same key as entry %d", n, first))
		}
		if first, ok := names[k.Name]; ok && named {
			wrong = append(wrong, fmt.Errorf("entry %d: has the same name as entry %d", n, first))
		}
		sums[k.sum], names[k.Name] = n, n
		keys.keys = append(keys.keys, k)
	}
	if err := errors.Join(wrong...); err != nil {
		return APIKeys{}, err
	}
	return keys, nil
}

// parseKey parses one entry. named is false if the entry has no name.
func parseKey(entry string) (k APIKey, named bool, err error) {
	if entry == "" {
		return APIKey{}, false, errors.New("is empty")
	}
	entry, isSum := strings.CutPrefix(entry, hashed)
	text, rest, ok := strings.Cut(entry, ":")
	if !ok {
		return APIKey{}, false, errors.New("has no scope: write key:scope+scope or key:scope+scope:name")
	}
	if isSum {
		k.sum, err = parseSum(text)
	} else {
		k.sum, err = sumKey(text)
	}
	if err != nil {
		return APIKey{}, false, err
	}
	granted, name, named := strings.Cut(rest, ":")
	if k.Scope, k.queues, err = parseScopes(granted); err != nil {
		return APIKey{}, false, err
	}
	k.owner, k.Name = ownerOf(k.sum), name
	if !named {
		k.Name = hex.EncodeToString(k.sum[:4])
	} else if !validName(name) {
		return APIKey{}, false, fmt.Errorf("has a name that is not 1 to %d of A-Z a-z 0-9 _ . -", maxName)
	}
	return k, named, nil
}

// ownerOf is the owner text of the key with this hash.
func ownerOf(sum [sha256.Size]byte) string { return hex.EncodeToString(sum[:8]) }

// sumKey hashes a key that is given in plain text.
func sumKey(text string) (sum [sha256.Size]byte, err error) {
	for i := range len(text) {
		if text[i] <= ' ' || text[i] > '~' {
			return sum, errors.New("has a key with other characters than printable ASCII without spaces")
		}
	}
	if len(text) < minKey {
		return sum, fmt.Errorf("has a key of %d characters, at least %d are needed", len(text), minKey)
	}
	return sha256.Sum256([]byte(text)), nil
}

// parseSum reads a key that is given as its hash.
func parseSum(text string) (sum [sha256.Size]byte, err error) {
	if n, err := hex.Decode(sum[:], []byte(text[:min(len(text), 2*len(sum))])); err != nil || n != len(sum) || len(text) != 2*n {
		return sum, errors.New("has a sha256 that is not 64 hex digits")
	}
	for _, nothing := range []string{"", "\n", "\r\n", " "} {
		if sum == sha256.Sum256([]byte(nothing)) {
			return sum, errors.New("has the sha256 of nothing: the variable that was hashed was empty")
		}
	}
	return sum, nil
}

// parseScopes reads a key's scopes, and the only queues that it may take from.
func parseScopes(text string) (all Scope, queues []string, err error) {
	for _, name := range strings.Split(text, "+") {
		if queue, ok := strings.CutPrefix(name, consumeOf); ok {
			if !mayBeTaken(queue) {
				return 0, nil, errors.New("has " + consumeOf + " with a name that no queue can have: 1 to 64 of A-Z a-z 0-9 _ . -, " +
					"not beginning with u_ or q_; or the id of a pull endpoint, as ep_123456789")
			}
			queues = append(queues, queue)
			continue
		}
		one, ok := scopes[name]
		if !ok {
			return 0, nil, errors.New("has an unknown scope: known are publish, read, bodies, tick, consume, consume@<queue> and admin, with + between")
		}
		all |= one
	}
	return all, queues, nil
}

// mayBeTaken reports whether a text may name a queue, or be the id of a pull endpoint.
func mayBeTaken(name string) bool {
	return dispatcher.ValidQueue(name) ||
		dispatcher.Lane(name).IsEndpoint() && name != dispatcher.EndpointPrefix && dispatcher.ValidLane(name)
}

func validName(s string) bool {
	for i := range len(s) {
		if !input.IsWordByte(s[i]) && s[i] != '.' {
			return false
		}
	}
	return s != "" && len(s) <= maxName
}

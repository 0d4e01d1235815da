package httpapi

import "sync/atomic"

// Keyring holds the keys that count now. It may be used from several
// goroutines.
type Keyring struct{ now atomic.Pointer[Keys] }

// NewKeyring makes a ring of keys; none: only this host may call.
func NewKeyring(keys Keys) *Keyring {
	r := &Keyring{}
	r.now.Store(&keys)
	return r
}

// Renew has other keys count from the next request on. To take the last one away
// would open the API to all, and is passed over.
func (r *Keyring) Renew(keys Keys) {
	if !keys.Empty() {
		r.now.Store(&keys)
	}
}

// keys are those that count now.
func (r *Keyring) keys() Keys { return *r.now.Load() }

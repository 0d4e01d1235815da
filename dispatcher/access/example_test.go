package access_test

import (
	"crypto/sha256"
	"fmt"

	"github.com/hookladder/hookladder/dispatcher/access"
)

// A link opens pages for a merchant until the API key of its maker is removed.
func ExampleKeys_OfLink() {
	key := access.NewKey("owner-1", sha256.Sum256([]byte("an API key")))
	token := key.NewLink()
	fmt.Println(len(token) == access.TokenLength, access.ValidLinkID(access.LinkID(token)))

	maker, ok := access.Keys{key}.OfLink(token)
	fmt.Println(maker.Owner, ok)

	_, ok = access.Keys{}.OfLink(token) // the key was removed
	fmt.Println(ok)
	_, ok = access.Keys{access.NewKey("owner-2", sha256.Sum256([]byte("another one")))}.OfLink(token)
	fmt.Println(ok)
	// Output:
	// true true
	// owner-1 true
	// false
	// false
}

// The record of a session is signed, so a record written by hand opens nothing.
func ExampleKey_SignSession() {
	key := access.NewKey("owner-1", sha256.Sum256([]byte("an API key")))
	signature := key.SignSession("owner-1", "2026-11-26T12:00:00Z")
	fmt.Println(access.Same(signature, key.SignSession("owner-1", "2026-11-26T12:00:00Z")))
	fmt.Println(access.Same(signature, key.SignSession("owner-1", "2036-11-26T12:00:00Z")))
	// Output:
	// true
	// false
}

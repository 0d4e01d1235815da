package dispatcher_test

import (
	"crypto/sha256"
	"fmt"

	"github.com/hookladder/hookladder/dispatcher"
)

// A link opens pages for a merchant until the API key of its maker is removed.
func ExampleAccessKeys_OfLink() {
	key := dispatcher.NewAccessKey("owner-1", sha256.Sum256([]byte("an API key")))
	token := key.NewLink()
	fmt.Println(len(token) == dispatcher.TokenLength, dispatcher.ValidLinkID(dispatcher.LinkID(token)))

	maker, ok := dispatcher.AccessKeys{key}.OfLink(token)
	fmt.Println(maker.Owner, ok)

	_, ok = dispatcher.AccessKeys{}.OfLink(token) // the key was removed
	fmt.Println(ok)
	_, ok = dispatcher.AccessKeys{dispatcher.NewAccessKey("owner-2", sha256.Sum256([]byte("another one")))}.OfLink(token)
	fmt.Println(ok)
	// Output:
	// true true
	// owner-1 true
	// false
	// false
}

// The record of a session is signed, so a record written by hand opens nothing.
func ExampleAccessKey_SignSession() {
	key := dispatcher.NewAccessKey("owner-1", sha256.Sum256([]byte("an API key")))
	signature := key.SignSession("owner-1", "2026-11-26T12:00:00Z")
	fmt.Println(dispatcher.SameToken(signature, key.SignSession("owner-1", "2026-11-26T12:00:00Z")))
	fmt.Println(dispatcher.SameToken(signature, key.SignSession("owner-1", "2036-11-26T12:00:00Z")))
	// Output:
	// true
	// false
}

package dispatcher_test

import (
	"crypto/sha256"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

func TestATokenHasOneHashAndOneID(t *testing.T) {
	require.Equal(t, "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824", dispatcher.HashToken("hello"))
	require.Equal(t, "lnk_ftze3os7wcrq4jxihmvm", dispatcher.LinkID("hello"))
	require.True(t, dispatcher.ValidLinkID(dispatcher.LinkID("")))
	for _, none := range []string{"", "lnk_", "lnk_ftze3os7wcrq4jxihmv", "lnk_ftze3os7wcrq4jxihmvma", "ep_ftze3os7wcrq4jxihmvm", "lnk_ftze3os7wcrq4jxihmv1", "lnk_ftze3os7wcrq 4jxihmv"} {
		require.False(t, dispatcher.ValidLinkID(none), "%q", none)
	}
}

func testKey(name string) dispatcher.AccessKey {
	return dispatcher.NewAccessKey(name, sha256.Sum256([]byte(name)))
}

var testKeys = dispatcher.AccessKeys{testKey("ops"), testKey("shop")}

func TestATokenIsOfItsKeyAndItsPurpose(t *testing.T) {
	for _, k := range testKeys {
		session, link := k.NewSession(), k.NewLink()
		require.Len(t, session, dispatcher.TokenLength)
		require.Len(t, link, dispatcher.TokenLength)
		require.NotEqual(t, link, k.NewLink())
		found, ok := testKeys.OfSession(session)
		require.True(t, ok)
		require.Equal(t, k, found)
		found, ok = testKeys.OfLink(link)
		require.True(t, ok)
		require.Equal(t, k, found)
		_, ok = testKeys.OfLink(session)
		require.False(t, ok, "a session is no link")
		_, ok = testKeys.OfSession(link)
		require.False(t, ok, "a link is no session")
		_, ok = dispatcher.AccessKeys{testKey("boss")}.OfLink(link)
		require.False(t, ok)
	}
	// The owner text alone makes none: the MAC has the whole hash.
	_, ok := testKeys.OfLink(dispatcher.NewAccessKey("ops", [32]byte{}).NewLink())
	require.False(t, ok)
}

func TestAMACIsOfItsKeyItsPurposeAndEachPart(t *testing.T) {
	k, other := testKey("ops"), testKey("shop")
	mac := k.SignLink("a", "b")
	require.True(t, dispatcher.SameToken(mac, k.SignLink("a", "b")))
	for _, different := range []string{other.SignLink("a", "b"), k.SignSession("a", "b"), k.SignLink("a"), k.SignLink("ab"), k.SignLink("b", "a"), ""} {
		require.False(t, dispatcher.SameToken(mac, different))
	}
}

// A token that was changed in any byte opens nothing.
func FuzzTokens(f *testing.F) {
	const session, link = "jyD3jRT8scD9geNblQW3mRCp8ORFyYtSKzSNfyumxrs", "qz_aqdxQhiazD_XtoFFvrsuty3ZusmtrwJ4C2bdCTq4" // of testKeys
	for _, seed := range []string{session, link, "", "x", session[1:], session + "=", session[:42] + "\n", strings.Repeat("A", 43), "AAAA" + strings.Repeat("\n", 39)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if _, ok := testKeys.OfSession(text); ok != (text == session) {
			t.Fatalf("session %q: %v", text, ok)
		}
		if _, ok := testKeys.OfLink(text); ok != (text == link) {
			t.Fatalf("link %q: %v", text, ok)
		}
	})
}

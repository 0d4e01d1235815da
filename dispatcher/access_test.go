package dispatcher_test

import (
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

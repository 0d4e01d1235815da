package dispatcher_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

func TestASubjectMakesAnotherMessage(t *testing.T) {
	plain := dispatcher.Message{Topic: "payment.paid", Tenant: "shop", URL: "https://a/", ContentType: "text/plain", Body: []byte("1")}
	about := plain
	about.Subject = "order 17"
	require.NotEqual(t, plain.Digest(), about.Digest())
	require.Equal(t, []string{"subject"}, about.Differs(&plain))
	require.Empty(t, about.Differs(&about))

	// A body may begin as a subject and its length do.
	forged := plain
	forged.Body = append([]byte{0, 0, 0, 8}, "order 171"...)
	require.NotEqual(t, about.Digest(), forged.Digest())
	forged.Body = append([]byte{0x80, 0, 0, 8}, "order 171"...)
	require.NotEqual(t, about.Digest(), forged.Digest())
}

// Digests are stored: of a message without a subject it is what it always was.
func TestTheDigestOfAMessageStays(t *testing.T) {
	m := dispatcher.Message{Topic: "payment.paid", Tenant: "shop", URL: "https://a/", ContentType: "text/plain", Body: []byte("1")}
	require.Equal(t, "03fabf690f1e410e4f3b5705bf4162b8", fmt.Sprintf("%x", m.Digest()))
}

package dispatcher_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode"

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

func TestSubjectsAreFoundByTheNumberThatPeopleSay(t *testing.T) {
	for want, subjects := range map[string][]string{
		"8713":        {"8713", "#8713", "order 8713", "ORDER_8713", "order_8713", "Bestellung №8713", "2026-11/order-8713", "order_8713_a1", "8713-2", "8713/x9"},
		"a1":          {"order_a1", "ORDER A1", "12-a1"},
		"12":          {"order 12", "a-12", "12"},
		"order8713":   {"order8713", "Order8713", "x order8713"},
		"":            {""},
		"ordre été":   {"Ordre Été", "ORDRE ÉTÉ"},
		"#":           {"#"},
		"٣٤٥":         {"طلب ٣٤٥"},
		"the refund ": {"The refund "},
	} {
		for _, subject := range subjects {
			require.Equal(t, want, dispatcher.SubjectToken(subject), "%q", subject)
		}
	}
}

func TestANumberIsFoundByItsLastDigits(t *testing.T) {
	for subject, want := range map[string]string{
		"order_104711": "4711", "4711": "4711", "№ 94711": "4711", "cus_8f3a4711": "4711", "order 4711-2": "4711",
		"order_711": "", "47111x": "", "": "", "12": "", "طلب ٣٤٥٦": "", "order 104711 2026": "2026",
	} {
		require.Equal(t, want, dispatcher.LastDigits(dispatcher.SubjectToken(subject)), "%q", subject)
	}
	require.True(t, dispatcher.SubjectEnds([]string{"9999", "04711"}, "Order #104711"))
	require.False(t, dispatcher.SubjectEnds([]string{"94711"}, "Order #104711"))
	require.True(t, dispatcher.IsLastDigits("0471"))
	for _, s := range []string{"", "471", "4711a", " 4711", "٣٤٥٦"} {
		require.False(t, dispatcher.IsLastDigits(s), "%q", s)
	}
}

func FuzzSubjectToken(f *testing.F) {
	for _, subject := range []string{"order_8713", "ORDER 12", "", "a b", "№ 7", "\xff1"} {
		f.Add(subject)
	}
	f.Fuzz(func(t *testing.T, subject string) {
		token := dispatcher.SubjectToken(subject)
		require.Equal(t, token, dispatcher.SubjectToken(token), "a token is found by itself")
		require.Equal(t, subject == "", token == "")
		require.Contains(t, strings.ToLower(subject), token)
		if strings.ContainsFunc(token, unicode.IsDigit) {
			require.Equal(t, token, dispatcher.SubjectToken("# "+token+"!"), "what is around it does not matter")
		}
	})
}

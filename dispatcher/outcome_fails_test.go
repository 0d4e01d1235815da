package dispatcher_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

func TestALaneFailsByWhatItsReceiverDoes(t *testing.T) {
	for name, c := range map[string]struct {
		answer dispatcher.Answer
		fails  bool
	}{
		"a success":               {dispatcher.Answer{Status: 200}, false},
		"a 500":                   {dispatcher.Answer{Status: 500}, true},
		"a 404":                   {dispatcher.Answer{Status: 404}, true},
		"a redirect":              {dispatcher.Answer{Status: 301}, true},
		"a 503 that asks to wait": {dispatcher.Answer{Status: 503, RetryAfter: "60"}, true},
		"a 429":                   {dispatcher.Answer{Status: 429}, false},
		"a rejected delivery":     {dispatcher.Answer{Status: 500, Rejected: true}, false},
		"no answer":               {dispatcher.Answer{Class: dispatcher.ClassTimeout}, true},
		"an unknown name":         {dispatcher.Answer{Class: dispatcher.ClassDNS}, true},
		"a fault of ours":         {dispatcher.Answer{Class: dispatcher.ClassInternal}, false},
		"an address we refuse":    {dispatcher.Answer{Class: dispatcher.ClassRefused}, false},
		"an expired one":          {dispatcher.Answer{Class: dispatcher.ClassExpired}, false},
	} {
		require.Equal(t, c.fails, dispatcher.Judge(newTestCase(t, c.answer)).Fails, name)
	}
}

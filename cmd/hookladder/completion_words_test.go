package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/client"
)

// completionWords are what a source of these texts offers behind a prefix.
func completionWords(t testing.TB, prefix string, texts ...string) (found []string) {
	t.Helper()
	from := func(context.Context, *client.Client) (list []completionWord, err error) {
		for _, text := range texts {
			list = append(list, completionWord{Text: text})
		}
		return list, nil
	}
	for _, w := range askForWords(t.Context(), func() (*client.Client, error) { return nil, nil }, from, prefix) {
		found = append(found, w.Text)
	}
	return found
}

// Others choose subjects, tenants and uids. Enter runs the line that Tab has completed.
func TestNoWordIsOfferedThatAShellWouldNotTakeAsItIs(t *testing.T) {
	odd := []string{
		"", "$(reboot)", "`reboot`", "a b", "a;reboot", "a|b", "a&", "a>b", "<(x)", "*", "a?", "[a]", "{a,b}", "~", "!!", "#a", `a\`, `"a`, "'a",
		"-rf", "--all", "=ls", "é", "a\nb", "a\tb", "\x1b[2J",
	}
	require.Empty(t, completionWords(t, "", odd...))
	plain := []string{"order_17", "a.b", "u_x-1", "key:ops", "a=b", "7/8", "a@b.example", "a+b,c%"}
	require.Equal(t, plain, completionWords(t, "", plain...))
}

func TestWordsBeginAsWhatWasTypedAndComeOnce(t *testing.T) {
	require.Equal(t, []string{"order_1", "order_2"}, completionWords(t, "ord", "order_1", "bill_1", "order_1", "order_2", "Order_3"))
}

func TestAHundredWordsAreOffered(t *testing.T) {
	var many []string
	for n := range 150 {
		many = append(many, fmt.Sprint("m", n))
	}
	require.Equal(t, many[:100], completionWords(t, "m", many...))
}

func TestADescriptionIsAShortLine(t *testing.T) {
	from := func(context.Context, *client.Client) ([]completionWord, error) {
		return []completionWord{{Text: "a", Says: "x\ty\nz\x1b[2J "}, {Text: "b", Says: strings.Repeat("é", 200)}}, nil
	}
	found := askForWords(t.Context(), func() (*client.Client, error) { return nil, nil }, from, "")
	require.Equal(t, []completionWord{{Text: "a", Says: `x\u{9}y\u{a}z\u{1b}[2J`}, {Text: "b", Says: strings.Repeat("é", 80) + "…"}}, found)
}

func TestAServerThatDoesNotAnswerInTimeOffersNothing(t *testing.T) {
	gone := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done() // the caller has hung up
		close(gone)
	}))
	t.Cleanup(server.Close)
	dial := func() (*client.Client, error) { return client.New(server.URL, "") }
	require.Empty(t, askForWords(t.Context(), dial, endpointWords(), ""))
	<-gone
}

// A key may come from a pipe to which nothing is written.
func TestAKeyThatCannotBeReadHoldsNothingUp(t *testing.T) {
	end := make(chan struct{})
	t.Cleanup(func() { close(end) })
	dial := func() (*client.Client, error) { <-end; return nil, errors.New("late") }
	require.Empty(t, askForWords(t.Context(), dial, endpointWords(), ""))
}

func TestARefusalOffersNothing(t *testing.T) {
	for _, status := range []int{401, 403, 404, 500, 503, 200} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte("not what was asked for"))
		}))
		t.Cleanup(server.Close)
		for _, from := range []completionSource{
			messageWords(), topicWords(), tenantWords(), subjectWords(), endpointWords(), destinationWords(), jobWords(),
		} {
			require.Empty(t, askForWords(t.Context(), func() (*client.Client, error) {
				return client.New(server.URL, "", client.WithRepeats(client.Repeats{Tries: 1}))
			}, from, ""))
		}
	}
}

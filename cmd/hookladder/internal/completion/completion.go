// Package completion queries a running server for words that complete an argument or the
// value of a flag, and prints the scripts of shells.
package completion

import (
	"context"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hookladder/hookladder/cmd/hookladder/internal/term"
	"github.com/hookladder/hookladder/dispatcher/client"
)

const (
	// patience is the time limit of a query: a person waits for the shell.
	patience = time.Second
	// most is the number of words: a screen does not show more.
	most = 100
	// longest is the length of a description: half of a line on a wide screen.
	longest = 80
)

// Word is a completion with its description.
type Word struct{ Text, Says string }

// Source reads words from a server, the likely ones first. It changes nothing there.
type Source func(ctx context.Context, c *client.Client) ([]Word, error)

// Ask reads the words of a source that begin with prefix, each of them once. If the server
// does not respond in time, or returns an error, there are none: a prompt shows no errors.
func Ask(ctx context.Context, dial func() (*client.Client, error), from Source, prefix string) []Word {
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	answer := make(chan []Word, 1)
	go func() { // the file of a key may be a pipe, and no context ends its reading
		c, err := dial()
		if err != nil {
			answer <- nil
			return
		}
		words, err := from(ctx, c)
		if err != nil {
			words = nil
		}
		answer <- words
	}()
	select {
	case <-ctx.Done():
		return nil
	case words := <-answer:
		return choose(words, prefix)
	}
}

// choose selects words that need no quotes in a command line.
func choose(words []Word, prefix string) []Word {
	var chosen []Word
	known := map[string]bool{}
	for _, w := range words {
		if len(chosen) == most {
			break
		}
		if known[w.Text] || !strings.HasPrefix(w.Text, prefix) || !plain(w.Text) {
			continue
		}
		known[w.Text] = true
		chosen = append(chosen, Word{w.Text, shown(w.Says)})
	}
	return chosen
}

// plain reports whether a word needs no quotes. Callers of the API choose subjects and
// tenants, and a shell would execute one such as $(reboot).
func plain(text string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	return text != "" && strings.Trim(text, letters+"_.@%+/:,-=") == "" && strings.IndexAny(text, "-=") != 0
}

// shown is a description in one short line.
func shown(text string) string {
	text = term.Visible(strings.TrimSpace(text))
	if utf8.RuneCountInString(text) <= longest {
		return text
	}
	return string([]rune(text)[:longest]) + "…"
}

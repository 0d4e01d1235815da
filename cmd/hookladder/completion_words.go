package main

import (
	"context"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hookladder/hookladder/dispatcher/client"
)

const (
	// completionPatience is the time limit of a query: a person waits for the shell.
	completionPatience = time.Second
	// mostWords is the number of words: a screen does not show more.
	mostWords = 100
	// longestWord is the length of a description: half of a line on a wide screen.
	longestWord = 80
)

// completionWord is a completion with its description.
type completionWord struct{ Text, Says string }

// completionSource reads words from a server, the likely ones first. It changes nothing there.
type completionSource func(ctx context.Context, c *client.Client) ([]completionWord, error)

// askForWords reads the words of a source that begin with prefix, each of them once. If the server
// does not respond in time, or returns an error, there are none: a prompt shows no errors.
func askForWords(ctx context.Context, dial func() (*client.Client, error), from completionSource, prefix string) []completionWord {
	ctx, stop := context.WithTimeout(ctx, completionPatience)
	defer stop()
	answer := make(chan []completionWord, 1)
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
		return chooseWords(words, prefix)
	}
}

// chooseWords selects words that need no quotes in a command line.
func chooseWords(words []completionWord, prefix string) []completionWord {
	var chosen []completionWord
	known := map[string]bool{}
	for _, w := range words {
		if len(chosen) == mostWords {
			break
		}
		if known[w.Text] || !strings.HasPrefix(w.Text, prefix) || !plainWord(w.Text) {
			continue
		}
		known[w.Text] = true
		chosen = append(chosen, completionWord{w.Text, shownWord(w.Says)})
	}
	return chosen
}

// plainWord reports whether a word needs no quotes. Callers of the API choose subjects and
// tenants, and a shell would execute one such as $(reboot).
func plainWord(text string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	return text != "" && strings.Trim(text, letters+"_.@%+/:,-=") == "" && strings.IndexAny(text, "-=") != 0
}

// shownWord is a description in one short line.
func shownWord(text string) string {
	text = visible(strings.TrimSpace(text))
	if utf8.RuneCountInString(text) <= longestWord {
		return text
	}
	return string([]rune(text)[:longestWord]) + "…"
}

// Package offer finds the words that a shell may complete an argument or a flag's
// value with: what a running server has.
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
	// patience is how long a person waits for a shell, at most.
	patience = time.Second
	// most is how many words are offered: a screen does not hold more.
	most = 100
	// longest is how much of a description is shown: half of a wide screen's line.
	longest = 80
)

// Word is what may be completed, and what it is.
type Word struct{ Text, Says string }

// Source reads words from a server, those first that are likely meant. It changes
// nothing there.
type Source func(ctx context.Context, c *client.Client) ([]Word, error)

// Ask reads those words of a source that begin with prefix, each once. It answers none
// where the server does not answer in time, or refuses: a prompt is no place for errors.
func Ask(ctx context.Context, dial func() (*client.Client, error), from Source, prefix string) []Word {
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	answer := make(chan []Word, 1)
	go func() { // the file of a key may be a pipe, whose reading ends with no context
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

// choose picks what may stand in a command line as it is.
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

// plain reports whether a shell takes a word as it is. Callers choose subjects and
// tenants: one such as $(reboot) would be run with the line that it completes.
func plain(text string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	return text != "" && strings.Trim(text, letters+"_.@%+/:,-=") == "" && strings.IndexAny(text, "-=") != 0
}

// shown is a description as one short line.
func shown(text string) string {
	text = term.Visible(strings.TrimSpace(text))
	if utf8.RuneCountInString(text) <= longest {
		return text
	}
	return string([]rune(text)[:longest]) + "…"
}

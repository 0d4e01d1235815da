package main

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// addCompletion adds cobra's command with the scripts for shells. It writes to the output that root
// has now.
func addCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() != "completion" {
			continue
		}
		cmd.Short = "Print the completion script for a shell"
		cmd.Example = "  source <(hookladder completion bash)"
		cmd.Args = noArgs
		cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		for _, shell := range cmd.Commands() {
			shell.Example = "  " + shell.CommandPath()
		}
	}
}

// completes makes shells complete the values of a flag.
func completes(cmd *cobra.Command, flag string, values ...string) {
	complete := oneOf(values...)
	if cmd.Flags().Lookup(flag).Value.Type() == "stringSlice" {
		complete = behindCommas(complete)
	}
	register(cmd, flag, complete)
}

// behindCommas completes each word of a list.
func behindCommas(complete cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		before := word[:strings.LastIndex(word, ",")+1]
		found, how := complete(cmd, args, word[len(before):])
		for i := range found {
			found[i] = before + found[i]
		}
		return found, how
	}
}

func register(cmd *cobra.Command, flag string, complete cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, complete); err != nil {
		panic(err) // the flag is missing, or was registered before
	}
}

// complete makes shells complete the arguments and flags of cmd and its subcommands. A
// command may have registered some flags itself.
func (s world) complete(cmd *cobra.Command) {
	flags, arguments := s.completions()
	if cmd.ValidArgsFunction == nil && len(cmd.ValidArgs) == 0 {
		cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
			kinds := strings.Fields(cmd.Use)[1:]
			if len(args) >= len(kinds) || arguments[kinds[len(args)]] == nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return arguments[kinds[len(args)]](cmd, args, word)
		}
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if _, known := cmd.GetFlagCompletionFunc(f.Name); known || f.Value.Type() == "bool" {
			return
		}
		switch complete := flags[f.Name]; {
		case complete != nil:
			register(cmd, f.Name, complete)
		case strings.HasSuffix(f.Name, "file"):
			register(cmd, f.Name, oneOfFiles)
		default:
			completes(cmd, f.Name) // otherwise a shell would complete files
		}
	})
	for _, below := range cmd.Commands() {
		s.complete(below)
	}
}

// completions returns the functions for flags, by name, and for arguments, by their name in Use.
func (s world) completions() (flags, arguments map[string]cobra.CompletionFunc) {
	unfinished := texts(dispatcher.StatusScheduled, dispatcher.StatusReady, dispatcher.StatusInFlight, dispatcher.StatusRetrying)
	messages, destinations, endpoints := s.asks(messageWords()), s.asks(destinationWords()), s.asks(endpointWords())
	byCommand := func(of map[string]cobra.CompletionFunc, usual cobra.CompletionFunc) cobra.CompletionFunc {
		return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
			if special := of[strings.TrimPrefix(cmd.CommandPath(), "hookladder ")]; special != nil {
				return special(cmd, args, word)
			}
			return usual(cmd, args, word)
		}
	}
	flags = map[string]cobra.CompletionFunc{
		"by":           oneOf(dispatcher.System, dispatcher.Local),
		"content-type": oneOf("application/json", "application/xml", "application/x-www-form-urlencoded", "text/plain", "text/xml"),
		"destination":  destinations,
		"endpoint":     endpoints,
		"job":          s.asks(jobWords()),
		"message":      messages,
		"save":         oneOfFiles,
		"status":       oneOf(texts(dispatcher.Statuses()...)...),
		"subject":      s.asks(subjectWords()),
		"target":       endpoints,
		"tenant":       s.asks(tenantWords()),
		"topic":        s.asks(topicWords()),
	}
	ids := byCommand(map[string]cobra.CompletionFunc{"cancel": s.asks(messageWords(unfinished...))}, messages)
	arguments = map[string]cobra.CompletionFunc{
		"<destination>": destinations,
		"<endpoint>":    endpoints,
		"[<file>]":      oneOfFiles,
		"<id>":          ids,
		"[<id>]":        ids,
		"<job>": byCommand(map[string]cobra.CompletionFunc{
			"jobs stop":   s.asks(jobWords("running", "waiting")),
			"jobs resume": s.asks(jobWords("stopped", "failed")),
		}, s.asks(jobWords())),
		"<link>": s.asks(linkWords()),
	}
	return flags, arguments
}

// oneOf returns a completion of fixed words.
func oneOf(words ...string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, word string) (found []string, _ cobra.ShellCompDirective) {
		for _, w := range words {
			if strings.HasPrefix(w, word) {
				found = append(found, w)
			}
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

// oneOfFiles lets the shell complete files.
func oneOfFiles(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveDefault
}

// asks returns a completion that queries the server. Commands that call no server complete
// nothing.
func (s world) asks(from completionSource) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, word string) (found []string, _ cobra.ShellCompDirective) {
		server, keyFile := cmd.Flags().Lookup("server"), cmd.Flags().Lookup("key-file")
		if server == nil || keyFile == nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		to := clientFlags{
			vars: s.vars(), server: server.Value.String(), keyFile: keyFile.Value.String(),
			repeats: client.Repeats{Tries: 1}, // no retry, because the person presses Tab again
		}
		for _, w := range askForWords(cmd.Context(), to.client, from, word) {
			found = append(found, cobra.CompletionWithDesc(w.Text, w.Says))
		}
		return found, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// anyOf returns words for a help text: a, b or c.
func anyOf[T ~string](words []T) string {
	plain, last := texts(words...), len(words)-1
	return strings.Join(plain[:last], ", ") + " or " + plain[last]
}

// texts returns words as strings.
func texts[T ~string](words ...T) []string {
	plain := make([]string, len(words))
	for i, w := range words {
		plain[i] = string(w)
	}
	return plain
}

// messageWords are the ids of the newest messages with deliveries of these statuses; no status
// means all.
func messageWords(statuses ...string) completionSource {
	return deliveryWords(statuses, func(d wire.Delivery) completionWord {
		_, message, _ := strings.Cut(d.ID, ":")
		return completionWord{message, d.Topic + " " + d.Status}
	})
}

// topicWords are the topics of the newest messages.
func topicWords() completionSource {
	return deliveryWords(nil, func(d wire.Delivery) completionWord { return completionWord{Text: d.Topic} })
}

// tenantWords are the tenants of the newest messages.
func tenantWords() completionSource {
	return deliveryWords(nil, func(d wire.Delivery) completionWord { return completionWord{Text: d.Tenant} })
}

// subjectWords are the subjects of the newest messages.
func subjectWords() completionSource {
	return deliveryWords(nil, func(d wire.Delivery) completionWord { return completionWord{d.Subject, d.Topic + " " + d.Status} })
}

func deliveryWords(statuses []string, word func(wire.Delivery) completionWord) completionSource {
	return func(ctx context.Context, c *client.Client) ([]completionWord, error) {
		page, err := c.Deliveries(ctx, client.Filter{Statuses: statuses, Limit: mostWords})
		if err != nil {
			return nil, err
		}
		var words []completionWord
		for _, d := range page.Data {
			words = append(words, word(d))
		}
		return words, nil
	}
}

// endpointWords are their ids and uids.
func endpointWords() completionSource {
	return func(ctx context.Context, c *client.Client) ([]completionWord, error) {
		page, err := c.Endpoints(ctx, client.EndpointFilter{Limit: mostWords})
		if err != nil {
			return nil, err
		}
		return namedWords(page.Data, func(e wire.EndpointView) (string, string, string) {
			return e.UID, e.ID, e.URL + " " + e.State
		}), nil
	}
}

// destinationWords are the lanes, and the uids of endpoints.
func destinationWords() completionSource {
	return func(ctx context.Context, c *client.Client) ([]completionWord, error) {
		page, err := c.Lanes(ctx, mostWords, "")
		if err != nil {
			return nil, err
		}
		return namedWords(page.Data, func(l wire.LaneState) (string, string, string) {
			return l.UID, l.Lane, cmp.Or(l.URL, "all") + " " + l.State + " " + l.Tenant
		}), nil
	}
}

// namedWords are first the uids, then the ids.
func namedWords[T any](list []T, of func(T) (uid, id, says string)) []completionWord {
	var uids, ids []completionWord
	for _, one := range list {
		uid, id, says := of(one)
		uids, ids = append(uids, completionWord{uid, says}), append(ids, completionWord{id, says})
	}
	return append(uids, ids...)
}

// jobWords are the jobs in one of these states; no state means all.
func jobWords(states ...string) completionSource {
	return func(ctx context.Context, c *client.Client) ([]completionWord, error) {
		page, err := c.Jobs(ctx, mostWords, "")
		if err != nil {
			return nil, err
		}
		var words []completionWord
		for _, j := range page.Data {
			if len(states) == 0 || slices.Contains(states, j.State) {
				words = append(words, completionWord{j.ID, j.Kind + " " + j.State})
			}
		}
		return words, nil
	}
}

// linkWords are the links that have not expired.
func linkWords() completionSource {
	return func(ctx context.Context, c *client.Client) ([]completionWord, error) {
		page, err := c.Links(ctx, mostWords, "")
		if err != nil {
			return nil, err
		}
		words := make([]completionWord, len(page.Data))
		for i, l := range page.Data {
			words[i] = completionWord{l.ID, strings.TrimSpace(l.Tenant + " " + l.Name)}
		}
		return words, nil
	}
}

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

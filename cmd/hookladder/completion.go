package main

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/client"
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

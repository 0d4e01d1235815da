package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hookladder/hookladder/cmd/hookladder/internal/completion"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/client"
)

func newCompletion(world) *cobra.Command {
	return &cobra.Command{
		Use:   "completion <shell>",
		Short: "Print the script that makes a shell complete commands, flags and values",
		Long: `Prints a script for bash, zsh, fish or powershell. With it Tab completes commands and
flags, values that are one of a few, files, and what a running Hookladder has: ids of
messages and jobs, endpoints, lanes, topics, tenants and subjects. It is asked as the
command itself would ask: with --server and --key-file where the line has them, else
with HOOKLADDER_URL and HOOKLADDER_KEY. Tab changes nothing there, waits for a second
at most, and offers nothing where no answer comes.

To install it:

  bash        echo 'source <(hookladder completion bash)' >> ~/.bashrc
  zsh         echo 'autoload -U compinit; compinit; source <(hookladder completion zsh)' >> ~/.zshrc
  fish        hookladder completion fish > ~/.config/fish/completions/hookladder.fish
  powershell  add to $PROFILE: hookladder completion powershell | Out-String | Invoke-Expression

Then open a new shell. What is installed so completes the commands of any later version.
For all users of a machine, package it as one file, such as
/usr/share/bash-completion/completions/hookladder, or _hookladder in a folder of zsh's $fpath.`,
		Example: `  source <(hookladder completion bash)
  hookladder completion fish | source`,
		ValidArgs: slices.Clone(completion.Shells),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || !slices.Contains(completion.Shells, args[0]) {
				return usagef("completion needs one shell: %s; see hookladder completion --help", strings.Join(completion.Shells, ", "))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return completion.Script(cmd.Root(), args[0], cmd.OutOrStdout())
		},
	}
}

// completes has a shell offer the values of a flag.
func completes(cmd *cobra.Command, flag string, values ...string) {
	offers := oneOf(values...)
	if cmd.Flags().Lookup(flag).Value.Type() == "stringSlice" {
		offers = behindCommas(offers)
	}
	register(cmd, flag, offers)
}

// behindCommas offers the same for each word of a list.
func behindCommas(offers cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		before := word[:strings.LastIndex(word, ",")+1]
		found, how := offers(cmd, args, word[len(before):])
		for i := range found {
			found[i] = before + found[i]
		}
		return found, how
	}
}

func register(cmd *cobra.Command, flag string, offers cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, offers); err != nil {
		panic(err) // there is no such flag, or it was given before
	}
}

// complete has shells offer the arguments and the values of the flags of cmd, and of
// the commands below it. What a command says of its own flags stands.
func (s world) complete(cmd *cobra.Command) {
	flags, arguments := s.offers()
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
		switch offers := flags[f.Name]; {
		case offers != nil:
			register(cmd, f.Name, offers)
		case strings.HasSuffix(f.Name, "file"):
			register(cmd, f.Name, oneOfFiles)
		default:
			completes(cmd, f.Name) // else a shell would offer files
		}
	})
	for _, below := range cmd.Commands() {
		s.complete(below)
	}
}

// offers are what shells offer for values of flags, by the flag's name, and for
// arguments, by what Use calls them.
func (s world) offers() (flags, arguments map[string]cobra.CompletionFunc) {
	unfinished := texts(dispatcher.StatusScheduled, dispatcher.StatusReady, dispatcher.StatusInFlight, dispatcher.StatusRetrying)
	messages, destinations, endpoints := s.asks(completion.Messages()), s.asks(completion.Destinations()), s.asks(completion.Endpoints())
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
		"job":          s.asks(completion.Jobs()),
		"json":         oneOfFiles, // where it is no switch
		"message":      messages,
		"reason":       oneOf(texts(dispatcher.DeadReasons...)...),
		"redis-server": oneOfFiles,
		"save":         oneOfFiles,
		"status":       oneOf(texts(dispatcher.Statuses...)...),
		"subject":      s.asks(completion.Subjects()),
		"target":       endpoints,
		"tenant":       s.asks(completion.Tenants()),
		"topic":        s.asks(completion.Topics()),
	}
	ids := byCommand(map[string]cobra.CompletionFunc{"cancel": s.asks(completion.Messages(unfinished...))}, messages)
	arguments = map[string]cobra.CompletionFunc{
		"<destination>": destinations,
		"<endpoint>":    endpoints,
		"[<file>]":      oneOfFiles,
		"<id>":          ids,
		"[<id>]":        ids,
		"<job>": byCommand(map[string]cobra.CompletionFunc{
			"jobs stop":   s.asks(completion.Jobs("running", "waiting")),
			"jobs resume": s.asks(completion.Jobs("stopped", "failed")),
		}, s.asks(completion.Jobs())),
		"<link>": s.asks(completion.Links()),
	}
	return flags, arguments
}

// oneOf offers fixed words.
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

// oneOfFiles leaves it to the shell.
func oneOfFiles(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveDefault
}

// asks offers what the server has that the line is for. A command that calls none has
// nothing to offer.
func (s world) asks(from completion.Source) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, word string) (found []string, _ cobra.ShellCompDirective) {
		server, keyFile := cmd.Flags().Lookup("server"), cmd.Flags().Lookup("key-file")
		if server == nil || keyFile == nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		to := clientFlags{
			vars: s.vars(), server: server.Value.String(), keyFile: keyFile.Value.String(),
			repeats: client.Repeats{Tries: 1}, // the person presses Tab again
		}
		for _, w := range completion.Ask(cmd.Context(), to.client, from, word) {
			found = append(found, cobra.CompletionWithDesc(w.Text, w.Says))
		}
		return found, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// anyReason is the reasons of death for a help text.
var anyReason = anyOf(dispatcher.DeadReasons)

// anyOf is a list of words for a help text: a, b or c.
func anyOf[T ~string](words []T) string {
	plain, last := texts(words...), len(words)-1
	return strings.Join(plain[:last], ", ") + " or " + plain[last]
}

// texts are words as plain texts.
func texts[T ~string](words ...T) []string {
	plain := make([]string, len(words))
	for i, w := range words {
		plain[i] = string(w)
	}
	return plain
}

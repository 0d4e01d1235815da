package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// completionShells are those that there is a script for.
var completionShells = []string{"bash", "zsh", "fish", "powershell"}

// scriptChange is one of a script that cobra makes.
type scriptChange struct{ old, now string }

// scriptChanges fix the scripts of cobra. Words of the line are expanded, so that
// --server "$URL" is understood. A command among them would be run at each Tab,
// whatever it does: so a line with one is not expanded.
var scriptChanges = map[string][]scriptChange{
	"bash": {
		// cobra needs the package bash-completion here, which many machines lack.
		{`    _get_comp_words_by_ref "$@" cur prev words cword`, `    local i word rest=$COMP_LINE
    words=()
    for ((i = 0; i <= COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        # bash breaks words at = and : too: what no space parts is one word.
        if ((i == 0)) || [[ $rest == [[:space:]]* ]]; then
            words+=("$word")
        else
            words[${#words[@]}-1]+=$word
        fi
        rest=${rest#"${rest%%[![:space:]]*}"}
        rest=${rest#"$word"}
    done
    cword=$((${#words[@]} - 1))
    cur=${words[cword]}
    prev=${words[cword > 0 ? cword - 1 : 0]}`},
		{expandingLine, `    # A line with commands in it is taken as it is: to run them is not ours.
    case ${args[*]} in
    *'$('*|*'` + "`" + `'*|*'<('*|*'>('*)
        printf -v requestComp ' %q' "${args[@]}"
        requestComp="${words[0]} __complete${requestComp}"
        ;;
    esac

` + expandingLine},
	},
	"zsh": {{expandingLine, `    # A line with commands in it is not completed: to run them is not ours.
    case "${words[2,-1]}" in
    *'$('*|*'` + "`" + `'*|*'<('*|*'>('*|*'=('*) return ;;
    esac

` + expandingLine}},
	"fish": {{`    __hookladder_debug "Calling $requestComp"`, `    # A line with commands in it is taken as it is: to run them is not ours.
    if string match -q -- '*(*' "$args"
        set requestComp "$args[1] __complete" (string escape -- $args[2..-1]) $lastArg
    end

    __hookladder_debug "Calling $requestComp"`}},
}

// expandingLine is the line before bash and zsh expand words.
const expandingLine = "    # Use eval to handle any environment variables and such\n"

// writeCompletion writes the script with which a shell completes the commands of root.
func writeCompletion(root *cobra.Command, shell string, out io.Writer) error {
	var made bytes.Buffer
	err := fmt.Errorf("no completion for %q", shell)
	switch shell {
	case "bash":
		err = root.GenBashCompletionV2(&made, true)
	case "zsh":
		err = root.GenZshCompletion(&made)
	case "fish":
		err = root.GenFishCompletion(&made, true)
	case "powershell":
		err = root.GenPowerShellCompletionWithDesc(&made)
	}
	if err != nil {
		return err
	}
	text := made.String()
	for _, c := range scriptChanges[shell] {
		if strings.Count(text, c.old) != 1 {
			return fmt.Errorf("the script for %s is another now, without %q", shell, c.old)
		}
		text = strings.Replace(text, c.old, c.now, 1)
	}
	_, err = io.WriteString(out, text)
	return err
}

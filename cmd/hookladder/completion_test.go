package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/client"
)

// offered is what a shell gets for a line whose last word is not whole, without the
// descriptions.
func offered(t testing.TB, environ []string, line string) (words []string) {
	t.Helper()
	got := command(t, environ, "", append([]string{"__complete"}, strings.Split(line, " ")...)...)
	require.Equal(t, exitOK, got.code, got.err)
	for text := range strings.Lines(got.out) {
		word, _, _ := strings.Cut(strings.TrimSuffix(text, "\n"), "\t")
		words = append(words, word)
	}
	return append([]string(nil), words[:len(words)-1]...) // the last line tells the shell how to go on
}

// untilOffered is for words that a server is asked for: a busy machine may not answer in the time that a
// person waits, and then none is offered.
func untilOffered(t testing.TB, want []string, environ []string, line string) {
	t.Helper()
	require.NoError(t, kit.Until(t.Context(), line+" is completed", func() error {
		if got := offered(t, environ, line); !slices.Equal(want, got) {
			return fmt.Errorf("%q and not %q is offered", got, want)
		}
		return nil
	}))
}

func TestTheShellIsOfferedTheValuesOfFlags(t *testing.T) {
	t.Parallel()
	for line, want := range map[string][]string{
		"listen --signature ":                 schemeNames(),
		"listen --signature=st":               {"standard", "standard-ed25519", "stripe"},
		"verify --signature ":                 schemeNames(),
		"endpoints create --signature ":       schemeNames(),
		"endpoints update m --signature ":     schemeNames(),
		"secret --scheme ":                    schemeNames(),
		"listen --status 4":                   {"400", "410", "429"},
		"endpoints update m --unset rate,su":  {"rate,success"},
		"completion ":                         {"bash", "fish", "powershell", "zsh"},
		"deliveries --status ":                texts(dispatcher.Statuses()...),
		"endpoints deliveries m --status ":    texts(dispatcher.EndStatuses()...),
		"deliveries --dead-reason ":           texts(dispatcher.DeadReasons()...),
		"dead --dead-reason ex":               {"exhausted", "expired"},
		"tail --outcome ":                     texts(dispatcher.Happenings()...),
		"audit --what endpoint.de":            {"endpoint.delete"},
		"endp":                                {"endpoints"},
		"endpoints up":                        {"update"},
		"send --deli":                         {"--deliver-at"},
		"send --topic a.b --content-type app": {"application/json", "application/xml", "application/x-www-form-urlencoded"},
	} {
		require.Equal(t, want, offered(t, nil, line), line)
	}
}

// Without its own word a shell offers files, which are meant by few flags.
func TestOnlyWhereAFileIsMeantFilesAreOffered(t *testing.T) {
	t.Parallel()
	var walk func(cmd *cobra.Command)
	var files []string
	walk = func(cmd *cobra.Command) {
		line := strings.TrimPrefix(cmd.CommandPath()+" ", "hookladder ")
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Value.Type() == "bool" {
				return
			}
			got := command(t, []string{"HOOKLADDER_URL=http://127.0.0.1:1"}, "", append([]string{"__complete"}, append(strings.Fields(line+"--"+f.Name), "")...)...)
			if strings.HasSuffix(got.out, ":0\n") {
				files = append(files, f.Name)
			}
		})
		for _, below := range cmd.Commands() {
			walk(below)
		}
	}
	walk(newRoot(world{}))
	for _, name := range files {
		require.Regexp(t, `^(key-file|secret-file|body-file|file|save|samples)$`, name)
	}
	for _, name := range []string{"key-file", "secret-file", "body-file", "save", "samples"} {
		require.Contains(t, files, name)
	}
}

func TestTheShellIsOfferedWhatTheServerHas(t *testing.T) {
	t.Parallel()
	const key = "hk_0123456789abcdef"
	file := filepath.Join(t.TempDir(), "key")
	mustWrite(t, file, key+"\n")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.Header.Get("Authorization") != "Bearer "+key {
			t.Errorf("%s %s with %q", r.Method, r.URL, r.Header.Get("Authorization"))
		}
		_, _ = io.WriteString(w, map[string]string{
			"/v1/deliveries?limit=100": `{"data":[{"id":"u_1:order_1","topic":"order.paid","tenant":"m7","subject":"bill-9","status":"dead"},
				{"id":"ep_1:order_1","topic":"order.paid","tenant":"m8","subject":"$(reboot)","status":"ready"},{"id":"u_1:pay_2","topic":"pay.made","status":"delivered"}]}`,
			"/v1/deliveries?limit=100&status=scheduled&status=ready&status=in_flight&status=retrying": `{"data":[{"id":"ep_1:order_1","status":"ready"}]}`,
			"/v1/endpoints?limit=100": `{"data":[{"id":"ep_1","uid":"shop-1","url":"https://a.example"},{"id":"ep_2","url":"https://b.example"}]}`,
			"/v1/lanes?limit=100":     `{"data":[{"lane":"*"},{"lane":"u_1","url":"https://a.example"},{"lane":"ep_1","uid":"shop-1"}]}`,
			"/v1/jobs?limit=100":      `{"data":[{"id":"job_1","state":"running"},{"id":"job_2","state":"stopped"},{"id":"job_3","state":"done"}]}`,
		}[r.URL.String()])
	}))
	t.Cleanup(server.Close)
	environ := []string{"HOOKLADDER_URL=" + server.URL, "HOOKLADDER_KEY=" + key}
	for line, want := range map[string][]string{
		"get ":                              {"order_1", "pay_2"},
		"why pay":                           {"pay_2"},
		"cancel ":                           {"order_1"},
		"get order_1 ":                      nil,
		"tail --message ":                   {"order_1", "pay_2"},
		"tail --job ":                       {"job_1", "job_2", "job_3"},
		"send --topic ":                     {"order.paid", "pay.made"},
		"send --tenant ":                    {"m7", "m8"},
		"deliveries --tenant=m8":            {"m8"},
		"deliveries --subject ":             {"bill-9"},
		"endpoints get ":                    {"shop-1", "ep_1", "ep_2"},
		"endpoints deliveries ":             {"shop-1", "ep_1", "ep_2"},
		"send --endpoint shop":              {"shop-1"},
		"pause ":                            {"shop-1", "u_1", "ep_1"},
		"dead --destination ":               {"shop-1", "u_1", "ep_1"},
		"jobs show ":                        {"job_1", "job_2", "job_3"},
		"jobs stop ":                        {"job_1"},
		"jobs resume ":                      {"job_2"},
		"jobs show --server http://x job_4": nil,
	} {
		untilOffered(t, want, environ, line)
	}
	elsewhere := []string{"HOOKLADDER_URL=http://127.0.0.1:1", "HOOKLADDER_KEY=other"}
	untilOffered(t, []string{"pay_2"}, elsewhere, "get --server "+server.URL+" --key-file "+file+" pay") // another server than the environment's
	untilOffered(t, []string{"job_1"}, elsewhere, "jobs stop --key-file="+file+" --server="+server.URL+" ")
	require.Empty(t, offered(t, environ, "get --key-file "+file+"x "))
	require.Empty(t, offered(t, elsewhere, "get "), "nothing listens there")
}

func TestAServerThatHasNoTimeIsAskedOnce(t *testing.T) {
	t.Parallel()
	calls := make(chan string, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls <- r.URL.Path
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(server.Close)
	require.Empty(t, offered(t, []string{"HOOKLADDER_URL=" + server.URL}, "get "))
	require.Len(t, calls, 1)
}

// shellScript is what makes a shell complete, in a file.
func shellScript(t testing.TB, shell string) string {
	t.Helper()
	got := command(t, nil, "", "completion", shell)
	require.Equal(t, exitOK, got.code, got.err)
	file := filepath.Join(t.TempDir(), "script")
	mustWrite(t, file, got.out)
	return file
}

// shells are how each shell that completes is asked what Tab offers behind a line. The
// script is $1, the line $2.
var shells = map[string]func(file, line string) []string{
	"bash": func(file, line string) []string {
		// Readline breaks words at = and :, and tells the line in variables.
		ask := `. /usr/share/bash-completion/bash_completion; . "$1"; COMP_LINE=$2 COMP_POINT=${#2} COMP_TYPE=9; shift 2; COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
			compopt() { :; }
			__start_hookladder; printf '%s\n' "${COMPREPLY[@]}"`
		words := regexp.MustCompile(`[=:]+|[^=: ]+`).FindAllString(line, -1)
		if strings.HasSuffix(line, " ") {
			words = append(words, "")
		}
		return append([]string{"bash", "--noprofile", "--norc", "-c", ask, "bash", file, line}, words...)
	},
	"zsh": func(file, line string) []string {
		ask := `compdef() { }; . "$1"; words=("${(@s: :)2}") CURRENT=${#words}
			_describe() { print -l -- $completions }; _arguments() { print -- files }
			_hookladder`
		return []string{"zsh", "-f", "-c", ask, "zsh", file, line}
	},
	"fish": func(file, line string) []string {
		return []string{"fish", "--no-config", "-c", "source $argv[1]; complete -C $argv[2]", file, line}
	},
}

// The real program is asked by real shells. "make test" installs those that are missing
// where it can; of the others the script is only made.
func TestShellsCompleteWithTheScript(t *testing.T) {
	program, err := kit.FastBinary()
	require.NoError(t, err)
	_, api, receiver := newTestDev(t, nil)
	for _, args := range [][]string{
		{"endpoints", "create", "--uid", "shop-1", "--tenant", "m7", "--url", receiver + "/ok"},
		{"send", "--id", "order_17", "--topic", "order.paid", "--subject", "bill:9", "--delay", "1h", "--url", receiver + "/ok", "--body", "1"},
	} {
		require.Equal(t, exitOK, command(t, nil, "", append(args, "--server", api)...).code)
	}
	for shell, ask := range shells {
		file := shellScript(t, shell)
		if _, err := exec.LookPath(shell); err != nil {
			require.NotEqual(t, "bash", shell)
			continue
		}
		offers := func(line string, environ ...string) []string {
			args := ask(file, "hookladder "+line)
			cmd := exec.Command(args[0], args[1:]...)
			cmd.Env = append(os.Environ(), append(environ, "PATH="+filepath.Dir(program)+":"+os.Getenv("PATH"), "COLUMNS=200", "HOME="+t.TempDir())...)
			var errs bytes.Buffer
			cmd.Stderr = &errs
			out, _ := cmd.Output() // of nothing offered the status is 1
			require.Empty(t, errs.String(), "%s: %s", shell, line)
			var words []string
			for text := range strings.Lines(string(out)) { // a word, and in brackets or behind a tab or colon what it is
				if word := regexp.MustCompile(`^[^\t ]+`).FindString(text); strings.TrimSpace(word) != "" {
					words = append(words, strings.TrimSpace(word))
				}
			}
			return words
		}
		has := func(line string, want ...string) { // a busy machine may not answer in the time that a person waits
			require.NoError(t, kit.Until(t.Context(), shell+" offers "+strings.Join(want, ", "), func() error {
				got := strings.Join(offers(line, "HOOKLADDER_URL="+api), "\n")
				for _, word := range want {
					if !regexp.MustCompile(`(?m)^(--signature=)?` + word + `(:.*)?$`).MatchString(got) {
						return fmt.Errorf("%s: %q", line, got)
					}
				}
				return nil
			}))
		}
		has("en", "endpoints")
		has("endpoints up", "update")
		has("send --deli", "--deliver-at")
		has("listen --signature ", "standard", "stripe", "github")
		has("listen --signature=st", "standard", "stripe")
		has("get ", "order_17")
		has("get ord", "order_17")
		has("endpoints get ", "shop-1", "ep_.*")
		has("pause --tenant m7 ", "shop-1")
		require.NoError(t, kit.Until(t.Context(), shell+" expands words of the line", func() error {
			if len(offers(`get --server "$WHERE" ord`, "WHERE="+api)) == 0 {
				return errors.New("nothing is offered")
			}
			return nil
		}))
		require.Empty(t, offers("get ", "HOOKLADDER_URL=http://127.0.0.1:1"), "%s: nothing listens there", shell)
		require.Empty(t, offers("get order_17 ", "HOOKLADDER_URL="+api))
	}
}

func TestCompletionIsTold(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--help"}, nil} {
		require.Contains(t, command(t, nil, "", args...).out, "hookladder completion bash")
	}
	require.Contains(t, page(t, "commands"), "hookladder completion bash")
	require.Contains(t, command(t, nil, "", "completion", "bash", "--help").out, "/etc/bash_completion.d/hookladder")
	got := command(t, nil, "", "completion", "tcsh")
	require.Equal(t, exitUsage, got.code)
	require.Contains(t, got.err, `"tcsh"`)
	require.NotEmpty(t, command(t, nil, "", "completion", "powershell").out)
}

// The help of a flag, or the text of its command, has each word that the flag takes.
func TestTheHelpHasEachWordOfAFlag(t *testing.T) {
	t.Parallel()
	for line, words := range map[string][]string{
		"deliveries --status":           texts(dispatcher.Statuses()...),
		"deliveries --dead-reason":      texts(dispatcher.DeadReasons()...),
		"dead --dead-reason":            texts(dispatcher.DeadReasons()...),
		"endpoints deliveries --status": texts(dispatcher.EndStatuses()...),
		"tail --outcome":                texts(dispatcher.Happenings()...),
		"listen --signature":            schemeNames(),
		"tail":                          texts(dispatcher.Happenings()...),
	} {
		command, flag, _ := strings.Cut(line, " --")
		cmd, _, err := newRoot(world{}).Find(strings.Fields(command))
		require.NoError(t, err, line)
		help := cmd.Long
		if flag != "" {
			help = cmd.Flags().Lookup(flag).Usage
		}
		for _, word := range words {
			require.Regexp(t, `\b`+word+`\b`, help, line)
		}
	}
}

// A person reads a sentence for each word.
func TestEachWordHasASentenceForPeople(t *testing.T) {
	t.Parallel()
	for _, left := range dispatcher.Lefts() {
		require.NotEmpty(t, skipReasons[string(left)], left)
	}
}

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

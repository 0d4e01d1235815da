package docs_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// updateReceivers writes the receivers of the page: go test ./deploy/docs -run ReceiversOfThePage -update
var updateReceivers = flag.Bool("update", false, "write the receivers of receive.md from their files")

// TestTheReceiversOfThePageAreFiles compares the blocks of the page, which EachBlock runs, with the
// files that a person can copy.
func TestTheReceiversOfThePageAreFiles(t *testing.T) {
	files, err := filepath.Glob("examples/receivers/*")
	require.NoError(t, err)
	languages := map[string]string{".go": "go", ".mjs": "js", ".py": "python", ".php": "php", ".rb": "ruby", ".java": "java", ".cs": "csharp"}
	require.Len(t, files, len(languages))
	was, err := os.ReadFile("receive.md")
	require.NoError(t, err)
	now := string(was)
	for _, file := range files {
		code, err := os.ReadFile(file)
		require.NoError(t, err)
		before, rest, ok := strings.Cut(now, "\n```"+languages[filepath.Ext(file)]+"\n")
		require.True(t, ok, "the page has no block for %s", file)
		_, after, ok := strings.Cut(rest, "\n```\n")
		require.True(t, ok)
		now = before + "\n```" + languages[filepath.Ext(file)] + "\n" + string(code) + "```\n" + after
	}
	if *updateReceivers {
		require.NoError(t, os.WriteFile("receive.md", []byte(now), 0o600))
		return
	}
	require.Equal(t, now, string(was), "write it with: go test ./deploy/docs -run ReceiversOfThePage -update")
}

// receiverLanguages are the languages in which pages show a receiver: the file of the block, and the
// command that runs it.
var receiverLanguages = map[string]struct{ file, command string }{
	"python": {"receiver.py", "exec python3 receiver.py"},
	"php":    {"receiver.php", "exec php -S 127.0.0.1:9000 receiver.php"},
	"ruby":   {"receiver.rb", "exec ruby receiver.rb"},
	"java":   {"Receiver.java", "exec java Receiver.java"},
	"csharp": {"Receiver.cs", "mcs Receiver.cs && exec mono Receiver.exe"},
}

// pasteReceiver runs a receiver that keeps each message as a file. It checks the verdicts, and
// that a message of the running server is in its file.
func (v *visitor) pasteReceiver(b pageBlock) {
	v.t.Helper()
	if b.language != "python" && !allLanguages {
		return
	}
	language := receiverLanguages[b.language]
	_, port, _ := strings.Cut(v.other, ":")
	require.Contains(v.t, b.text+language.command, "9000")
	dir := filepath.Join(v.dir, b.language)
	require.NoError(v.t, os.Mkdir(dir, 0o700))
	require.NoError(v.t, os.WriteFile(filepath.Join(dir, language.file), []byte(strings.ReplaceAll(b.text, "9000", port)), 0o600))
	v.judge("cd " + b.language + " && " + strings.ReplaceAll(language.command, "9000", port))
	files, err := os.ReadDir(filepath.Join(dir, "inbox"))
	require.NoError(v.t, err)
	require.NotEmpty(v.t, files)
	if v.signs {
		id, body := "to_"+b.language, `{"order":  17}`
		v.run("hookladder send --id " + id + " --topic order.paid --url http://" + v.other + "/hooks --body '" + body + "'")
		v.untilStatus(id, "delivered")
		kept, err := os.ReadFile(filepath.Join(dir, "inbox", id))
		require.NoError(v.t, err)
		require.Equal(v.t, body, string(kept))
	}
}

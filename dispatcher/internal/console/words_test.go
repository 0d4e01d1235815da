package console_test

import (
	"io/fs"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/internal/console"
)

// mustReadAssets joins the files of a folder of the assets.
func mustReadAssets(t testing.TB, pattern string) string {
	t.Helper()
	names, err := fs.Glob(console.Files, "assets/"+pattern)
	require.NoError(t, err)
	require.NotEmpty(t, names)
	var all strings.Builder
	for _, name := range names {
		text, err := fs.ReadFile(console.Files, name)
		require.NoError(t, err)
		all.Write(text)
	}
	return all.String()
}

// A new word needs its words here.
func TestThePagesKnowEachWord(t *testing.T) {
	require.ElementsMatch(t, dispatcher.Texts(dispatcher.Statuses()), console.Urgency)
	script := mustReadAssets(t, "js/*.js")
	for _, happening := range dispatcher.Texts(dispatcher.Happenings()) {
		words, known := console.OutcomeWords[happening]
		require.True(t, known, happening)
		require.Contains(t, script, happening+`: ["`+words[0]+`", "`+words[1]+`"]`, "the page and its script have the same words")
	}
	for _, left := range dispatcher.Texts(dispatcher.Lefts()) {
		require.NotEmpty(t, console.Results["left-"+left], left)
	}
	for _, loss := range dispatcher.Losses() {
		require.NotEmpty(t, console.Lost[loss], loss)
	}
	for _, kind := range dispatcher.JobKinds() {
		require.NotEmpty(t, console.Kinds[client.JobKind(kind)], kind)
	}
}

// Each state has an icon and a colour.
func TestThePagesDrawEachState(t *testing.T) {
	icons, styles := mustReadAssets(t, "icons.svg"), mustReadAssets(t, "css/*.css")
	for _, name := range []string{"status", "state", "lane-state", "job-state"} {
		for _, word := range dispatcher.WordLists()[name] {
			require.Contains(t, icons, `id="`+word+`"`, name)
			require.Regexp(t, `\.s-`+word+`\b`, styles, name)
		}
	}
	for _, happening := range dispatcher.Texts(dispatcher.Happenings()) {
		require.Regexp(t, `\.o-`+regexp.QuoteMeta(happening)+`\b`, styles)
	}
}

package input_test

import (
	"errors"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/internal/input"
)

var schemes = []string{"redis", "rediss", "unix", "postgres", "http", "https"}

func TestAMistypedURLIsRefusedAsAWhole(t *testing.T) {
	for text, want := range map[string]string{
		"redis://:12345/secret@h:6379": "has an @ behind the end of its host",
		"redis://:12345?secret=1@h":    "has an @ behind the end of its host",
		"redis://:p@ss/secret@h":       "has an @ behind the end of its host",
		"redis://:12345#secret":        "has a #",
		"redis://:12#secret@h":         "percent-encode / ? # @",
		"redis://u:pa/secret@h":        "percent-encode / ? # @",
		"redis://u:%zzsecret@h":        "percent-encode / ? # @",
		"u:secret@h":                   "must begin with redis:// or rediss://",
		"redis://u:secret":             "it is not a URL",
		"mysql://u:secret@h":           "must begin with redis:// or rediss://",
	} {
		_, err := input.ParseURL(text, "redis", "rediss")
		require.ErrorContains(t, err, want, text)
		require.NotContains(t, err.Error(), "secret")
		require.NotContains(t, input.URLText(text), "secret", text)
	}
}

func TestAURLIsShownWithoutItsSecrets(t *testing.T) {
	for text, want := range map[string]string{
		"redis://h:6379/2":                       "redis://h:6379/2",
		"rediss://u:secret@h:6379?x=secret":      "rediss://...@h:6379",
		"redis://:s@cret@h":                      "redis://...@h",
		"unix:///run/redis.sock":                 "unix:///run/redis.sock",
		"https://collector:4318/v1/traces":       "https://collector:4318/v1/traces",
		"postgres://u:secret@h1:1,h2:2/d?a=b%40": "postgres://...@h1:1,h2:2/d",
		"":                                       input.Hidden,
		"secret":                                 input.Hidden,
	} {
		require.Equal(t, want, input.URLText(text), text)
	}
}

func TestAnErrorOfACallHasNoURL(t *testing.T) {
	cause := errors.New("refused")
	require.Equal(t, cause, input.Cause(&url.Error{Op: "Post", URL: "http://h/secret", Err: cause}))
	proxy := input.Cause(&url.Error{Op: "Post", URL: "http://h/", Err: errors.New(`invalid proxy address "http://u:secret@h:x": no port`)})
	require.NotContains(t, proxy.Error(), "secret")
	require.NoError(t, input.Cause(nil))
}

func FuzzNoPartOfAPasswordIsPrinted(f *testing.F) {
	for _, before := range []string{"", "12345/", "12345?", "12345#", "p@ss/", "%zz", " ", "\\", "[::1", "12/x@h/", "\n"} {
		for _, after := range []string{"", "/", "?x=", "#", "@", ":", "@h/", "%"} {
			f.Add(before, after)
		}
	}
	const mark = "tailsecretpart"
	f.Fuzz(func(t *testing.T, before, after string) {
		for _, scheme := range schemes {
			text := scheme + "://user:" + before + mark + after + "@127.0.0.1:6379/0"
			require.NotContains(t, input.URLText(text), mark, text)
			u, err := input.ParseURL(text, schemes...)
			if err != nil {
				require.NotContains(t, err.Error(), mark, text)
				continue
			}
			u.User = nil
			require.NotContains(t, u.String(), mark, "all of it is in the password: %s", text)
		}
	})
}

package main

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/signer"
)

func TestVerifyReadsWhatListenSavesAndPrints(t *testing.T) {
	secret := signer.NewSecret()
	environ := []string{"SIGNING_SECRET=" + secret.Reveal()}
	file := filepath.Join(t.TempDir(), "last.txt")
	ear := start(t, environ, "listen", "--addr", "127.0.0.1:0", "--save", file)
	url := regexp.MustCompile(`http://[^,]+`).FindString(ear.until("listening on"))
	body := "{\"order\": 17,\r\n \"note\": \"" + strings.Repeat("x", 2*shownBody) + "\"}"
	require.Equal(t, http.StatusNoContent, post(t, url, secret, "msg_1", body))
	ear.until("=> genuine")
	got := command(t, environ, "", "verify", file)
	require.Equal(t, exitOK, got.code, got.out+got.err)
	require.Regexp(t, `^valid: signed with this secret as standard, \d+s before it arrived\n$`, got.out)

	strangers := signer.NewSecret()
	other := []string{"SIGNING_SECRET=" + strangers.Reveal()}
	got = command(t, other, "", "verify", file)
	require.Equal(t, exitFailed, got.code)
	require.Contains(t, got.out, "not valid\n  other_secret: the signature was made with another secret")
	require.Contains(t, got.out, "compare both secrets (the fingerprint of the one here is "+strangers.Fingerprint()+")")

	saved, err := os.ReadFile(file)
	require.NoError(t, err)
	mustWrite(t, file, string(saved)+"\n")
	got = command(t, environ, "", "verify", file)
	require.Equal(t, exitFailed, got.code)
	require.Contains(t, got.out, "  body_length: content-length is")
	require.Contains(t, got.out, "  body: the signature is of the body without the end of line at its end\n    sign and verify the bytes as they are")

	require.Equal(t, http.StatusNoContent, post(t, url, secret, "msg_2", `{"short":true}`))
	ear.until("webhook-id: msg_2")
	ear.until("=> genuine")
	printed := ear.seen.String()
	got = command(t, environ, printed[strings.LastIndex(printed, "POST "):], "verify", "-", "--json")
	require.Equal(t, exitOK, got.code, got.out+got.err)
	require.Contains(t, got.out, `"valid": true`)
	require.Equal(t, exitOK, ear.end())
}

func TestVerifyTakesACallbackByFlags(t *testing.T) {
	const secret = "0123456789abcdef"
	s, err := signer.GitHub.ParseSecret(secret)
	require.NoError(t, err)
	sign, err := signer.GitHub.NewSigner(s)
	require.NoError(t, err)
	body := `{"a":1}`
	flags := []string{"verify", "--secret", secret, "--header", "X-Hub-Signature-256: " + sign.Sign("", time.Now(), []byte(body))}
	got := command(t, nil, "", append(flags, "--body", body)...)
	require.Equal(t, exitOK, got.code, got.out+got.err)
	got = command(t, nil, "", append(flags, "--body", `{"a": 1}`)...)
	require.Equal(t, exitFailed, got.code)
	require.Contains(t, got.out, "body: the signature is of the same JSON written anew: without white space")
	require.NotContains(t, got.out+got.err, secret)
	got = command(t, nil, body, append(flags, "--body-file", "-", "--computed", "sha256=00")...)
	require.Equal(t, exitFailed, got.code)
	require.Contains(t, got.out, "valid: signed with this secret as github\n  signature_malformed: your code's value is not what github has")
	require.Equal(t, "hookladder: the webhook is valid, and your code's value is not its signature\n", got.err)
	got = command(t, nil, body, append(flags, "--body-file", "-", "--computed", sign.Sign("", time.Now(), []byte(body)))...)
	require.Equal(t, exitFailed, got.code)
	require.Equal(t, "hookladder: the webhook is valid, and so is your code's value: see how it compares them\n", got.err)
}

func TestVerifyJudgesTheTimeOfTheCallback(t *testing.T) {
	secret, at := signer.NewSecret(), time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	flags := []string{
		"verify", "--secret", secret.Reveal(), "--body", "x", "--header", "webhook-id: m1",
		"--header", "webhook-timestamp: " + strconv.FormatInt(at.Unix(), 10), "--header", "webhook-signature: " + signer.Sign(secret, "m1", at, []byte("x")),
	}
	got := command(t, nil, "", flags...)
	require.Equal(t, exitFailed, got.code)
	require.Contains(t, got.out, "the signature is right, as standard, but a receiver should refuse the webhook\n  too_old: ")
	require.Equal(t, exitOK, command(t, nil, "", append(flags, "--at", "2026-01-31T12:03:00Z")...).code)
	require.Equal(t, exitFailed, command(t, nil, "", append(flags, "--at", "2026-01-31T12:03:00Z", "--tolerance", "1m")...).code)
}

func TestVerifyRefusesWhatItCantRead(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "webhook")
	mustWrite(t, file, "webhook-id: m1\n{\"a\":1}\n")
	sound := filepath.Join(folder, "sound")
	mustWrite(t, sound, "POST /hooks HTTP/1.1\nwebhook-id: m1\n\n{}")
	empty := filepath.Join(folder, "empty")
	mustWrite(t, empty, "\n")
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "verify needs a file with the webhook"},
		{[]string{file, "--secret", "whsec_x"}, "line 2 is no header"},
		{[]string{file + "x", "--secret", "whsec_x"}, "no such file"},
		{[]string{sound}, "nothing to verify with"},
		{[]string{sound, "--secret-file", empty}, "nothing to verify with"},
		{[]string{sound, "--secret", "a", "--secret-file", empty}, "not both"},
		{[]string{sound, sound}, "takes one file"},
		{[]string{"--header", "a: b", "--secret", "a", "--body", "a", "--body-file", "b"}, "not both"},
		{[]string{"--header", "a", "--secret", "a"}, `--header "a": must be`},
		{[]string{"--header", "a: b", "--secret", "a", "--signature", "odd"}, "--signature: not a signature scheme"},
		{[]string{"--header", "a: b", "--secret", "a", "--at", "soon"}, "--at must be a time"},
		{[]string{"--header", "a: b", "--secret", strings.Repeat("a ", 17)}, "17 secrets: give at most 16"},
	} {
		got := command(t, nil, "", append([]string{"verify"}, c.args...)...)
		require.Equal(t, exitUsage, got.code, c.args)
		require.Contains(t, got.err, c.want)
		require.LessOrEqual(t, strings.Count(got.err, file), 1, got.err)
	}
}

func TestCheckGradesAReceiver(t *testing.T) {
	t.Parallel()
	environ := []string{"SIGNING_SECRET=" + signer.NewSecret().Reveal()}
	ear := start(t, environ, "listen", "--addr", "127.0.0.1:0")
	url := regexp.MustCompile(`http://[^,]+`).FindString(ear.until("listening on"))
	got := command(t, environ, "", "check", url)
	require.Equal(t, exitOK, got.code, got.out+got.err)
	require.Contains(t, got.out, "\n100 of 100 points\n")
	got = command(t, []string{"SIGNING_SECRET=" + signer.NewSecret().Reveal()}, "", "check", url, "--json")
	require.Equal(t, exitFailed, got.code)
	require.Contains(t, got.out, `"points": 0`)
	require.Contains(t, got.err, "a valid webhook was not accepted")
	require.Equal(t, exitOK, ear.end())

	got = command(t, environ, "", "check", "http://127.0.0.1:1")
	require.Equal(t, exitUnreachable, got.code)
	require.Contains(t, got.err, "no response: ")
	for _, args := range [][]string{
		{"check"}, {"check", "localhost:3000"}, {"check", url, "--signature", "odd"}, {"check", url, "--body", "x", "--body-file", "y"},
		{"check", url, "--signature", "standard-ed25519"}, {"check", url, "--body-file", "/none"},
	} {
		require.Equal(t, exitUsage, command(t, environ, "", args...).code, args)
	}
	require.Equal(t, exitUsage, command(t, nil, "", "check", url).code, "no secret")
}

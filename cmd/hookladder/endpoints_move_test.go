package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// movedFile has an endpoint of each kind that other senders need.
const movedFile = `{"uid":"shop-1","tenant":"acme","url":"URL","topics":["payment.*"],"description":"=1+1","metadata":{"plan":"gold"},"secret":"convoy-webhook-secret","signature":"hmac","signature_header":"X-Convoy-Signature","signature_hash":"sha512","signature_encoding":"base64","signature_content":"t-comma-body","ladder":["1s","5m"],"timeout":"5s","max_in_flight":7,"rate":"20/s","success":{"status":["2xx"],"body":"ok"},"ordered":true,"disable_after":"2d"}
{"uid":"shop-2","tenant":"acme","url":"URL","topics":[]}

{"uid":"shop-3","kind":"pull","topics":["order.paid"]}
`

func TestEndpointsMoveByAFile(t *testing.T) {
	for _, format := range []string{"jsonl", "csv"} {
		t.Run(format, func(t *testing.T) {
			_, api, receiver := newTestDev(t, nil)
			env := []string{"HOOKLADDER_URL=" + api}
			file := strings.ReplaceAll(movedFile, "URL", receiver)

			dry := command(t, env, file, "endpoints", "import", "-", "--dry-run")
			require.Equal(t, exitOK, dry.code, dry.err)
			require.Equal(t, "create shop-1\ncreate shop-2\ncreate shop-3\n", dry.out)
			require.Equal(t, "nothing was changed: 3 created, 0 changed, 0 unchanged, 0 wrong\n", afterDev(dry))
			require.Contains(t, command(t, env, file, "endpoints", "import", "-").err, "3 created, 0 changed, 0 unchanged, 0 wrong")
			again := command(t, env, file, "endpoints", "import", "-")
			require.Equal(t, "0 created, 0 changed, 3 unchanged, 0 wrong\n", afterDev(again)+again.out, "a second run has nothing to do")

			name := filepath.Join(t.TempDir(), "endpoints."+format)
			out := command(t, env, "", "endpoints", "export", "--"+strings.TrimSuffix(format, "l"))
			require.Equal(t, exitOK, out.code, out.err)
			require.Contains(t, out.err, "endpoints: 3\n")
			require.Contains(t, out.out, "convoy-webhook-secret")
			require.NoError(t, os.WriteFile(name, []byte(out.out), 0o600))
			again = command(t, env, "", "endpoints", "import", name)
			require.Equal(t, "0 created, 0 changed, 3 unchanged, 0 wrong\n", afterDev(again)+again.out, "an export is what there is")

			_, other, _ := newTestDev(t, nil)
			there := []string{"HOOKLADDER_URL=" + other}
			require.Contains(t, command(t, there, "", "endpoints", "import", name).err, "3 created")
			copied := command(t, there, "", "endpoints", "export", "--"+strings.TrimSuffix(format, "l"))
			require.ElementsMatch(t, strings.Split(out.out, "\n"), strings.Split(copied.out, "\n"), "the other server has the same, the newest first")
		})
	}
}

func TestAnImportChangesWhatDiffersAndReportsWrongLines(t *testing.T) {
	_, api, receiver := newTestDev(t, nil)
	env := []string{"HOOKLADDER_URL=" + api}
	first := strings.ReplaceAll(movedFile, "URL", receiver)
	require.Equal(t, exitOK, command(t, env, first, "endpoints", "import", "-").code)

	lines := []string{
		`{"uid":"shop-1","tenant":"acme","url":"` + receiver + `/2","topics":["payment.*"],"secret":"another-secret-of-16","signature":"hmac"}`,
		`not JSON`,
		`{"uid":"shop-4","url":"` + receiver + `","colour":"red"}`,
		`{"uid":"shop-5","url":"` + receiver + `","timeout":"1h"}`,
		`{"uid":"shop-2","tenant":"other","url":"` + receiver + `","topics":[]}`,
		`{"url":"` + receiver + `"}`,
		`{"uid":"shop-6","url":"` + receiver + `","headers":{"x-shop":"6"}}`,
	}
	got := command(t, env, strings.Join(lines, "\n"), "endpoints", "import", "-")
	require.Equal(t, exitFailed, got.code)
	require.Contains(t, got.out, "change shop-1: description, disable_after, ladder, max_in_flight, metadata, ordered, rate, signature_content, signature_encoding, signature_hash, signature_header, success, timeout, url, secret\n")
	for _, want := range []string{
		"line 2: is not a JSON object", "line 3: shop-4: $.colour: is not a field", "line 4: shop-5: ", "timeout", "line 5: shop-2: ", "tenant",
		"line 6: $.uid: is needed", "create shop-6",
	} {
		require.Contains(t, got.out, want)
	}
	require.Contains(t, got.err, "1 created, 1 changed, 0 unchanged, 5 wrong\n")
	c, err := client.New(api, "")
	require.NoError(t, err)
	e, err := c.Endpoint(t.Context(), "shop-1")
	require.NoError(t, err)
	require.Equal(t, []any{receiver + "/2", "hmac", "", false}, []any{e.URL, e.Signature, e.SignatureHash, e.Ordered})
	require.Nil(t, e.Ladder)
	require.Empty(t, e.Metadata)
	secrets, err := c.EndpointSecret(t.Context(), "shop-1")
	require.NoError(t, err)
	require.Equal(t, "another-secret-of-16", secrets.Secrets[0].Secret)
	require.NoError(t, mustDisable(t, c, "shop-6"))
	got = command(t, env, lines[6], "endpoints", "import", "-")
	require.Equal(t, "0 created, 0 changed, 1 unchanged, 0 wrong\n", afterDev(got), "the API hides the value, but reports that it is the same")
	changed := strings.Replace(lines[6], `"x-shop":"6"`, `"x-shop":"7"`, 1)
	got = command(t, env, changed, "endpoints", "import", "-", "--dry-run")
	require.Equal(t, "change shop-6: headers\n", got.out)
	got = command(t, env, changed+"\n"+changed, "endpoints", "import", "-")
	require.Equal(t, "change shop-6: headers\nline 2: shop-6: $.uid: is the same as in line 1\n", got.out)
	for secret, code := range map[string]int{"whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz": exitOK, "short": exitFailed} {
		other := strings.Replace(changed, `"uid"`, `"secret":"`+secret+`","uid"`, 1)
		dry := command(t, env, other, "endpoints", "import", "-", "--dry-run")
		got = command(t, env, other, "endpoints", "import", "-")
		require.Equal(t, []any{code, dry.out}, []any{got.code, got.out})
		require.Equal(t, code, dry.code)
	}
	e, err = c.Endpoint(t.Context(), "shop-6")
	require.NoError(t, err)
	require.True(t, e.Disabled, "a line without the field does not enable it")
}

func mustDisable(t *testing.T, c *client.Client, uid string) error {
	t.Helper()
	_, err := c.PatchEndpoint(t.Context(), uid, map[string]any{"disabled": true})
	return err
}

func TestPruneDeletesWhatTheFileLeavesOut(t *testing.T) {
	_, api, receiver := newTestDev(t, nil)
	env := []string{"HOOKLADDER_URL=" + api}
	c, err := client.New(api, "")
	require.NoError(t, err)
	var file strings.Builder
	for i := range 20 {
		e := wire.Endpoint{UID: fmt.Sprintf("e%02d", i), Tenant: "acme", URL: receiver}
		_, _, err := c.CreateEndpoint(t.Context(), &e)
		require.NoError(t, err)
		if i > 1 {
			fmt.Fprintf(&file, `{"uid":"%s","tenant":"acme","url":"%s"}`+"\n", e.UID, receiver)
		}
	}
	for _, e := range []wire.Endpoint{{UID: "other", Tenant: "b", URL: receiver}, {Tenant: "acme", URL: receiver}} {
		_, _, err := c.CreateEndpoint(t.Context(), &e)
		require.NoError(t, err)
	}
	_, err = c.PauseEndpoint(t.Context(), "e01")
	require.NoError(t, err)
	_, err = c.Publish(t.Context(), &wire.Message{ID: "m", Topic: "t", Body: []byte("1"), Endpoint: "e01", Tenant: "acme"})
	require.NoError(t, err)
	prune := func(text string, flags ...string) result {
		return command(t, env, text, append([]string{"endpoints", "import", "-", "--prune"}, flags...)...)
	}
	count := func() int {
		page, err := c.Endpoints(t.Context(), client.EndpointFilter{Limit: 100})
		require.NoError(t, err)
		return len(page.Data)
	}
	require.Equal(t, exitUsage, prune(file.String()).code, "of which tenant?")
	dry := prune(file.String(), "--tenant", "acme", "--dry-run")
	require.Equal(t, exitOK, dry.code, dry.err)
	require.Contains(t, dry.out, "delete e01: 1 waiting\n")
	require.Contains(t, dry.err, "18 unchanged, 0 wrong, 2 deleted with 1 waiting deliveries")
	require.Equal(t, exitFailed, prune("{}\n"+file.String(), "--tenant", "acme").code, "a line is wrong")
	few := prune(strings.SplitAfter(file.String(), "\n")[0], "--tenant", "acme")
	require.Equal(t, exitFailed, few.code)
	require.Contains(t, few.err, "19 of 20 endpoints are not in the file, and 1 deliveries wait for them: pass --yes")
	require.Equal(t, 22, count(), "nothing was deleted until now")

	got := prune(file.String(), "--tenant", "acme")
	require.Equal(t, exitOK, got.code, got.err)
	require.Contains(t, got.err, "2 deleted with 1 waiting deliveries")
	require.Equal(t, 20, count(), "another tenant's is kept, and one without a uid")
	require.Equal(t, exitOK, prune(file.String(), "--all-tenants", "--yes").code)
	require.Equal(t, 19, count())
}

func TestALineThatIsTooLongAndABrokenRowAreReported(t *testing.T) {
	_, api, receiver := newTestDev(t, nil)
	env := []string{"HOOKLADDER_URL=" + api}
	good := `{"uid":"a","url":"` + receiver + `"}`
	got := command(t, env, `{"uid":"`+strings.Repeat("x", 2<<20)+`"}`+"\n"+good, "endpoints", "import", "-")
	require.Equal(t, exitFailed, got.code)
	require.Contains(t, got.out, "line 1: has more than 1048576 bytes\ncreate a\n")

	rows := "uid,url,topics,timeout\nb," + receiver + ",\"[\"\"x\"\"]\",5s\nc,too,few\nd," + receiver + ",x,5s\ne," + receiver + ",,5\n"
	got = command(t, env, rows, "endpoints", "import", "-", "--csv")
	require.Equal(t, exitFailed, got.code)
	require.Contains(t, got.err, "2 created, 0 changed, 0 unchanged, 2 wrong\n")
	require.Contains(t, got.out, "line 3: wrong number of fields\n")
	require.Contains(t, got.out, "line 4: d: $.topics: is not valid")
	got = command(t, env, "uid,colour\na,red\n", "endpoints", "import", "-", "--csv")
	require.Equal(t, exitFailed, got.code)
	require.Contains(t, got.err, `"colour", which is not a field`)
	require.Equal(t, exitUsage, command(t, env, "", "endpoints", "import", "-", "--csv", "--json").code)
	require.Equal(t, exitUsage, command(t, env, "", "endpoints", "import", "no-such-file").code)
	nowhere := command(t, []string{"HOOKLADDER_URL=http://127.0.0.1:1"}, good, "endpoints", "import", "-")
	require.Equal(t, exitUnreachable, nowhere.code)
	require.Contains(t, nowhere.err, "stopped at line 1, run it again")
}

func TestAnExportReportsTheSecretsThatItsKeyMayNotSee(t *testing.T) {
	const reads, admin = "reads-0123456789abcdef", "admin-0123456789abcdef"
	_, api, receiver := newTestDev(t, []string{"API_KEYS=" + reads + ":read," + admin + ":admin"})
	env := func(key string) []string { return []string{"HOOKLADDER_URL=" + api, "HOOKLADDER_KEY=" + key} }
	line := `{"uid":"a","url":"` + receiver + `","headers":{"x-shop":"1"},"secret":"whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"}`
	require.Equal(t, exitOK, command(t, env(admin), line, "endpoints", "import", "-").code)
	got := command(t, env(reads), "", "endpoints", "export")
	require.Equal(t, exitOK, got.code, got.err)
	require.NotContains(t, got.out, "whsec_")
	require.Contains(t, got.out, `"headers":{"x-shop":"***"}`)
	require.Equal(t, "endpoints: 1\n1 without their secrets: the key needs the scope admin\n1 with headers whose values are hidden: write them into the file\n", afterDev(got))
	again := command(t, env(admin), got.out, "endpoints", "import", "-")
	require.Equal(t, "0 created, 0 changed, 1 unchanged, 0 wrong\n", again.out+afterDev(again), "it keeps the secret and the header")
	require.Contains(t, command(t, env(admin), "", "endpoints", "export").out, "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz")
	denied := command(t, env(reads), `{"uid":"b","url":"`+receiver+`"}`, "endpoints", "import", "-")
	require.Equal(t, exitFailed, denied.code)
	require.Contains(t, denied.err, "stopped at line 1")
}

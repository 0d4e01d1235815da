package main

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
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

// migrateBlock returns the only shell block of the page that has the text.
func migrateBlock(t testing.TB, text string) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(repository, "deploy", "docs", "migrate.md"))
	require.NoError(t, err)
	var found []string
	for _, m := range regexp.MustCompile("(?s)\n```sh\n(.*?)\n```").FindAllStringSubmatch(string(page), -1) {
		if strings.Contains(m[1], text) {
			found = append(found, m[1])
		}
	}
	require.Len(t, found, 1, text)
	return found[0]
}

// repository is the top of the repository. Tests change their directory.
var repository = func() string {
	top, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		panic(err)
	}
	return top
}()

// newTestSystem serves answers by path and query, as another system does for the key.
func newTestSystem(t testing.TB, answers map[string]string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, ok := answers[r.URL.RequestURI()]
		switch {
		case r.Header.Get("Authorization") != "Bearer the-key":
			http.Error(w, "{}", http.StatusUnauthorized)
		case !ok:
			t.Errorf("unexpected request: %s", r.URL.RequestURI())
			http.Error(w, "{}", http.StatusNotFound)
		default:
			_, _ = w.Write([]byte(text)) // the client fails then
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// mustSave runs the page's script that writes the file, and returns its text.
func mustSave(t testing.TB, file string, environ ...string) string {
	t.Helper()
	script := exec.CommandContext(t.Context(), "sh", "-c", migrateBlock(t, "> "+file))
	script.Dir, script.Env = t.TempDir(), append(os.Environ(), environ...)
	out, err := script.CombinedOutput()
	require.NoError(t, err, string(out))
	name := filepath.Join(script.Dir, file)
	info, err := os.Stat(name)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), "it has secrets")
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	return string(text)
}

// importFrom imports the answers twice, and returns the output of the first import and the
// endpoints by their uid, with their secrets.
func importFrom(t testing.TB, system, text string) (first result, found map[string]wire.Endpoint) {
	t.Helper()
	_, api, _ := newTestDev(t.(*testing.T), nil)
	env := []string{"HOOKLADDER_URL=" + api}
	dry := command(t, env, text, "endpoints", "import", "-", "--from", system, "--dry-run")
	first = command(t, env, text, "endpoints", "import", "-", "--from", system)
	require.Equal(t, dry.out, first.out, "a dry run reports the same")
	again := command(t, env, text, "endpoints", "import", "-", "--from", system)
	require.Contains(t, again.err, "0 created")

	c, err := client.New(api, "")
	require.NoError(t, err)
	page, err := c.Endpoints(t.Context(), client.EndpointFilter{Limit: 100})
	require.NoError(t, err)
	found = map[string]wire.Endpoint{}
	for _, e := range page.Data {
		all, err := c.EndpointSecret(t.Context(), e.ID)
		require.NoError(t, err)
		e.Secret = all.Secrets[0].Secret
		found[e.UID] = e.Endpoint
	}
	return first, found
}

// outpostAPI is the API of an Outpost with two pages of tenants.
var outpostAPI = map[string]string{
	"/api/v1/tenants?limit=100":            `{"models":[{"id":"acme","created_at":"2025-01-01T00:00:00Z"}],"pagination":{"order_by":"created_at","dir":"desc","limit":100,"next":"b=2","prev":null},"count":2}`,
	"/api/v1/tenants?limit=100&next=b%3D2": `{"models":[{"id":"shop/42"}],"pagination":{"limit":100,"next":null,"prev":"a"},"count":2}`,
	"/api/v1/tenants/acme/destinations": `[
 {"id":"des_1","type":"webhook","topics":"*","config":{"url":"https://acme.example/hooks","custom_headers":"{\"x-shop\":\"7\"}"},
  "credentials":{"secret":"outpost-secret-0001","previous_secret":"outpost-secret-0000","previous_secret_invalid_at":"2030-01-01T00:00:00Z"},
  "filter":{"data":{"amount":{"$gte":100}}},"metadata":{"plan":"gold"},"disabled_at":null,"created_at":"2025-01-01T00:00:00Z"},
 {"id":"des_2","type":"rabbitmq","topics":["*"],"config":{"server_url":"mq:5672"},"credentials":{},"disabled_at":null}]`,
	"/api/v1/tenants/shop%2F42/destinations": `[
 {"id":"des_3","type":"webhook","topics":["order.paid","user.*"],"config":{"url":"https://shop.example/hooks"},"credentials":{"secret":"outpost-secret-0003"},"filter":null,"disabled_at":"2025-02-01T00:00:00Z"},
 {"id":"des_4","type":"webhook","topics":["*.paid"],"config":{"url":"https://shop.example/4"},"credentials":{"secret":"outpost-secret-0004"},"disabled_at":null}]`,
}

func TestEndpointsComeFromOutpost(t *testing.T) {
	url := newTestSystem(t, outpostAPI)
	text := mustSave(t, "outpost.jsonl", "OUTPOST_URL="+url, "OUTPOST_KEY=the-key")
	got, found := importFrom(t, "outpost", text)
	require.Equal(t, exitFailed, got.code)
	require.Equal(t, `does not carry over: destination of type rabbitmq (1)
does not carry over: filter (1)
does not carry over: previous_secret (1)
create des_1
create des_3
endpoint 3: des_4: $.topics: *.paid has * before its last word
`, got.out)
	require.Equal(t, map[string]wire.Endpoint{
		"des_1": {
			UID: "des_1", Tenant: "acme", Kind: "push", URL: "https://acme.example/hooks", Topics: []string{"*"}, Headers: map[string]string{"x-shop": wire.Hidden},
			Metadata: map[string]string{"plan": "gold"}, Secret: "outpost-secret-0001", Signature: "hmac", SignatureHeader: "x-outpost-signature", SignaturePrefix: "v0=",
		},
		"des_3": {
			UID: "des_3", Tenant: "shop/42", Kind: "push", URL: "https://shop.example/hooks", Topics: []string{"order.paid", "user.*"}, Disabled: true,
			Secret: "outpost-secret-0003", Signature: "hmac", SignatureHeader: "x-outpost-signature", SignaturePrefix: "v0=",
		},
	}, found)
}

// svixAPI is the API of a Svix with two applications. One has two pages of endpoints.
var svixAPI = map[string]string{
	"/api/v1/app/?limit=250": `{"data":[{"id":"app_1","uid":"acme","name":"Acme","metadata":{}},{"id":"app_2","uid":null,"name":"Shop","metadata":{}}],"iterator":"app_2","prevIterator":"-app_1","done":true}`,
	"/api/v1/app/acme/endpoint/?limit=250": `{"data":[{"id":"ep_1","uid":"main","url":"https://acme.example/hooks","version":1,"description":"the main one","filterTypes":["order.paid"],"channels":null,
 "throttleRate":20,"disabled":false,"metadata":{"plan":"gold"},"createdAt":"2025-01-01T00:00:00Z","updatedAt":"2025-01-01T00:00:00Z"}],"iterator":"ep/1","prevIterator":null,"done":false}`,
	"/api/v1/app/acme/endpoint/?limit=250&iterator=ep%2F1": `{"data":[{"id":"ep_2","url":"https://acme.example/2","description":"","filterTypes":null,"channels":["project_1"],"rateLimit":null,"disabled":true,"metadata":{}}],"iterator":"ep_2","done":true}`,
	"/api/v1/app/app_2/endpoint/?limit=250":                `{"data":[{"id":"ep_3","uid":"main","url":"https://shop.example/hooks","description":"","metadata":{}}],"iterator":null,"done":true}`,
	"/api/v1/app/acme/endpoint/ep_1/secret/":               `{"key":"whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"}`,
	"/api/v1/app/acme/endpoint/ep_1/headers/":              `{"headers":{"x-shop":"7"},"sensitive":["authorization"]}`,
	"/api/v1/app/acme/endpoint/ep_2/secret/":               `{"key":"whsec_QUFBMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"}`,
	"/api/v1/app/acme/endpoint/ep_2/headers/":              `{"headers":{},"sensitive":[]}`,
	"/api/v1/app/app_2/endpoint/ep_3/secret/":              `{"key":"whsk_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="}`,
	"/api/v1/app/app_2/endpoint/ep_3/headers/":             `{"headers":{},"sensitive":[]}`,
}

func TestEndpointsComeFromSvix(t *testing.T) {
	url := newTestSystem(t, svixAPI)
	text := mustSave(t, "svix.jsonl", "SVIX_URL="+url, "SVIX_KEY=the-key")
	got, found := importFrom(t, "svix", text)
	require.Equal(t, exitOK, got.code, got.out+got.err)
	require.Equal(t, `does not carry over: channels (1)
does not carry over: sensitive headers (1)
create acme:main
create svix-ep_2
create app_2:main
`, got.out)
	require.Equal(t, map[string]wire.Endpoint{
		"acme:main": {
			UID: "acme:main", Tenant: "acme", Kind: "push", URL: "https://acme.example/hooks", Topics: []string{"order.paid"}, Description: "the main one",
			Metadata: map[string]string{"plan": "gold"}, Headers: map[string]string{"x-shop": wire.Hidden}, Rate: "20/s",
			Signature: "standard", Secret: "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz",
		},
		"svix-ep_2": {
			UID: "svix-ep_2", Tenant: "acme", Kind: "push", URL: "https://acme.example/2", Topics: []string{"*"}, Disabled: true,
			Signature: "standard", Secret: "whsec_QUFBMzQ1Njc4OTAxMjM0NTY3ODkwMTIz",
		},
		"app_2:main": {
			UID: "app_2:main", Tenant: "app_2", Kind: "push", URL: "https://shop.example/hooks", Topics: []string{"*"},
			Signature: "standard-ed25519", Secret: "whsk_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=",
		},
	}, found)
}

// convoyAPI is the API of a Convoy with two pages of endpoints.
var convoyAPI = map[string]string{
	"/api/v1/projects/p1": `{"status":true,"message":"Project fetched successfully","data":{"uid":"p1","name":"main","type":"outgoing","config":{"replay_attacks_prevention_enabled":false,
 "signature":{"header":"X-Acme-Signature","versions":[{"uid":"v1","hash":"SHA256","encoding":"hex"},{"uid":"v2","hash":"SHA512","encoding":"base64"}]}}}}`,
	"/api/v1/projects/p1/endpoints?perPage=100&direction=next": `{"status":true,"message":"Endpoints fetched successfully","data":{"content":[
 {"uid":"01A","project_id":"p1","owner_id":"acme","url":"https://acme.example/hooks","name":"Acme","description":"first","status":"active","advanced_signatures":false,
  "secrets":[{"uid":"s0","value":"convoy-secret-00000","expires_at":"2030-01-01T00:00:00Z"},{"uid":"s1","value":"convoy-secret-00001","expires_at":null}],
  "http_timeout":10,"rate_limit":5,"rate_limit_duration":10,"content_type":"application/json","authentication":{"type":"api_key","api_key":{"header_name":"x-key","header_value":"k"}},
  "support_email":"a@acme.example","slack_webhook_url":""}],
 "pagination":{"per_page":100,"has_next_page":true,"has_prev_page":false,"prev_page_cursor":"","next_page_cursor":"01A"}}}`,
	"/api/v1/projects/p1/endpoints?perPage=100&direction=next&next_page_cursor=01A": `{"status":true,"data":{"content":[
 {"uid":"01B","project_id":"p1","url":"https://b.example/hooks","name":"","status":"inactive","advanced_signatures":true,"secrets":[{"uid":"s2","value":"convoy-secret-00002"}],
  "http_timeout":"1m30s","rate_limit":7,"rate_limit_duration":"7s","authentication":{"type":"oauth2","api_key":null,"oauth2":{"url":"https://o.example"}},"mtls_client_cert":{"client_cert":"pem"}},
 {"uid":"01C","project_id":"p1","url":"https://c.example/hooks","status":"paused","secrets":[{"value":"convoy-secret-00003"}],"http_timeout":30,"rate_limit":0,"rate_limit_duration":0,"authentication":null}],
 "pagination":{"per_page":100,"has_next_page":false,"has_prev_page":true,"next_page_cursor":"01C"}}}`,
	"/api/v1/projects/p1/subscriptions?perPage=100&direction=next": `{"status":true,"data":{"content":[
 {"uid":"sub1","name":"s","type":"api","status":"active","endpoint_metadata":{"uid":"01A"},"filter_config":{"event_types":["order.paid"],"filter":{"headers":{},"body":{"amount":{"$gte":100}},"is_flattened":false}},"function":"function transform(p) {}"},
 {"uid":"sub2","endpoint_metadata":{"uid":"01A"},"filter_config":{"event_types":["order.paid","user.*"],"filter":{"headers":{},"body":{}}},"function":null},
 {"uid":"sub3","endpoint_metadata":{"uid":"01B"},"filter_config":{"event_types":["*"],"filter":null},"retry_config":null}],
 "pagination":{"per_page":100,"has_next_page":false}}}`,
}

func TestEndpointsComeFromConvoy(t *testing.T) {
	url := newTestSystem(t, convoyAPI)
	text := mustSave(t, "convoy.jsonl", "CONVOY_URL="+url, "CONVOY_KEY=the-key", "CONVOY_PROJECT=p1")
	got, found := importFrom(t, "convoy", text)
	require.Equal(t, exitOK, got.code, got.out+got.err)
	require.Equal(t, `does not carry over: authentication oauth2 (1)
does not carry over: endpoint without a subscription (1)
does not carry over: filter of a subscription (1)
does not carry over: former secrets (1)
does not carry over: function of a subscription (1)
does not carry over: http_timeout above 60s (1)
does not carry over: mtls_client_cert (1)
does not carry over: rate_limit_duration (1)
does not carry over: signatures after v1 (1)
does not carry over: status paused (1)
does not carry over: support_email (1)
create 01A
create 01B
create 01C
`, got.out)
	require.Equal(t, map[string]wire.Endpoint{
		"01A": {
			UID: "01A", Tenant: "acme", Kind: "push", URL: "https://acme.example/hooks", Topics: []string{"order.paid", "user.*"}, Description: "first",
			Metadata: map[string]string{"name": "Acme"}, Headers: map[string]string{"x-key": wire.Hidden}, Timeout: wire.Duration(10 * time.Second), Rate: "30/m",
			Secret: "convoy-secret-00001", Signature: "hmac", SignatureHeader: "X-Acme-Signature", SignatureHash: "sha512", SignatureEncoding: "base64",
		},
		"01B": {
			UID: "01B", Kind: "push", URL: "https://b.example/hooks", Topics: []string{"*"}, Disabled: true,
			Secret: "convoy-secret-00002", Signature: "hmac", SignatureHeader: "X-Acme-Signature", SignatureContent: "t-comma-body",
		},
		"01C": {
			UID: "01C", Kind: "push", URL: "https://c.example/hooks", Topics: []string{}, Timeout: wire.Duration(30 * time.Second),
			Secret: "convoy-secret-00003", Signature: "hmac", SignatureHeader: "X-Acme-Signature", SignatureHash: "sha512", SignatureEncoding: "base64",
		},
	}, found)
}

// manySvix and manyConvoy are the answers of 100 endpoints. A fifth of them are wrong here, and a
// tenth have headers, whose values the API hides.
func manySvix() string {
	var list, more []string
	for i := range 100 {
		url, types, headers := fmt.Sprintf("https://shop.example/%d", i), "invoice.paid", ""
		switch i % 10 {
		case 3:
			types = "invoice:paid"
		case 7:
			url = fmt.Sprintf("https://10.1.2.3/%d", i)
		case 8:
			headers = `"x-shop":"7"`
		}
		list = append(list, fmt.Sprintf(`{"id":"e%d","url":%q,"filterTypes":[%q]}`, i, url, types))
		at := fmt.Sprintf("/api/v1/app/acme/endpoint/e%d/", i)
		more = append(more, `{"path":"`+at+`secret/","answer":{"key":"whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"}}`, `{"path":"`+at+`headers/","answer":{"headers":{`+headers+`},"sensitive":[]}}`)
	}
	return `{"path":"/api/v1/app/acme/endpoint/","answer":{"data":[` + strings.Join(list, ",") + `],"done":true}}` + "\n" + strings.Join(more, "\n")
}

func manyConvoy() string {
	var list, more []string
	for i := range 100 {
		secret, headers := fmt.Sprintf("convoy-secret-%05d", i), "null"
		switch i % 10 {
		case 3, 7:
			secret = "short"
		case 8:
			headers = `{"type":"api_key","api_key":{"header_name":"x-key","header_value":"k"}}`
		}
		list = append(list, fmt.Sprintf(`{"uid":"E%d","project_id":"p1","url":"https://shop.example/%d","status":"active","secrets":[{"value":%q}],"authentication":%s}`, i, i, secret, headers))
		more = append(more, fmt.Sprintf(`{"endpoint_metadata":{"uid":"E%d"},"filter_config":{"event_types":["*"]}}`, i))
	}
	page := func(path string, content []string) string {
		return `{"path":"/api/v1/projects/p1` + path + `","answer":{"data":{"content":[` + strings.Join(content, ",") + `],"pagination":{"has_next_page":false}}}}` + "\n"
	}
	project := `{"path":"/api/v1/projects/p1","answer":{"data":{"uid":"p1","config":{"signature":{"header":"X-Acme-Signature","versions":[{"uid":"v1","hash":"SHA256","encoding":"hex"}]}}}}}` + "\n"
	return project + page("/endpoints", list) + page("/subscriptions", more)
}

func TestADryRunReportsWhatTheImportThenDoes(t *testing.T) {
	for system, text := range map[string]string{"svix": manySvix(), "convoy": manyConvoy()} {
		t.Run(system, func(t *testing.T) {
			_, api, _ := newTestDev(t, []string{"DATA_DIR=" + t.TempDir()}) // 800 calls take long in memory
			env := []string{"HOOKLADDER_URL=" + api}
			run := func(args ...string) result {
				return command(t, env, text, append([]string{"endpoints", "import", "-", "--from", system}, args...)...)
			}
			dry, got := run("--dry-run"), run()
			require.Equal(t, []int{exitFailed, exitFailed}, []int{dry.code, got.code})
			require.Contains(t, dry.err, "nothing was changed: 80 created, 0 changed, 0 unchanged, 20 wrong\n")
			require.Contains(t, got.err, "80 created, 0 changed, 0 unchanged, 20 wrong\n")
			require.Equal(t, got.out, dry.out, "and it names them")
			require.Equal(t, 20, strings.Count(dry.out, "\nendpoint "))

			dry, got = run("--dry-run"), run()
			require.Contains(t, dry.err, "nothing was changed: 0 created, 0 changed, 80 unchanged, 20 wrong\n")
			require.Contains(t, got.err, "0 created, 0 changed, 80 unchanged, 20 wrong\n", "the values of headers are the same")
			require.Equal(t, got.out, dry.out)

			text = strings.NewReplacer(`"x-shop":"7"`, `"x-shop":"8"`, `"header_value":"k"`, `"header_value":"l"`).Replace(text)
			dry, got = run("--dry-run"), run()
			require.Contains(t, dry.err, "nothing was changed: 0 created, 10 changed, 70 unchanged, 20 wrong\n")
			require.Contains(t, got.err, "0 created, 10 changed, 70 unchanged, 20 wrong\n")
			require.Equal(t, got.out, dry.out)
		})
	}
}

// A prune deletes only the endpoints that the saved answers do not have.
func TestAPruneBySavedAnswers(t *testing.T) {
	const page = `{"path":"/api/v1/app/acme/endpoint/","answer":{"data":[{"id":"x1","url":"https://acme.example/1"},{"id":"x2","url":"https://acme.example/2"}],"done":true}}`
	more := func(id string) string {
		return `{"path":"/api/v1/app/acme/endpoint/` + id + `/secret/","answer":{"key":"whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"}}
{"path":"/api/v1/app/acme/endpoint/` + id + `/headers/","answer":{"headers":{},"sensitive":[]}}
`
	}
	_, api, _ := newTestDev(t, nil)
	env := []string{"HOOKLADDER_URL=" + api}
	run := func(text string, args ...string) result {
		return command(t, env, text, append([]string{"endpoints", "import", "-", "--from", "svix"}, args...)...)
	}
	require.Equal(t, exitOK, run(page+more("x1")+more("x2")).code)
	require.Equal(t, exitOK, command(t, env, "", "endpoints", "create", "--uid", "other", "--tenant", "shop", "--url", "https://shop.example").code)
	one := strings.Replace(page, `,{"id":"x2","url":"https://acme.example/2"}`, "", 1) + more("x1")

	dry := run(one, "--prune", "--tenant", "acme", "--dry-run")
	require.Equal(t, "delete x2: 0 waiting\n", dry.out)
	require.Equal(t, exitFailed, dry.code)
	require.Contains(t, dry.err, "1 of 2 endpoints are not in the file")
	few := run(one, "--prune", "--tenant", "acme")
	require.Equal(t, exitFailed, few.code)
	require.Contains(t, few.err, "1 of 2 endpoints are not in the file")
	cut := run(strings.Replace(one, `"done":true`, `"done":false`, 1), "--prune", "--tenant", "acme", "--yes")
	require.Equal(t, exitFailed, cut.code)
	require.Contains(t, cut.err, "the last page of /api/v1/app/acme/endpoint/ is not in the file")
	got := run(one, "--prune", "--tenant", "acme", "--yes")
	require.Equal(t, exitOK, got.code, got.err)
	require.Contains(t, got.err, "1 unchanged, 0 wrong, 1 deleted")
	left := command(t, env, "", "endpoints", "export").out
	require.Contains(t, left, `"uid":"x1"`)
	require.Contains(t, left, `"uid":"other"`)
	require.NotContains(t, left, `"uid":"x2"`)
}

// A script that fails leaves a file, but not the exit code of success.
func TestAScriptOfThePageFailsWithAnAnswer(t *testing.T) {
	t.Parallel() // the scripts mostly wait for their programs
	redistest.Long(t)
	for file, of := range map[string]map[string]string{"outpost.jsonl": outpostAPI, "svix.jsonl": svixAPI, "convoy.jsonl": convoyAPI} {
		for missing := range of {
			t.Run(file+missing, func(t *testing.T) {
				t.Parallel()
				some := maps.Clone(of)
				delete(some, missing)
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if some[r.URL.RequestURI()] == "" {
						w.WriteHeader(http.StatusInternalServerError)
					}
					_, _ = w.Write([]byte(some[r.URL.RequestURI()])) // the client fails then
				}))
				defer server.Close()
				script := exec.CommandContext(t.Context(), "sh", "-c", migrateBlock(t, "> "+file))
				script.Dir = t.TempDir()
				for _, system := range []string{"OUTPOST", "SVIX", "CONVOY"} {
					script.Env = append(script.Env, system+"_URL="+server.URL, system+"_KEY=k", system+"_PROJECT=p1")
				}
				script.Env = append(script.Env, "PATH="+os.Getenv("PATH"))
				require.Error(t, script.Run())
			})
		}
	}
}

func TestAnEndpointThatIsTwiceInAFile(t *testing.T) {
	_, api, _ := newTestDev(t, nil)
	one := `{"id":"d","type":"webhook","topics":["*"],"config":{"url":"https://a.example"},"credentials":{"secret":"outpost-secret-0001"}}`
	list := func(tenant string) string {
		return `{"path":"/tenants/` + tenant + `/destinations","answer":[` + one + `]}`
	}
	run := func(text string) result {
		return command(t, []string{"HOOKLADDER_URL=" + api}, text, "endpoints", "import", "-", "--from", "outpost")
	}
	require.Equal(t, "create d\n", run(list("a")+list("a")).out)
	require.Contains(t, run(list("a")+list("b")).out, "endpoint 2: d: $.uid: is the same as in endpoint 1")
}

// The page's commands call this program in place of hookladder.
func TestThePageOfAMigrationImportsAndChangesTheSignature(t *testing.T) {
	_, api, _ := newTestDev(t, nil)
	env := []string{"HOOKLADDER_URL=" + api}
	const secret = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"
	answer := `{"path":"/tenants/a/destinations","answer":[{"id":"d","type":"webhook","topics":["*"],"config":{"url":"https://a.example"},"credentials":{"secret":"` + secret + `"}}]}`
	require.NoError(t, os.WriteFile("outpost.jsonl", []byte(answer), 0o600))
	for line := range strings.Lines(migrateBlock(t, "--dry-run")) {
		text, _, _ := strings.Cut(line, "#")
		got := command(t, env, "", strings.Fields(text)[1:]...)
		require.Equal(t, exitOK, got.code, got.err)
		require.Contains(t, got.err, "1 created")
	}

	steps := strings.Split(migrateBlock(t, "endpoints export"), " | ")
	require.Len(t, steps, 4, "the filter of jq has one too")
	exported := command(t, env, "", strings.Fields(steps[0])[1:]...)
	filter := exec.CommandContext(t.Context(), "sh", "-c", steps[1]+" | "+steps[2])
	filter.Stdin = strings.NewReader(exported.out)
	changed, err := filter.Output()
	require.NoError(t, err)
	got := command(t, env, string(changed), strings.Fields(steps[3])[1:]...)
	require.Equal(t, exitOK, got.code, got.out+got.err)
	require.Equal(t, "change d: signature, signature_header, signature_prefix\n", got.out)
	after := command(t, env, "", "endpoints", "export").out
	require.Contains(t, after, `"signature":"standard"`)
	require.Contains(t, after, `"secret":"`+secret+`"`)
}

func TestAnAnswerThatIsMissingOrUnknownStopsTheImport(t *testing.T) {
	first := `{"path":"/tenants?limit=100","answer":` + outpostAPI["/api/v1/tenants?limit=100"] + `}`
	for name, c := range map[string]struct{ from, text, want string }{
		"the last page": {"outpost", first, "the last page of /tenants is not in the file"},
		"an error":      {"outpost", first + "\n" + `{"path":"/tenants","answer":{"message":"not found"}}`, "document 2 /tenants: is not an answer that the import knows"},
		"an empty file": {"svix", "", "the file is empty"},
		"destinations":  {"outpost", `{"path":"/tenants","answer":{"models":[{"id":"acme"}],"pagination":{"next":null}}}`, "/tenants/acme/destinations is not in the file"},
		"endpoints":     {"svix", `{"path":"/app/","answer":{"data":[{"id":"app_1","uid":"acme"}],"done":true}}`, "/app/app_1/endpoint/ is not in the file"},
		"a secret": {"svix", `{"path":"/app/acme/endpoint/ep_1/headers/","answer":{"headers":{}}}{"path":"/app/acme/endpoint/","answer":{"data":[{"id":"ep_1","url":"https://a.example"}],"done":true}}`,
			"/app/acme/endpoint/ep_1/secret/ is not in the file"},
		"headers": {"svix", `{"path":"/app/acme/endpoint/","answer":{"data":[{"id":"ep_1","url":"https://a.example"}],"done":true}}`,
			"/app/acme/endpoint/ep_1/headers/ is not in the file"},
		"subscriptions": {"convoy", `{"data":{"content":[{"uid":"01A","project_id":"p1","url":"https://a.example","secrets":[]}]}}`, "/projects/p1/subscriptions is not in the file"},
		"a project": {"convoy", `{"data":{"content":[{"uid":"01A","project_id":"p1","url":"https://a.example"},{"uid":"s","endpoint_metadata":{"uid":"01A"},"filter_config":{"event_types":["*"]}}]}}`,
			"/projects/p1 is not in the file"},
		"half a file":    {"outpost", first[:40], "document 1 is not JSON"},
		"no tenant":      {"outpost", `[{"id":"d","type":"webhook"}]`, "has no tenant: save it with its path"},
		"another system": {"hooks", "", `--from "hooks": must be one of svix, convoy, outpost`},
	} {
		t.Run(name, func(t *testing.T) {
			got := command(t, []string{"HOOKLADDER_URL=http://127.0.0.1:1"}, c.text, "endpoints", "import", "-", "--from", c.from)
			require.NotEqual(t, exitOK, got.code)
			require.NotEqual(t, exitUnreachable, got.code, "it is found before the first call")
			require.Contains(t, got.err, c.want)
		})
	}
}

func TestTheAnswersOfAFileAreBounded(t *testing.T) {
	t.Parallel()
	const page = `{"path":"/app","answer":{"data":[],"done":true}}` + "\n"
	const most = 3 * int64(len(page))
	for text, want := range map[string]string{
		strings.Repeat(page, 4):                       "the file has more than 147 bytes: import it in parts, by tenant",
		page + `"` + strings.Repeat("a", 3*len(page)): "the file has more than 147 bytes",
		page + `{"path`:                               "document 2 is not JSON: unexpected EOF",
		"":                                            "the file is empty",
	} {
		_, _, err := foreignEntries(strings.NewReader(text), fromSvix, most)
		require.ErrorContains(t, err, want)
	}
	_, _, err := foreignEntries(strings.NewReader(strings.Repeat(page, 3)), fromSvix, most)
	require.NoError(t, err)
}

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

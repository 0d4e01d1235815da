package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each mistake gets an answer that names the flag or the argument as the person wrote it, and the
// cure as a command.
func TestAMistakeThatTheServerFindsIsNamedAsItWasTyped(t *testing.T) {
	_, api, _ := newTestDev(t, nil)
	environ := []string{"HOOKLADDER_URL=" + api}
	for line, want := range map[string]string{
		"deliveries|--status|foo":                                  "--status: must be one of scheduled, ready",
		"deliveries|--dead-reason|foo|--order|x":                   "--dead-reason: must be one of exhausted",
		"deliveries|--destination|shop-42":                         "--destination: there is no endpoint with this uid; a queue is written q_<its name>",
		"deliveries|--limit|3|--cursor|x":                          "--cursor: belongs to another list",
		"dead|--dead-reason|nope":                                  "--dead-reason: must be one of",
		"retry|--rate|x|--all|--yes":                               "--rate: is not a rate: write 100/s, 600/m or 50/h",
		"cancel|--status|dead|--all|--yes":                         "--status: a cancel takes only deliveries that are scheduled",
		"tail|--status-code|999":                                   "--status-code: must be 100 to 599",
		"audit|--what|nope":                                        "--what: must be one of endpoint.create",
		"endpoints|delete|nope":                                    "`hookladder endpoints list` lists them",
		"send|--topic|a|--body|1|--endpoint|nope":                  "`hookladder endpoints list` lists them",
		"send|--topic|a|--body|1|--url|http://x.example|--queue|q": "--queue: give one of --url, --endpoint and --queue",
		"dead|purge|--rate|0/s|--all|--yes":                        "--rate: must be 1 to 100000 a second",
		"endpoints|get|nope":                                       "`hookladder endpoints list` lists them",
		"endpoints|create|--url|ftp://x|--topic|a b":               "--topic: must be a topic",
		"endpoints|create|--url|http://x.example|--header|Host: x": "--header Host: can't be set",
		"pause|shop":                                "`hookladder endpoints list` lists them",
		"lanes|--destination|shop":                  "--destination: there is no endpoint with this uid",
		"link|--tenant|m7|--for|60d":                "--for: must be 1s to 30d",
		"link|revoke|lnk_x":                         "`hookladder link list` lists them",
		"jobs|stop|job_99":                          "`hookladder jobs` lists the jobs of the last 7 days",
		"send|--topic|a b|--body|1":                 "--topic: ",
		"send|--topic|a|--body|1|--max-attempts|-1": "--max-attempts: must be a whole number of 1 to 101",
		"send|--topic|a|--body|1|--require-match":   "or leave --require-match out",
		"send|--topic|a|--queue|a b|--body|1":       "--queue: must be 1 to 64 of",
		"send|--topic|a|--url|http://x.example|--raw|--body|x|--content-type|x": "--content-type: ",
	} {
		got := command(t, environ, "", strings.Split(line, "|")...)
		require.Contains(t, got.err, want, line)
		require.Contains(t, []int{exitFailed, exitNotFound}, got.code, line)
		require.NotRegexp(t, `\$\.|query\.|(GET|POST|DELETE) /v1`, got.err, line)
		if reads := !strings.Contains(line, "--yes") && (strings.HasPrefix(line, "d") || strings.HasPrefix(line, "audit")); reads {
			require.NotContains(t, got.err, "nothing was changed", line)
		}
	}
}

func TestWhyExitsWith3WhereTheDeliveryIsNot(t *testing.T) {
	_, api, _ := newTestDev(t, nil)
	environ := []string{"HOOKLADDER_URL=" + api}
	require.Equal(t, exitOK, command(t, environ, "", "send", "--id", "m", "--topic", "a", "--queue", "orders", "--body", "1").code)
	for _, destination := range []string{"nope", "q_nope", "http://nope.example"} {
		got := command(t, environ, "", "why", "m", "--destination", destination)
		require.Equal(t, exitNotFound, got.code, got.err)
		require.Contains(t, got.err, "`hookladder get m` shows its deliveries")
	}
}

func TestAnUnknownFlagNamesTheOneThatWasMeant(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"endpoints create --secret x":   "unknown flag: --secret: did you mean --secret-file?",
		"deliveries --reason gone":      "did you mean --dead-reason?",
		"deliveries --statuses dead":    "did you mean --status?",
		"deliveries --dead_reason gone": "did you mean --dead-reason?",
		"deliveries --destinaton x":     "did you mean --destination?",
		"export --format csv":           "did you mean --csv or --json?",
		"endpoints create --kind pull":  "did you mean --pull?",
		"deliveries --frob x":           "unknown flag: --frob; see hookladder deliveries --help",
	} {
		got := command(t, nil, "", strings.Fields(line)...)
		require.Equal(t, exitUsage, got.code, line)
		require.Contains(t, got.err, want, line)
	}
}

func TestAnEmptyAuditNamesTheFormOfItsFilters(t *testing.T) {
	environ, _ := newTestLanes(t, `{"data":[]}`, `{"data":[]}`)
	got := command(t, environ, "", "audit", "--by", "ops", "--target", "shop-42")
	require.Equal(t, exitOK, got.code)
	require.Contains(t, got.err, "no entry matches; --by ops: write key:ops for an API key, or link:<id> for a link; --target shop-42: an entry has the id of an endpoint")
	require.NotContains(t, command(t, environ, "", "audit", "--by", "system").err, "--by")
}

func TestAServerOnThisMachineNeedsNoScheme(t *testing.T) {
	_, api, _ := newTestDev(t, nil)
	host := strings.TrimPrefix(api, "http://")
	_, port, _ := strings.Cut(host, ":")
	for _, server := range []string{host, "localhost:" + port, host + "/"} {
		require.Equal(t, exitOK, command(t, []string{"HOOKLADDER_URL=" + server}, "", "ping").code, server)
		require.Equal(t, exitOK, command(t, nil, "", "ping", "--server", server).code, server)
	}
	for environ, want := range map[string]string{
		"HOOKLADDER_URL=hooks.example:80":   "HOOKLADDER_URL: a URL needs its scheme, as in https://hooks.example",
		"HOOKLADDER_URL=10.0.0.1":           "HOOKLADDER_URL: a URL needs its scheme",
		"HOOKLADDER_URL=http://a:geheim@x":  "HOOKLADDER_URL: must have no user",
		"HOOKLADDER_URL=http://x example":   "HOOKLADDER_URL: it is not a URL",
		"HOOKLADDER_URL=redis://127.0.0.1/": "HOOKLADDER_URL: it must begin with http:// or https://",
		"HOOKLADDER_KEY=a b":                "HOOKLADDER_KEY: has other characters",
	} {
		got := command(t, []string{environ}, "", "ping")
		require.Equal(t, exitUsage, got.code, environ)
		require.Contains(t, got.err, want)
		require.NotContains(t, got.err, "geheim")
	}
	require.Contains(t, command(t, nil, "", "ping", "--server", "hooks.example").err, "--server: a URL needs its scheme")
}

// dev left running answers the commands of the next chapter. Without the line, its empty store looks
// like a loss.
func TestACommandReportsThatDevAnswered(t *testing.T) {
	_, api, _ := newTestDev(t, nil)
	const line = " is hookladder dev, which loses all data when it ends\n"
	for _, args := range [][]string{
		{"get", "order_17"}, {"send", "--topic", "a", "--body", "1"}, {"ping"}, {"deliveries", "--json"}, {"consume", "orders", "--drain"},
		{"cancel", "--topic", "a", "--yes"},
	} {
		got := command(t, nil, "", append(args, "--server", api)...)
		require.Contains(t, got.err, api+line, args)
		require.Equal(t, 1, strings.Count(got.err, line), args)
		require.NotContains(t, got.out, line, args)
	}
	environ, _ := newTestLanes(t, `{"data":[]}`)
	require.Empty(t, command(t, environ, "", "deliveries").err)
}

func TestABodyThatIsMeantAsJSONIsNotSentAsText(t *testing.T) {
	t.Parallel()
	environ, calls := newTestLanes(t, `{"id":"a"}`, `{"id":"a"}`, `{"id":"a"}`)
	send := func(args ...string) result {
		return command(t, environ, "[1,", append([]string{"send", "--topic", "a"}, args...)...)
	}
	for _, c := range [][]string{
		{"--body begins like JSON", "--body", `{"a":1`},
		{"--body begins like JSON", "--body", " [1,2"},
		{"--body-file begins like JSON", "--body-file", mustKeep(t, `{a:1}`)},
		{"standard input begins like JSON"},
	} {
		got := send(c[1:]...)
		require.Equal(t, exitUsage, got.code)
		require.Contains(t, got.err, c[0])
		require.Contains(t, got.err, "pass --raw")
	}
	require.Empty(t, *calls)
	require.Equal(t, exitOK, send("--body", `{"a":1`, "--raw").code)
	require.Equal(t, exitOK, send("--body", `{{x}}`, "--content-type", "text/plain").code)
	require.Equal(t, exitOK, send("--body", `plain`).code)
}

func TestATenantsSecretThatSignsNothingIsNotPrinted(t *testing.T) {
	t.Parallel()
	const secret = "SIGNING_SECRET=whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"
	for _, environ := range [][]string{{secret}, {secret, "SIGNING_DERIVE=none"}} {
		got := command(t, environ, "", "secret", "--tenant", "m7")
		require.Equal(t, exitUsage, got.code)
		require.Empty(t, got.out)
		require.Contains(t, got.err, "--tenant: such a secret signs nothing")
		require.Contains(t, got.err, "Set SIGNING_DERIVE=tenant")
	}
}

package console_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/internal/console"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

func mustEndpoint(t *testing.T, text string) (e wire.EndpointView) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(text), &e))
	return e
}

const whole = `{"id":"ep_1","url":"https://a.example/","topics":["a.*","b"],"description":"one\ntwo","ladder":["15s","3m0s"],"timeout":"15s",` +
	`"max_in_flight":64,"rate":"50/s","headers":{"x-b":"***","x-a":"***"},"metadata":{"team":"a: b"},"success":{"status":["2xx","404"]},` +
	`"ordered":true,"disable_after":"120h0m0s","signature":"stripe"}`

func TestAFormThatWasNotEditedChangesNothing(t *testing.T) {
	texts := console.FormTexts(mustEndpoint(t, whole))
	require.Equal(t, "a.*, b", texts["topics"])
	require.Equal(t, "15s, 3m", texts["ladder"])
	require.Equal(t, "x-a: ***\nx-b: ***", texts["headers"])
	require.Equal(t, "2xx, 404", texts["success"])
	require.Equal(t, "on", texts["ordered"])
	require.Empty(t, console.ChangedFields(console.ShownFields(true, true), texts, texts))
	typed := map[string]string{}
	for name, text := range texts {
		typed[name] = text
	}
	typed["description"] = "one\r\ntwo " // as browsers send it
	require.Empty(t, console.ChangedFields(console.ShownFields(true, true), typed, texts))
}

func TestAFormBecomesAPatchOfWhatWasEdited(t *testing.T) {
	was := console.FormTexts(mustEndpoint(t, whole))
	for name, c := range map[string]struct{ field, text, patch string }{
		"a URL":                        {"url", " https://b.example/ ", `{"url":"https://b.example/"}`},
		"topics":                       {"topics", "a.*,c  d", `{"topics":["a.*","c","d"]}`},
		"no topics are the default":    {"topics", "", `{"topics":null}`},
		"a number":                     {"max_in_flight", "8", `{"max_in_flight":8}`},
		"a number that is none":        {"max_in_flight", "many", `{"max_in_flight":"many"}`},
		"a ladder":                     {"ladder", "1s, 2s", `{"ladder":["1s","2s"]}`},
		"no ladder":                    {"ladder", " ", `{"ladder":null}`},
		"a header less, one more":      {"headers", "x-a: ***\nx-c: 1:2", `{"headers":{"x-a":"***","x-b":null,"x-c":"1:2"}}`},
		"no headers":                   {"headers", "", `{"headers":null}`},
		"statuses":                     {"success", "204", `{"success":{"status":["204"],"body":null}}`},
		"a rule replaces the statuses": {"success", `{"body":"OK"}`, `{"success":{"status":null,"body":"OK"}}`},
		"a rule that is no JSON":       {"success", `{"body":`, `{"success":"{\"body\":"}`},
		"a switch":                     {"ordered", "", `{"ordered":false}`},
		"a choice":                     {"signature", "github", `{"signature":"github"}`},
	} {
		typed := map[string]string{}
		for n, text := range was {
			typed[n] = text
		}
		typed[c.field] = c.text
		got, err := json.Marshal(console.ChangedFields(console.ShownFields(true, true), typed, was))
		require.NoError(t, err, name)
		require.JSONEq(t, c.patch, string(got), name)
	}
	require.Empty(t, console.ChangedFields(console.ShownFields(true, false), map[string]string{"url": was["url"], "topics": was["topics"], "description": was["description"], "rate": "1/s"}, was), "a merchant sets no rate")
}

func TestAFormBecomesANewEndpoint(t *testing.T) {
	e, wrong := console.CreatedEndpoint(map[string]string{
		"url": "https://a.example/", "topics": "a", "tenant": "shop", "ladder": "1s,2s", "max_in_flight": "7", "headers": "x-a: 1", "success": "200", "disable_after": "0s",
	}, true)
	require.Empty(t, wrong)
	require.Equal(t, "shop", e.Tenant)
	require.Equal(t, []string{"a"}, e.Topics)
	require.Equal(t, 7, e.MaxInFlight)
	require.Equal(t, map[string]string{"x-a": "1"}, e.Headers)
	require.Equal(t, []string{"200"}, e.Success.Status)
	require.Empty(t, e.Success.Body)
	require.Zero(t, *e.DisableAfter)
	require.Equal(t, "1s,2s", e.Ladder.String())

	_, wrong = console.CreatedEndpoint(map[string]string{"max_in_flight": "many", "timeout": "soon", "ladder": "5x"}, true)
	require.Equal(t, "must be a whole number", wrong["max_in_flight"])
	require.Contains(t, wrong, "timeout")
	require.Contains(t, wrong, "ladder")
	require.Len(t, wrong, 3)

	e, wrong = console.CreatedEndpoint(map[string]string{"url": "https://a.example/", "tenant": "other", "rate": "1/s"}, false)
	require.Empty(t, wrong)
	require.Equal(t, wire.Endpoint{URL: "https://a.example/"}, e, "a merchant sets the basic fields alone")
}

func TestWhatTheAPISaysStandsAtItsField(t *testing.T) {
	wrong := console.WrongFields(&client.Problem{Problem: wire.Problem{Title: "Wrong", Errors: []wire.FieldError{
		{Path: "$.url", Detail: "must be absolute"}, {Path: "$.topics[1]", Detail: "must be a topic"}, {Path: "$.topics[2]", Detail: "is twice"},
		{Path: "$.headers.Host", Detail: "can't be set"}, {Path: "$.nothing", Detail: "is unknown"},
	}}}, console.ShownFields(true, true))
	require.Equal(t, map[string]string{
		"url": "must be absolute", "topics": "[1]: must be a topic; [2]: is twice", "headers": "Host: can't be set", "": "$.nothing: is unknown",
	}, wrong)
	require.Equal(t, map[string]string{"": "There is one: uid main"}, console.WrongFields(&client.Problem{Problem: wire.Problem{Title: "There is one", Detail: "uid main"}}, nil))
}

func TestARotationAsItWasTyped(t *testing.T) {
	r, wrong := console.RotationOf(map[string]string{"overlap": "7d", "secret": " "})
	require.Empty(t, wrong)
	require.Equal(t, 7*24*time.Hour, time.Duration(*r.Overlap))
	require.Empty(t, r.Secret)
	_, wrong = console.RotationOf(map[string]string{"overlap": "soon"})
	require.Contains(t, wrong, "overlap")
}

// What is chosen once, or told once, is in the form of a new endpoint only.
func TestAFormOfAnEndpointThatIsThereAsksForNothingThatStays(t *testing.T) {
	names := func(fields []console.FormField) (all []string) {
		for _, f := range fields {
			all = append(all, f.Name)
		}
		return all
	}
	once := []string{"tenant", "uid", "secret"}
	require.Subset(t, names(console.ShownFields(false, true)), once)
	for _, name := range once {
		require.NotContains(t, names(console.ShownFields(true, true)), name)
	}
}

// counted counts what is read of it.
type counted struct {
	io.Reader
	read int
}

func (c *counted) Read(p []byte) (n int, err error) {
	n, err = c.Reader.Read(p)
	c.read += n
	return n, err
}

func TestOfAFormWithoutAVisitorAtMost4KiBAreRead(t *testing.T) {
	r := newFormsRig(t)
	for _, path := range []string{"/console/sign-in", "/console/sign-out", "/link/sign-out", "/link/" + linkTokens[0]} {
		body := &counted{Reader: strings.NewReader("key=right&x=" + strings.Repeat("x", 130_000))}
		q := httptest.NewRequest(http.MethodPost, path, body)
		q.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		r.pages.ServeHTTP(w, q)
		require.Equal(t, http.StatusSeeOther, w.Code, path)
		require.Empty(t, w.Header().Get("Set-Cookie"), path)
		require.LessOrEqual(t, body.read, 4<<10+1, path)
	}
	require.Empty(t, r.shares)
	q := httptest.NewRequest(http.MethodPost, "/console/sign-in", strings.NewReader("key=right&to=%2Fconsole%2Fdead"))
	q.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	r.pages.ServeHTTP(w, q)
	require.Equal(t, http.StatusSeeOther, w.Code)
	require.Equal(t, "/console/dead", w.Header().Get("Location"))
}

func TestAFormOfAVisitorTakesFromItsShareOfTheMemory(t *testing.T) {
	r := newFormsRig(t)
	r.do(0, http.MethodPost, "/console/endpoints/ep_1/test", url.Values{"a": {"b"}})
	r.do(0, http.MethodPost, "/link/endpoints/ep_1/test", url.Values{"a": {"b"}})
	require.Equal(t, []string{"ops", "released", "links:", "released"}, r.shares)
	require.Len(t, r.acts, 2)
	r.full = true
	w := r.do(0, http.MethodPost, "/console/endpoints/ep_1/test", url.Values{"a": {"b"}})
	require.Equal(t, http.StatusTooManyRequests, r.load(0, w.Header().Get("Location")).Code)
	require.Len(t, r.acts, 2, "nothing was done")
}

package httpapi_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// document is as much of an OpenAPI document as is looked at.
type document struct {
	Info struct {
		License struct{ Name, Identifier string }
	}
	Servers []struct{ URL string }
	Paths   map[string]map[string]struct {
		Summary     string
		OperationID string
		Security    []map[string][]string
		RequestBody *struct {
			Required bool
			Content  map[string]struct{ Schema json.RawMessage }
		}
		Responses map[string]struct {
			Description string
			Headers     map[string]json.RawMessage
		}
	}
	Components struct {
		Schemas map[string]struct {
			Properties           map[string]json.RawMessage
			Required             []string
			AdditionalProperties bool
		}
	}
}

func mustDocument(t testing.TB) document {
	t.Helper()
	var d document
	require.NoError(t, json.Unmarshal(Get(newTestAPI(t, &Fake{}), "/openapi.json").Body.Bytes(), &d))
	return d
}

func TestTheDocumentSaysWhoNeedsAKey(t *testing.T) {
	d := mustDocument(t)
	open := 0
	for path, methods := range d.Paths {
		for method, o := range methods {
			require.NotNil(t, o.Security, "%s %s: none is written as []", method, path)
			if len(o.Security) == 0 {
				open++
				require.NotContains(t, o.Responses, "401", "%s %s", method, path)
				continue
			}
			require.Contains(t, o.Responses, "401", "%s %s", method, path)
		}
	}
	require.Equal(t, 3, open, "healthz, readyz and the public keys")
	require.Empty(t, d.Paths["/.well-known/webhook-keys"]["get"].Security)
}

// TestTheDocumentHasWhatLintersAskFor holds the rules that redocly's recommended
// set has and the framework does not keep by itself.
func TestTheDocumentHasWhatLintersAskFor(t *testing.T) {
	d := mustDocument(t)
	require.Equal(t, "/", d.Servers[0].URL)
	require.Equal(t, "Apache-2.0", d.Info.License.Identifier)
	ids := map[string]bool{}
	for path, methods := range d.Paths {
		for method, o := range methods {
			require.NotEmpty(t, o.Summary, "%s %s", method, path)
			require.False(t, ids[o.OperationID], o.OperationID)
			ids[o.OperationID] = true
			refuses := false
			for status := range o.Responses {
				refuses = refuses || status[0] == '4'
			}
			require.True(t, refuses, "%s %s has no 4xx answer", method, path)
		}
	}
}

func TestTheDocumentHasTheBodiesOfEndpoints(t *testing.T) {
	d := mustDocument(t)
	create := d.Paths["/v1/endpoints"]["post"]
	require.True(t, create.RequestBody.Required)
	require.JSONEq(t, `{"$ref":"#/components/schemas/Endpoint"}`, string(create.RequestBody.Content["application/json"].Schema))
	require.Contains(t, create.Responses, "201")
	require.Contains(t, create.Responses["409"].Description, "taken")
	rotate := d.Paths["/v1/endpoints/{id}/rotate-secret"]["post"]
	require.False(t, rotate.RequestBody.Required)
	require.Contains(t, rotate.Responses["500"].Description, "sealed")
	retry := d.Paths["/v1/messages/{id}/retry"]["post"].Responses["409"].Description
	for _, word := range []string{"ready", "in-flight", "order", "delivered", "expired", "disabled", "deleted"} {
		require.Contains(t, retry, word)
	}

	e := d.Components.Schemas["Endpoint"]
	require.Empty(t, e.Required, "one of kind pull has no url")
	require.False(t, e.AdditionalProperties)
	view := d.Components.Schemas["EndpointView"]
	require.Subset(t, view.Required, []string{"id", "state", "topics", "signature", "created_at"})
	require.True(t, view.AdditionalProperties)

	body := d.Paths["/v1/endpoints/{id}"]["patch"].RequestBody
	require.Equal(t, body.Content["application/json"], body.Content["application/merge-patch+json"])
	patch := d.Components.Schemas["EndpointPatch"]
	require.Empty(t, patch.Required)
	require.False(t, patch.AdditionalProperties)
	for name := range view.Properties {
		_, ok := patch.Properties[name]
		require.Equal(t, name != "secret", ok, "a patch may repeat an answer: %s", name)
	}
}

// No other test finds a field that only the document or only the API has.
func TestTheDocumentKnowsEveryFieldOfAnEndpoint(t *testing.T) {
	d := mustDocument(t)
	h := newTestAPI(t, &Fake{})
	for name := range d.Components.Schemas["EndpointView"].Properties {
		w := Post(h, "/v1/endpoints", `{"`+name+`":[[]]}`)
		require.NotContains(t, w.Body.String(), "is unknown", name)
		taken := !strings.Contains(string(d.Components.Schemas["Endpoint"].Properties[name]), "Read-only")
		reported := strings.Contains(w.Body.String(), "read-only") || strings.Contains(w.Body.String(), "made by the server")
		require.Equal(t, taken, !reported, name)
	}
}

// What an answer tells beside its fields is of use only to clients that know of it.
func TestTheDocumentKnowsWhatProblemsTellBeside(t *testing.T) {
	d := mustDocument(t)
	require.Contains(t, d.Components.Schemas["Problem"].Properties, "results", "of a batch of which nothing could be stored")
	for path, methods := range d.Paths {
		for method, o := range methods {
			for status, name := range map[string]string{"401": "WWW-Authenticate", "429": "Retry-After", "503": "Retry-After"} {
				if r, there := o.Responses[status]; there {
					require.Contains(t, r.Headers, name, "%s %s %s", method, path, status)
				}
			}
			require.Empty(t, o.Responses["422"].Headers, "%s %s", method, path)
		}
	}
}

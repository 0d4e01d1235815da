// Package openapi_test holds the OpenAPI document to the real server: what the one accepts, the
// other accepts.
package openapi_test

import (
	"bytes"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/signer"
)

// operation is the part of an operation that the tests read.
type operation struct {
	method, path string
	OperationID  string
	Parameters   []struct {
		Name, In string
		Schema   map[string]any
		Example  any
	}
	RequestBody struct {
		Required bool
		Content  map[string]struct{ Example any }
	}
	Responses map[string]struct {
		Content map[string]struct{ Example any }
	}
}

// world is a server with its document.
type world struct {
	t          testing.TB
	url        string
	text       []byte // of the document
	operations []operation
	compiler   *jsonschema.Compiler
}

const (
	resource = "openapi.json"
	key      = "key-of-these-examples"
)

func newWorld(t testing.TB) *world {
	t.Helper()
	redistest.Long(t)
	path, err := kit.FastBinary()
	require.NoError(t, err)
	p, err := kit.Start(kit.Command{
		Name: "hookladder serve", Path: path, Args: []string{"serve"},
		Env: kit.Environ(redistest.Start(t).URL(), signer.NewSecret(), "PUBLIC_URL=https://hooks.example", "API_KEYS="+key+":admin:test"),
	})
	require.NoError(t, err)
	t.Cleanup(p.Kill)
	i, err := kit.Serve(t.Context(), p)
	require.NoError(t, err)
	require.NoError(t, i.WaitReady(t.Context()))
	w := &world{t: t, url: i.URL, compiler: jsonschema.NewCompiler()}
	status, _, text := w.send("GET", "/openapi.json", nil)
	require.Equal(t, 200, status)
	w.text = text
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	require.NoError(t, err)
	require.NoError(t, w.compiler.AddResource(resource, doc))
	var d struct {
		Paths map[string]map[string]operation
	}
	require.NoError(t, json.Unmarshal(text, &d))
	for path, methods := range d.Paths {
		for method, o := range methods {
			o.method, o.path = strings.ToUpper(method), path
			w.operations = append(w.operations, o)
		}
	}
	return w
}

// send makes a call. A nil body is none.
func (w *world) send(method, target string, body []byte) (status int, contentType string, answer []byte) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), method, w.url+target, bytes.NewReader(body))
	require.NoError(w.t, err)
	r.Header.Set("Authorization", "Bearer "+key)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(r)
	require.NoError(w.t, err)
	answer, err = io.ReadAll(resp.Body)
	require.NoError(w.t, err)
	require.NoError(w.t, resp.Body.Close())
	contentType, _, _ = mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return resp.StatusCode, contentType, answer
}

// schema compiles the schema at a place of the document.
func (w *world) schema(place ...string) *jsonschema.Schema {
	w.t.Helper()
	for i := range place {
		place[i] = url.PathEscape(strings.NewReplacer("~", "~0", "/", "~1").Replace(place[i]))
	}
	s, err := w.compiler.Compile(resource + "#/" + strings.Join(place, "/"))
	require.NoError(w.t, err)
	return s
}

// body is the schema of an operation's body.
func (w *world) body(o *operation) *jsonschema.Schema {
	return w.schema("paths", o.path, strings.ToLower(o.method), "requestBody", "content", "application/json", "schema")
}

// target is the path of an operation with its examples.
func (o *operation) target() string {
	path := o.path
	for _, p := range o.Parameters {
		if p.In == "path" {
			path = strings.ReplaceAll(path, "{"+p.Name+"}", url.PathEscape(p.Example.(string)))
		}
	}
	return path
}

// accepts reports whether a schema accepts a JSON text.
func accepts(t testing.TB, s *jsonschema.Schema, text []byte) (bool, error) {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	require.NoError(t, err, "%s", text)
	err = s.Validate(v)
	return err == nil, err
}

// requireDeclared checks a response against the document.
func (w *world) requireDeclared(o *operation, status int, contentType string, answer []byte) {
	w.t.Helper()
	code := strconv.Itoa(status)
	r, ok := o.Responses[code]
	require.True(w.t, ok, "%s does not declare %d: %s", o.OperationID, status, answer)
	if len(r.Content) == 0 {
		require.Empty(w.t, answer, o.OperationID)
		return
	}
	require.Contains(w.t, r.Content, contentType, "%s %d", o.OperationID, status)
	if !strings.HasSuffix(contentType, "json") {
		return
	}
	ok, err := accepts(w.t, w.schema("paths", o.path, strings.ToLower(o.method), "responses", code, "content", contentType, "schema"), answer)
	require.True(w.t, ok, "%s %d: %s\n%v", o.OperationID, status, answer, err)
}

// refused reports whether a status says that the request itself is wrong.
func refused(status int) bool { return status == 400 || status == 413 || status == 422 }

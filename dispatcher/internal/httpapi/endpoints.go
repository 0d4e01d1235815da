package httpapi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/internal/callers"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/api"
	"github.com/hookladder/hookladder/dispatcher/internal/input"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/signer"
)

// Endpoints registers, reads and changes endpoints. Methods return dispatcher.ErrNoEndpoint if no
// endpoint has the id or uid.
type Endpoints interface {
	// CreateEndpoint registers an endpoint, whose secret may be missing. If an equal endpoint has
	// the uid, created is false. If another one has it, CreateEndpoint returns
	// dispatcher.ErrTaken.
	CreateEndpoint(ctx context.Context, e *dispatcher.Endpoint) (view dispatcher.EndpointView, created bool, err error)
	// TryCreate returns what CreateEndpoint would return, and stores nothing.
	TryCreate(ctx context.Context, e *dispatcher.Endpoint) (view dispatcher.EndpointView, created bool, err error)
	// Endpoint returns one endpoint.
	Endpoint(ctx context.Context, name string) (dispatcher.EndpointView, error)
	// Endpoints returns a page of endpoints.
	Endpoints(ctx context.Context, f dispatcher.EndpointFilter) (views []dispatcher.EndpointView, next string, err error)
	// PublicKeys returns a page of public keys from a cache.
	PublicKeys(ctx context.Context, f dispatcher.PublicKeyFilter) (dispatcher.PublicKeyPage, error)
	// ChangeEndpoint calls change with a copy and stores the copy. It retries with another call
	// of change after a race. If change changes nothing, nothing is stored.
	ChangeEndpoint(ctx context.Context, name string, change func(e *dispatcher.Endpoint) error) (dispatcher.EndpointView, error)
	// TryChange returns what ChangeEndpoint would return, and stores nothing.
	TryChange(ctx context.Context, name string, change func(e *dispatcher.Endpoint) error) (dispatcher.EndpointView, error)
	// DeleteEndpoint deletes an endpoint, and returns the number of deliveries that it cancels.
	DeleteEndpoint(ctx context.Context, name string) (cancelled int, err error)
	// RotateSecret adds another secret to an endpoint. If next is zero, it creates one.
	RotateSecret(ctx context.Context, name string, next signer.Secret, overlap time.Duration) (dispatcher.EndpointView, error)
}

const endpointPath = "/v1/endpoints/{id}"

// dryRun asks for the response of a call without its change.
var dryRun = api.OfFlag("dry_run", "true: only check the call. The response is the one that the call would have, or the same problem. Nothing is stored, audited or announced, and a new endpoint has neither id nor secret.")

func (s *server) endpointOperations() []api.Operation {
	one := api.OK(exampleEndpointView)
	return []api.Operation{
		{
			ID: "create-endpoint", Method: "POST", Path: "/v1/endpoints", Scope: callers.Admin, Link: api.ManagingLink, Audit: "endpoint.create",
			Summary: "Register an endpoint; the answer holds its secret where it is new", Do: s.createEndpoint,
			Query: []*api.Param{dryRun}, Body: exampleEndpoint, Draw: endpointSchema, Limit: endpointBytes, Answers: map[int]any{201: exampleEndpointCreated, 200: exampleEndpointView},
			Problems: []*api.Kind{api.Taken, api.Registered},
		},
		{
			ID: "list-endpoints", Method: "GET", Path: "/v1/endpoints", Scope: callers.Read, Link: api.AnyLink,
			Summary: "List endpoints, newest first", Do: s.endpoints,
			Answers: api.OK(exampleEndpointPage), Query: api.OfFilter(client.EndpointFilter{}),
			Problems: []*api.Kind{api.Malformed},
		},
		{
			ID: "get-endpoint", Method: "GET", Path: endpointPath, Scope: callers.Read, Link: api.AnyLink,
			Summary: "Read an endpoint, without its secrets", Do: s.endpoint,
			Subject: endpointSubject, Answers: one,
		},
		{
			ID: "patch-endpoint", Method: "PATCH", Path: endpointPath, Scope: callers.Admin, Link: api.ManagingLink, Audit: "endpoint.update",
			Summary: "Change an endpoint; its waiting deliveries follow the change", Do: s.patchEndpoint,
			Subject: endpointSubject, Query: []*api.Param{dryRun}, Body: examplePatch, Draw: patchSchema, Limit: endpointBytes, Media: mediaPatch, Answers: one,
			Problems: []*api.Kind{api.Changed, api.Sealed},
		},
		{
			ID: "delete-endpoint", Method: "DELETE", Path: endpointPath, Scope: callers.Admin, Audit: "endpoint.delete",
			Summary: "Delete an endpoint and cancel its waiting deliveries", Do: s.deleteEndpoint,
			Subject: endpointSubject, Answers: api.OK(exampleEndpointDeleted),
		},
	}
}

// holdOperations returns the calls that pause, resume and confirm endpoints.
func (s *server) holdOperations() []api.Operation {
	one := api.OK(exampleEndpointView)
	return []api.Operation{
		{
			ID: "pause-endpoint", Method: "POST", Path: endpointPath + "/pause", Scope: callers.Admin, Link: api.ManagingLink, Audit: "endpoint.pause",
			Summary: "Pause the deliveries to an endpoint", Do: s.pauseEndpoint,
			Subject: endpointSubject, Answers: one,
			Problems: []*api.Kind{api.Changed, api.Sealed},
		},
		{
			ID: "resume-endpoint", Method: "POST", Path: endpointPath + "/resume", Scope: callers.Admin, Link: api.ManagingLink, Audit: "endpoint.resume",
			Summary: "Resume an endpoint that is paused or disabled, or whose breaker is open", Do: s.resumeEndpoint,
			Subject: endpointSubject, Answers: one,
			Problems: []*api.Kind{api.Changed, api.Sealed},
		},
		{
			ID: "confirm-endpoint", Method: "POST", Path: endpointPath + "/confirm", Scope: callers.Admin, Audit: "endpoint.confirm",
			Summary: "Make the url that a link set the operator's, so that headers are sent to it", Do: s.confirmEndpoint,
			Subject: endpointSubject, Body: exampleConfirmation, Draw: confirmationSchema, Limit: rotationBytes, Answers: one,
			Problems: []*api.Kind{api.Changed, api.Sealed},
		},
	}
}

// endpointSubject is an endpoint in a path.
var endpointSubject = &api.Subject{Name: "id", Doc: "The id or the uid of the endpoint.", Schema: api.NameForm.Schema, Example: "merchant-7", Check: api.Known(dispatcher.ValidName, dispatcher.ErrNoEndpoint)}

// endpointBytes limits the description of an endpoint. All its fields at their largest have about
// 55 KiB, and space and escapes may double that.
const endpointBytes = 128 << 10

// mediaPatch is the media type of a JSON Merge Patch. Plain JSON is accepted too.
const mediaPatch = "application/merge-patch+json"

// createEndpoint serves POST /v1/endpoints.
func (s *server) createEndpoint(ctx context.Context, q *api.Request) (*api.Response, error) {
	if q.View.Endpoint != "" { // a link for this one endpoint
		return nil, dispatcher.ErrNoEndpoint
	}
	p, err := api.Decode(q, decodeEndpoint)
	if err != nil {
		return nil, err
	}
	if p.Value != nil {
		policy, l := s.policyOf(ctx)
		if l != nil {
			p.Value.Endpoint = ofLink(p.Value.Endpoint, l.View.Tenant)
		}
		p.Wrong = api.JoinErrors(p.Wrong, p.Value.Validate(policy))
		if l != nil {
			p.Wrong = api.JoinErrors(p.Wrong, dispatcher.CheckLinkTopics(p.Value.Topics, nil, l.View.Endpoint != ""))
		}
	}
	if err := api.WrongFields(p.Wrong); err != nil {
		return nil, err
	}
	e := p.Value.Endpoint
	e.ID = dispatcher.NewEndpointID()
	where := "url " + api.WithoutSecrets(e.URL)
	if e.Pull {
		where = "kind " + api.KindPull
	}
	create := s.o.Endpoints.CreateEndpoint
	if q.Flag(dryRun.Name) {
		q.Idle, create = true, s.o.Endpoints.TryCreate
	}
	view, created, err := create(ctx, e)
	made := dispatcher.AuditEntry{Tenant: e.Tenant, Detail: strings.TrimSpace(where + " " + e.UID)}
	if err == nil {
		made.Target = view.ID
	}
	if err == nil && !created {
		made.Detail += ", an equal one was there"
	}
	q.RecordMade(ctx, made, err)
	if err != nil {
		return nil, err
	}
	w := outwardEndpoint(q, wireEndpoint(&view))
	if !created {
		return api.JSON(http.StatusOK, w)
	}
	switch {
	case q.Idle: // neither of the two will be those of the endpoint
		w.ID, w.SecretFingerprint = "", ""
	case len(view.Secrets) > 0: // only this response has it
		w.Secret = view.Secrets[0].Secret.Reveal()
	}
	return api.JSON(http.StatusCreated, w)
}

// endpoint serves GET /v1/endpoints/{id}.
func (s *server) endpoint(ctx context.Context, q *api.Request) (*api.Response, error) {
	view, err := s.o.Endpoints.Endpoint(ctx, q.ID())
	if err != nil {
		return nil, err
	}
	return api.JSON(http.StatusOK, outwardEndpoint(q, wireEndpoint(&view)))
}

// pauseEndpoint serves POST /v1/endpoints/{id}/pause.
func (s *server) pauseEndpoint(ctx context.Context, q *api.Request) (*api.Response, error) {
	if _, err := s.o.Lanes.Pause(ctx, q.ID(), ""); err != nil {
		return nil, err
	}
	return s.endpoint(ctx, q)
}

// resumeEndpoint serves POST /v1/endpoints/{id}/resume.
func (s *server) resumeEndpoint(ctx context.Context, q *api.Request) (*api.Response, error) {
	if _, err := s.o.Lanes.Resume(ctx, q.ID(), ""); err != nil {
		return nil, err
	}
	return s.endpoint(ctx, q)
}

// endpoints serves GET /v1/endpoints.
func (s *server) endpoints(ctx context.Context, q *api.Request) (*api.Response, error) {
	f := dispatcher.EndpointFilter{Tenants: q.All("tenant"), Limit: q.Limit(), Cursor: q.Cursor(), View: q.View}
	states, like := q.All("state"), strings.ToLower(q.One("like"))
	var views []dispatcher.EndpointView
	var next string
	for range matchingPages {
		var err error
		if views, next, err = s.listed(ctx, f); err != nil {
			return nil, err
		}
		views = slices.DeleteFunc(views, func(v dispatcher.EndpointView) bool {
			return len(states) > 0 && !slices.Contains(states, string(v.State)) || !alike(q, &v, like)
		})
		if len(views) > 0 || next == "" {
			break
		}
		f.Cursor = next
	}
	views = own(q, views, func(e *dispatcher.EndpointView) (string, dispatcher.Lane) { return e.Tenant, e.Lane() })
	data := api.Convert(views, func(e *dispatcher.EndpointView) wire.EndpointView { return outwardEndpoint(q, wireEndpoint(e)) })
	return api.JSON(http.StatusOK, wire.EndpointPage{Data: data, NextCursor: api.NextCursor(next)})
}

// matchingPages is how many pages one call reads until an endpoint matches state and like.
const matchingPages = 20

// alike reports whether the uid, the tenant or the host of an endpoint has a text in it. A link can't
// see the others.
func alike(q *api.Request, v *dispatcher.EndpointView, text string) bool {
	if text == "" {
		return true
	}
	u, err := url.Parse(v.URL)
	if err == nil && strings.Contains(strings.ToLower(u.Host), text) {
		return true
	}
	return !q.Linked() && (strings.Contains(strings.ToLower(v.UID), text) || strings.Contains(strings.ToLower(v.Tenant), text))
}

// listed returns a page of endpoints: the only one for a link that is for one.
func (s *server) listed(ctx context.Context, f dispatcher.EndpointFilter) ([]dispatcher.EndpointView, string, error) {
	if f.View.Endpoint == "" {
		return s.o.Endpoints.Endpoints(ctx, f)
	}
	view, err := s.o.Endpoints.Endpoint(ctx, f.View.Endpoint)
	return []dispatcher.EndpointView{view}, "", err
}

// patchEndpoint serves PATCH /v1/endpoints/{id}.
func (s *server) patchEndpoint(ctx context.Context, q *api.Request) (*api.Response, error) {
	p, err := api.Decode(q, decodePatch)
	if err != nil {
		return nil, err
	}
	if q.Linked() && !p.onlyNames(fieldsOfLink) {
		return nil, dispatcher.ErrNoEndpoint
	}
	policy, l := s.policyOf(ctx)
	return s.change(ctx, q, func(e, before *dispatcher.Endpoint) (detail string, err error) {
		wrong := p.apply(e, policy)
		if l != nil && !slices.Equal(before.Topics, e.Topics) {
			wrong = api.JoinErrors(wrong, dispatcher.CheckLinkTopics(e.Topics, before.AllowedTopics(), l.View.Endpoint != ""))
		}
		if e.NoteSetter(before, l != nil); e.Unchanged(before) {
			q.Idle = true
		}
		return p.fields(), api.WrongFields(wrong)
	})
}

// change changes an endpoint, and names the headers that this releases and holds.
func (s *server) change(ctx context.Context, q *api.Request, change func(e, before *dispatcher.Endpoint) (detail string, err error)) (*api.Response, error) {
	var before *dispatcher.Endpoint
	run := s.o.Endpoints.ChangeEndpoint
	if q.Flag(dryRun.Name) {
		q.Idle, run = true, s.o.Endpoints.TryChange
	}
	view, err := run(ctx, q.ID(), func(e *dispatcher.Endpoint) error {
		if len(e.Secrets) == 0 { // the secrets could not be opened, and would be lost
			return dispatcher.ErrSealed
		}
		before = e.Clone()
		detail, err := change(e, before)
		if err != nil {
			return err
		}
		_, l := s.policyOf(ctx)
		e.NoteSetter(before, l != nil)
		q.Record(ctx, dispatcher.AuditEntry{Target: e.ID, Tenant: e.Tenant, Detail: detail + namedEndpoint(", releases ", e.Released(before)) + namedEndpoint(", holds ", e.HeldHeaders())})
		return nil
	})
	if err != nil {
		return nil, err
	}
	w := wireEndpoint(&view)
	w.ReleasedHeaders = view.Released(before)
	return api.JSON(http.StatusOK, outwardEndpoint(q, w))
}

// namedEndpoint returns the names of headers for the audit, or nothing if there are none.
func namedEndpoint(what string, headers []string) string {
	if len(headers) == 0 {
		return ""
	}
	return what + strings.Join(headers, " ")
}

// policyOf returns the policy for a caller's changes. It returns the caller as well if it is a
// link.
func (s *server) policyOf(ctx context.Context) (dispatcher.Policy, *dispatcher.Browser) {
	if c, ok := dispatcher.BrowserOf(ctx); ok && c.Linked() {
		return s.o.Policy.OfLink(), &c
	}
	return s.o.Policy, nil
}

// fieldsOfLink are the fields of an endpoint that a link may set.
var fieldsOfLink = []string{"url", "topics", "description"}

// ofLink returns the endpoint that a link creates from the given one: it has the link's tenant,
// and no other fields than fieldsOfLink.
func ofLink(e *dispatcher.Endpoint, tenant string) *dispatcher.Endpoint {
	return &dispatcher.Endpoint{Tenant: tenant, URL: e.URL, Topics: e.Topics, Description: e.Description, Signature: signer.Standard}
}

// confirmation is the body of a call to confirm a URL.
type confirmation struct{ url string }

var confirmationFields = api.Fieldset[confirmation]{
	{Name: "url", Set: func(c *confirmation, v jsontext.Value) error { return api.Filled(&c.url, v) }},
}

func decodeConfirmation(d *api.Decoder) api.Decoded[confirmation] {
	return confirmationFields.Fill(d, api.Single, &confirmation{})
}

// confirmEndpoint serves POST /v1/endpoints/{id}/confirm. The operator then owns the URL, so it
// may be in the operator's networks and gets the headers.
func (s *server) confirmEndpoint(ctx context.Context, q *api.Request) (*api.Response, error) {
	p, err := api.Decode(q, decodeConfirmation)
	if err == nil && len(p.Wrong) == 0 && p.Value.url == "" {
		p.Wrong = []dispatcher.FieldError{{Path: "$.url", Detail: "is needed: the url that you have read"}}
	}
	if err == nil && len(p.Wrong) == 0 {
		if _, bad := dispatcher.ParseURL(p.Value.url); bad != nil {
			p.Wrong = []dispatcher.FieldError{{Path: "$.url", Detail: bad.Error()}}
		}
	}
	if err == nil {
		err = api.WrongFields(p.Wrong)
	}
	if err != nil {
		return nil, err
	}
	return s.change(ctx, q, func(e, _ *dispatcher.Endpoint) (detail string, err error) {
		if e.URL != p.Value.url {
			return "", &api.Problem{Kind: api.Changed, Detail: "the endpoint has another url by now: read it, and confirm that one if it is right"}
		}
		for _, wrong := range e.Validate(s.o.Policy) {
			if wrong.Path == "$.url" {
				return "", api.InvalidFields([]dispatcher.FieldError{wrong})
			}
		}
		e.Confirm()
		return "url " + api.WithoutSecrets(e.URL), nil
	})
}

// deleteEndpoint serves DELETE /v1/endpoints/{id}.
func (s *server) deleteEndpoint(ctx context.Context, q *api.Request) (*api.Response, error) {
	cancelled, err := s.o.Endpoints.DeleteEndpoint(ctx, q.ID())
	if err != nil {
		return nil, err
	}
	return api.JSON(http.StatusOK, wire.EndpointDeleted{Cancelled: cancelled})
}

// patch is a JSON Merge Patch (RFC 7396) of an endpoint. Omitted fields do not change, null is
// the default, and objects are merged member by member. It may repeat a response, because
// read-only fields are ignored.
type patch struct {
	steps []step
	wrong []dispatcher.FieldError // errors in the patch of any endpoint
}

// step changes one field.
type step struct {
	field *api.Field[endpointDraft]
	value jsontext.Value
}

// decodePatch parses the body of PATCH /v1/endpoints/{id}.
func decodePatch(d *api.Decoder) (p patch) {
	_, p.wrong = endpointFields.Read(d, api.Single, func(i int, v jsontext.Value) error {
		f := &endpointFields[i]
		switch {
		case f.Set == nil: // a patch may repeat a response, which may be outdated
			return nil
		case f.Why != "":
			return errors.New(f.Why)
		case v.Kind() != 'n':
			v = v.Clone()
		case f.Null == "":
			return errors.New("must not be null; leave it out")
		default:
			v = jsontext.Value(f.Null)
		}
		p.steps = append(p.steps, step{f, v})
		return nil
	})
	return p
}

// apply changes an endpoint, and returns all errors of the change. It ignores errors of fields
// that the patch does not name, because settings may have changed after they were set.
func (p *patch) apply(e *dispatcher.Endpoint, l dispatcher.Policy) []dispatcher.FieldError {
	wrong := p.wrong[:len(p.wrong):len(p.wrong)]
	draft := &endpointDraft{Endpoint: e, given: map[string]bool{}}
	for _, s := range p.steps {
		change := s.field.Merge
		if change == nil {
			change = s.field.Set
		}
		if err := change(draft, s.value); err != nil {
			wrong = append(wrong, input.FieldAt("$."+s.field.Name, err))
		}
	}
	for name, isNew := range draft.given { // now that the patch's own url is set
		e.NoteHeader(name, isNew, p.names("$.url"))
	}
	var more []dispatcher.FieldError
	for _, w := range e.Validate(l) {
		if p.names(w.Path) {
			more = append(more, w)
		}
	}
	return api.JoinErrors(wrong, more)
}

// fields returns the names of the fields that the patch changes.
func (p *patch) fields() string {
	names := make([]string, len(p.steps))
	for i, s := range p.steps {
		names[i] = s.field.Name
	}
	return strings.Join(names, ", ")
}

// onlyNames reports whether the patch names none but these fields.
func (p *patch) onlyNames(fields []string) bool {
	return len(p.wrong) == 0 && !slices.ContainsFunc(p.steps, func(s step) bool { return !slices.Contains(fields, s.field.Name) })
}

// names reports whether a path leads into a field that the patch changes.
func (p *patch) names(path string) bool {
	for _, s := range p.steps {
		if rest, ok := strings.CutPrefix(path, "$."+s.field.Name); ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			return true
		}
	}
	return false
}

// mergeValue merges a patch into a value by RFC 7396. The caller limits the depth of the patch.
func mergeValue(target, with jsontext.Value) (jsontext.Value, error) {
	if with.Kind() != '{' {
		return with, nil
	}
	var all, changes map[string]jsontext.Value
	if target.Kind() == '{' {
		if err := json.Unmarshal(target, &all); err != nil {
			return nil, err
		}
	}
	if err := json.Unmarshal(with, &changes); err != nil {
		return nil, err
	}
	if all == nil {
		all = map[string]jsontext.Value{}
	}
	for name, v := range changes {
		if v.Kind() == 'n' {
			delete(all, name)
			continue
		}
		merged, err := mergeValue(all[name], v)
		if err != nil {
			return nil, err
		}
		all[name] = merged
	}
	return json.Marshal(all, json.Deterministic(true))
}

// same returns an error for any text except the current one.
func same(now string, v jsontext.Value) error {
	var given string
	if err := api.Text(&given, v); err != nil {
		return err
	}
	if given != now {
		return errors.New(isFixed)
	}
	return nil
}

// mergeMetadata changes the named texts. null as a text removes it, and null as the object
// removes all.
func mergeMetadata(e *endpointDraft, v jsontext.Value) error {
	if v.Kind() == 'n' {
		e.Metadata = nil
		return nil
	}
	all, err := api.Texts(v)
	if err != nil {
		return err
	}
	for _, t := range all {
		if t.Null {
			delete(e.Metadata, t.Name)
		} else {
			e.note(t)
		}
	}
	return nil
}

// mergeSignature keeps the texts of the secrets, because the receiver has them. It returns an
// error if a text is no valid secret in the new scheme.
func mergeSignature(e *endpointDraft, v jsontext.Value) error {
	if err := setSignature(e, v); err != nil {
		return err
	}
	for i := range e.Secrets {
		var err error
		if e.Secrets[i].Secret, err = e.Signature.ParseSecret(e.Secrets[i].Secret.Reveal()); err != nil {
			return errors.New("has other secrets than this endpoint's: create another endpoint")
		}
	}
	return nil
}

// mergeHeaders changes the named headers, in upper or lower case. null as a value removes the
// header, and null as the object removes all.
func mergeHeaders(e *endpointDraft, v jsontext.Value) error {
	if v.Kind() == 'n' {
		e.Headers = nil
		return nil
	}
	all, err := api.HeaderTexts(v, 2*dispatcher.MaxHeaders) // all existing headers removed, and as many added
	if err != nil {
		return err
	}
	next := e.Headers
	for i, t := range all {
		if slices.ContainsFunc(all[:i], func(o api.Named) bool { return strings.EqualFold(o.Name, t.Name) }) {
			return fmt.Errorf("has %s twice: upper and lower case are one name", input.Clip(t.Name))
		}
		named := func(h dispatcher.Header) bool { return strings.EqualFold(h.Name, t.Name) }
		if !t.Null && t.Text == wire.Hidden { // the client repeats a response
			if !slices.ContainsFunc(next, named) {
				return errHidden(t.Name)
			}
			continue
		}
		had := len(next)
		next = slices.DeleteFunc(next, named)
		if !t.Null {
			e.given[t.Name] = len(next) == had
			next = append(next, dispatcher.Header{Name: t.Name, Value: t.Text})
		}
	}
	e.Headers = inOrder(next)
	return nil
}

// mergeSuccess changes parts of the rule of success.
func mergeSuccess(e *endpointDraft, v jsontext.Value) error {
	if v.Kind() != '{' || api.Nests(v) {
		return api.Nullable(&e.Success, v, api.SuccessRule)
	}
	if err := unknownMember(v, "status", "body"); err != nil {
		return err
	}
	var before jsontext.Value
	if e.Success != nil {
		before = jsontext.Value(e.Success.String())
	}
	merged, err := mergeValue(before, v)
	if err != nil {
		return err
	}
	return api.SuccessRule(&e.Success, merged)
}

// unknownMember returns an error for a member of a rule that is not known, also if it is null. A
// body has members too.
func unknownMember(v jsontext.Value, known ...string) error {
	var all map[string]jsontext.Value
	if v.Kind() != '{' || json.Unmarshal(v, &all) != nil {
		return nil // the rule itself refuses it
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !slices.Contains(known, name) {
			return dispatcher.FieldError{Path: "$" + input.Member(name), Detail: "is unknown; known are " + strings.Join(known, ", ")}
		}
	}
	if body, ok := all["body"]; ok {
		if err := unknownMember(body, "path", "equals", "matches"); err != nil {
			return input.FieldAt("$.body", err)
		}
	}
	return nil
}

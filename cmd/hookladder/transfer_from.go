package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/ladder"
	"github.com/hookladder/hookladder/signer"
)

// The systems whose saved answers an import reads.
const (
	fromSvix    = "svix"
	fromConvoy  = "convoy"
	fromOutpost = "outpost"
)

// importSources lists these systems.
var importSources = []string{fromSvix, fromConvoy, fromOutpost}

// savedAnswer is one JSON document of a file: an answer with the path of its request, or the
// answer alone.
type savedAnswer struct {
	Path   string          `json:"path"`
	Answer json.RawMessage `json:"answer"`
}

// foreignSystem collects the answers of one system. convert is called after the last one.
type foreignSystem interface {
	take(path string, body json.RawMessage) error
	convert(c *conversion) error
}

func newSystem(name string) foreignSystem {
	switch name {
	case fromSvix:
		return &svixAnswers{listed: map[string]bool{}, secrets: map[string]string{}, headers: map[string]svixHeaders{}}
	case fromConvoy:
		return &convoyAnswers{projects: map[string]convoyProject{}, topics: map[string][]string{}}
	default:
		return &outpostAnswers{listed: map[string]bool{}}
	}
}

// errAnswer means that a document is none of the answers that an import reads.
var errAnswer = errors.New("is not an answer that the import knows")

// mostAnswers is the most bytes of a file with answers: those of a million endpoints, with a
// kilobyte each.
const mostAnswers = 1 << 30

// foreignEntries reads all answers of a file of at most that many bytes. Its endpoints come after it,
// because their parts may be in any order. lost counts the parts that do not carry over.
func foreignEntries(in io.Reader, name string, most int64) (next func() (fileLine, error), lost map[string]int, err error) {
	system, pages := newSystem(name), pageEnds{}
	bounded := &io.LimitedReader{R: in, N: most + 1}
	dec := json.NewDecoder(bounded)
	n := 1
	for ; ; n++ {
		var text json.RawMessage
		err := dec.Decode(&text)
		if bounded.N == 0 {
			return nil, nil, fmt.Errorf("the file has more than %d bytes: import it in parts, by tenant", most)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, nil, fmt.Errorf("document %d is not JSON: %w", n, err)
		}
		var saved savedAnswer
		if json.Unmarshal(text, &saved) != nil || saved.Answer == nil {
			saved = savedAnswer{Answer: text}
		}
		path, _, _ := strings.Cut(saved.Path, "?")
		if err := system.take(path, saved.Answer); err != nil {
			return nil, nil, fmt.Errorf("document %d %s: %w", n, saved.Path, err)
		}
		pages.note(path, saved.Answer)
	}
	if n == 1 {
		return nil, nil, errors.New("the file is empty")
	}
	if err := pages.check(); err != nil {
		return nil, nil, err
	}
	c := &conversion{lost: map[string]int{}, uids: map[string]*wire.Endpoint{}}
	if err := system.convert(c); err != nil {
		return nil, nil, err
	}
	return c.next, c.lost, nil
}

// pageEnds has whether the last page of each list is in the file. A list without its end
// would make a prune delete the rest.
type pageEnds map[string]bool

func (p pageEnds) note(path string, body json.RawMessage) {
	var page struct {
		Done       *bool
		Pagination *struct{ Next *string }
		Data       json.RawMessage
	}
	_ = json.Unmarshal(body, &page) // another answer has no pages
	var data struct {
		Pagination *struct {
			HasNextPage bool `json:"has_next_page"`
		}
	}
	_ = json.Unmarshal(page.Data, &data)
	switch {
	case page.Done != nil:
		p[path] = p[path] || *page.Done
	case page.Pagination != nil:
		p[path] = p[path] || page.Pagination.Next == nil || *page.Pagination.Next == ""
	case data.Pagination != nil:
		p[path] = p[path] || !data.Pagination.HasNextPage
	}
}

func (p pageEnds) check() error {
	for _, path := range slices.Sorted(maps.Keys(p)) {
		if !p[path] {
			return fmt.Errorf("the last page of %s is not in the file: save it again", path)
		}
	}
	return nil
}

// errMissingAnswer reports an answer without which the file is not complete. A script that was
// interrupted leaves such a file.
func errMissingAnswer(path ...string) error {
	return fmt.Errorf("the answer of %s is not in the file: save it again", strings.Join(path, "/"))
}

// conversion has the endpoints of a file, and counts the parts that do not carry over.
type conversion struct {
	lines []fileLine
	lost  map[string]int
	uids  map[string]*wire.Endpoint
}

// lose counts a part that does not carry over.
func (c *conversion) lose(kind string, has bool) {
	if has {
		c.lost[kind]++
	}
}

// add appends an endpoint. err is the reason why it is not valid. A list that changes while
// its pages are saved may have an endpoint twice.
func (c *conversion) add(e *wire.Endpoint, err error) {
	if reflect.DeepEqual(e, c.uids[e.UID]) {
		return
	}
	c.uids[e.UID] = e
	line := fileLine{line: len(c.lines) + 1, endpoint: *e, err: err}
	if line.err == nil {
		line.given, line.err = fieldsOf(e)
	}
	for _, topic := range e.Topics {
		if strings.Contains(strings.TrimSuffix(strings.TrimSuffix(topic, "*"), "."), "*") {
			line.err = errors.Join(line.err, fmt.Errorf("$.topics: %s has * before its last word", topic))
		}
	}
	c.lines = append(c.lines, line)
}

// next returns the next endpoint, and io.EOF after the last one.
func (c *conversion) next() (fileLine, error) {
	if len(c.lines) == 0 {
		return fileLine{}, io.EOF
	}
	e := c.lines[0]
	c.lines = c.lines[1:]
	return e, nil
}

// importedUID returns the uid of an endpoint. Some ids begin as Hookladder's own, which no uid may.
func importedUID(system, id string) string {
	for _, own := range []string{"ep_", "u_", "q_"} {
		if strings.HasPrefix(id, own) {
			return system + "-" + id
		}
	}
	return id
}

// pathSegments returns the segments of a path behind the one that is named. ok is false if no
// segment has the name.
func pathSegments(path, name string) (all []string, ok bool) {
	all = strings.Split(strings.Trim(path, "/"), "/")
	at := slices.Index(all, name)
	all = all[at+1:]
	for i, one := range all {
		if text, err := url.PathUnescape(one); err == nil {
			all[i] = text
		}
	}
	return all, at >= 0
}

// isFilled reports whether a value is neither null nor empty, also with its parts.
func isFilled(raw json.RawMessage) bool {
	var value any
	return json.Unmarshal(bytes.TrimSpace(raw), &value) == nil && filledValue(value)
}

func filledValue(value any) bool {
	switch v := value.(type) {
	case nil:
		return false
	case string:
		return v != ""
	case bool:
		return v
	case []any:
		return slices.ContainsFunc(v, filledValue)
	case map[string]any:
		return slices.ContainsFunc(slices.Collect(maps.Values(v)), filledValue)
	}
	return true
}

// svixAnswers are the answers of Svix. An endpoint's secret and headers are answers of their
// own, which only their paths name.
type svixAnswers struct {
	apps      []svixApp
	listed    map[string]bool // the applications whose endpoints are in the file, as their paths name them
	endpoints []svixEndpoint
	secrets   map[string]string
	headers   map[string]svixHeaders
}

// svixApp is one item of GET /api/v1/app/.
type svixApp struct{ ID, UID string }

// svixEndpoint is one item of GET /api/v1/app/{app}/endpoint/.
type svixEndpoint struct {
	app string

	wire.Endpoint // the fields with the same names

	ID           string   `json:"id"`
	FilterTypes  []string `json:"filterTypes"`
	Channels     []string `json:"channels"`
	ThrottleRate int      `json:"throttleRate"`
	RateLimit    int      `json:"rateLimit"` // the former name of throttleRate
}

// svixHeaders is the answer of …/headers/. Svix hides the values of those in Sensitive.
type svixHeaders struct {
	Headers   map[string]string `json:"headers"`
	Sensitive []string          `json:"sensitive"`
}

func (s *svixAnswers) take(path string, body json.RawMessage) error {
	at, ok := pathSegments(path, "app")
	switch {
	case path == "":
		return errors.New("has no path: save each answer with it")
	case !ok:
		return errAnswer
	case len(at) == 0:
		var page struct{ Data []svixApp }
		err := json.Unmarshal(body, &page)
		s.apps = append(s.apps, page.Data...)
		return err
	case len(at) == 2 && at[1] == "endpoint":
		var page struct{ Data []svixEndpoint }
		if err := json.Unmarshal(body, &page); err != nil || page.Data == nil {
			return errors.Join(errAnswer, err)
		}
		s.listed[at[0]] = true
		for _, e := range page.Data {
			e.app = at[0]
			s.endpoints = append(s.endpoints, e)
		}
		return nil
	case len(at) == 4 && at[3] == "secret":
		var secret struct{ Key string }
		if err := json.Unmarshal(body, &secret); err != nil || secret.Key == "" {
			return errors.Join(errAnswer, err)
		}
		s.secrets[at[2]] = secret.Key
		return nil
	case len(at) == 4 && at[3] == "headers":
		var h svixHeaders
		err := json.Unmarshal(body, &h)
		s.headers[at[2]] = h
		return err
	}
	return errAnswer
}

func (s *svixAnswers) convert(c *conversion) error {
	for _, app := range s.apps {
		if !s.listed[app.ID] && !s.listed[app.UID] {
			return errMissingAnswer("/app", app.ID, "endpoint/")
		}
	}
	for i := range s.endpoints {
		one := &s.endpoints[i]
		e := one.Endpoint
		e.Tenant, e.Topics, e.Headers, e.Secret = one.app, one.FilterTypes, s.headers[one.ID].Headers, s.secrets[one.ID]
		if e.UID == "" {
			e.UID = importedUID(fromSvix, one.ID)
		} else {
			e.UID = importedUID(fromSvix, one.app+":"+e.UID) // unique only in its application
		}
		if strings.HasPrefix(e.Secret, signer.PrivatePrefix) {
			e.Signature = string(signer.StandardEd25519)
		}
		if rate := max(one.ThrottleRate, one.RateLimit); rate > 0 {
			e.Rate = fmt.Sprintf("%d/s", rate)
		}
		c.lose("channels", len(one.Channels) > 0)
		c.lose("sensitive headers", len(s.headers[one.ID].Sensitive) > 0)
		if _, ok := s.headers[one.ID]; !ok {
			return errMissingAnswer("/app", one.app, "endpoint", one.ID, "headers/")
		}
		if e.Secret == "" {
			return errMissingAnswer("/app", one.app, "endpoint", one.ID, "secret/")
		}
		c.add(&e, nil)
	}
	return nil
}

// convoyAnswers are the answers of Convoy. The topics of an endpoint are in its
// subscriptions, and the form of its signature is in the project.
type convoyAnswers struct {
	endpoints []convoyEndpoint
	projects  map[string]convoyProject
	topics    map[string][]string // by the endpoint

	filters, functions int // subscriptions that have one
}

// convoyProject is the answer of GET /api/v1/projects/{id}.
type convoyProject struct {
	UID    string `json:"uid"`
	Config struct {
		Signature struct {
			Header   string `json:"header"`
			Versions []struct{ Hash, Encoding string }
		} `json:"signature"`
	} `json:"config"`
}

// convoyEndpoint is one item of GET /api/v1/projects/{id}/endpoints.
type convoyEndpoint struct {
	wire.Endpoint // the fields with the same names

	ProjectID          string `json:"project_id"`
	OwnerID            string `json:"owner_id"`
	Name               string `json:"name"`
	Status             string `json:"status"`
	AdvancedSignatures bool   `json:"advanced_signatures"`
	Secrets            []struct {
		Value     string  `json:"value"`
		ExpiresAt *string `json:"expires_at"`
	} `json:"secrets"`
	HTTPTimeout       convoySeconds `json:"http_timeout"`
	RateLimit         int           `json:"rate_limit"`
	RateLimitDuration convoySeconds `json:"rate_limit_duration"`
	ContentType       string        `json:"content_type"`
	Authentication    *struct {
		Type   string `json:"type"`
		APIKey struct {
			Name  string `json:"header_name"`
			Value string `json:"header_value"`
		} `json:"api_key"`
	} `json:"authentication"`
	ClientCert json.RawMessage `json:"mtls_client_cert"`
	Slack      string          `json:"slack_webhook_url"`
	Email      string          `json:"support_email"`
}

// convoySeconds is a number of seconds, or a text such as 10s of an older Convoy.
type convoySeconds time.Duration

// UnmarshalJSON accepts both forms.
func (s *convoySeconds) UnmarshalJSON(text []byte) error {
	plain := strings.Trim(string(text), `"`)
	if plain == "null" || plain == "" {
		return nil
	}
	d, err := ladder.ParseDuration(plain)
	*s = convoySeconds(d)
	return err
}

// convoySubscription is one item of GET /api/v1/projects/{id}/subscriptions.
type convoySubscription struct {
	Endpoint *struct{ UID string } `json:"endpoint_metadata"`
	Filter   *struct {
		EventTypes []string        `json:"event_types"`
		Filter     json.RawMessage `json:"filter"`
	} `json:"filter_config"`
	Function string `json:"function"`
}

func (v *convoyAnswers) take(_ string, body json.RawMessage) error {
	var answer struct {
		Data struct {
			convoyProject
			Content []json.RawMessage `json:"content"`
		}
	}
	err := json.Unmarshal(body, &answer)
	switch data := &answer.Data; {
	case err == nil && data.Content != nil:
		for _, item := range data.Content {
			if err := v.item(item); err != nil {
				return err
			}
		}
		return nil
	case err == nil && len(data.Config.Signature.Versions) > 0:
		v.projects[data.UID] = data.convoyProject
		return nil
	}
	return errors.Join(errAnswer, err)
}

// item takes an endpoint or a subscription.
func (v *convoyAnswers) item(text json.RawMessage) error {
	var s convoySubscription
	if err := json.Unmarshal(text, &s); err != nil {
		return err
	}
	if s.Endpoint == nil && s.Filter == nil {
		var e convoyEndpoint
		if err := json.Unmarshal(text, &e); err != nil || e.UID == "" || e.URL == "" {
			return errors.Join(errAnswer, err)
		}
		v.endpoints = append(v.endpoints, e)
		return nil
	}
	if s.Endpoint == nil || s.Filter == nil {
		return nil // of a source that takes events in, or without event types
	}
	v.topics[s.Endpoint.UID] = append(v.topics[s.Endpoint.UID], s.Filter.EventTypes...)
	if isFilled(s.Filter.Filter) {
		v.filters++
	}
	if s.Function != "" {
		v.functions++
	}
	return nil
}

func (v *convoyAnswers) convert(c *conversion) error {
	if len(v.endpoints) > 0 && len(v.topics) == 0 {
		return errMissingAnswer("/projects", v.endpoints[0].ProjectID, "subscriptions")
	}
	for i := range v.endpoints {
		one := &v.endpoints[i]
		project, ok := v.projects[one.ProjectID]
		if !ok {
			return errMissingAnswer("/projects", one.ProjectID) // it has the form of the signature
		}
		topics := slices.Clone(v.topics[one.UID])
		slices.Sort(topics)
		e := &one.Endpoint
		e.UID, e.Tenant, e.Disabled = importedUID(fromConvoy, one.UID), one.OwnerID, one.Status == "inactive"
		e.Topics = append([]string{}, slices.Compact(topics)...)
		if one.Name != "" {
			e.Metadata = map[string]string{"name": one.Name}
		}
		c.lose("endpoint without a subscription", len(topics) == 0)
		one.sign(e, &project, c)
		one.limit(e, c)
		if a := one.Authentication; a != nil && a.APIKey.Name != "" {
			e.Headers = map[string]string{a.APIKey.Name: a.APIKey.Value}
		} else if a != nil {
			c.lose("authentication "+a.Type, a.Type != "" && a.Type != "api_key")
		}
		c.lose("mtls_client_cert", isFilled(one.ClientCert))
		c.lose("content_type", one.ContentType != "" && one.ContentType != "application/json")
		c.lose("slack_webhook_url", one.Slack != "")
		c.lose("support_email", one.Email != "")
		c.lose("status paused", one.Status == "paused")
		c.add(e, nil)
	}
	for kind, n := range map[string]int{"filter of a subscription": v.filters, "function of a subscription": v.functions} {
		if n > 0 {
			c.lost[kind] = n
		}
	}
	return nil
}

// sign sets the secret and the form of the signature. A simple signature is by the last
// version. An advanced one has all of them, and Hookladder writes only v1, the first.
func (one *convoyEndpoint) sign(e *wire.Endpoint, p *convoyProject, c *conversion) {
	for _, s := range one.Secrets {
		if s.ExpiresAt == nil || *s.ExpiresAt == "" {
			e.Secret = s.Value
		}
	}
	c.lose("former secrets", len(one.Secrets) > 1)
	versions := p.Config.Signature.Versions
	version := versions[len(versions)-1]
	e.Signature, e.SignatureHeader = "hmac", p.Config.Signature.Header
	if one.AdvancedSignatures {
		version = versions[0]
		e.SignatureContent = "t-comma-body"
		c.lose("signatures after v1", len(versions) > 1)
	}
	e.SignatureHash, e.SignatureEncoding = strings.ToLower(version.Hash), strings.ToLower(version.Encoding)
}

// limit sets the timeout and the rate.
func (one *convoyEndpoint) limit(e *wire.Endpoint, c *conversion) {
	if timeout := time.Duration(one.HTTPTimeout); timeout > time.Minute {
		c.lose("http_timeout above 60s", true)
	} else {
		e.Timeout = wire.Duration(timeout)
	}
	if one.RateLimit <= 0 {
		return
	}
	per := time.Duration(one.RateLimitDuration)
	for _, unit := range []struct {
		of   time.Duration
		name string
	}{{time.Second, "s"}, {time.Minute, "m"}, {time.Hour, "h"}} {
		if per > 0 && unit.of%per == 0 {
			e.Rate = fmt.Sprintf("%d/%s", one.RateLimit*int(unit.of/per), unit.name)
			return
		}
	}
	c.lose("rate_limit_duration", true)
}

// outpostAnswers are the destinations of Outpost, each list with the tenant of its path.
type outpostAnswers struct {
	destinations []outpostDestination
	tenants      []string
	listed       map[string]bool // the tenants whose destinations are in the file
}

// outpostDestination is one item of GET /tenants/{id}/destinations.
type outpostDestination struct {
	ID               string            `json:"id"`
	TenantID         string            `json:"tenant_id"`
	Type             string            `json:"type"`
	Topics           outpostTopics     `json:"topics"`
	Filter           json.RawMessage   `json:"filter"`
	Config           map[string]string `json:"config"`
	Credentials      map[string]string `json:"credentials"`
	DeliveryMetadata json.RawMessage   `json:"delivery_metadata"`
	Metadata         map[string]string `json:"metadata"`
	DisabledAt       string            `json:"disabled_at"`
}

// outpostTopics is "*", or a list.
type outpostTopics []string

// UnmarshalJSON accepts both forms.
func (t *outpostTopics) UnmarshalJSON(text []byte) error {
	var one string
	if json.Unmarshal(text, &one) == nil {
		*t = outpostTopics{one}
		return nil
	}
	return json.Unmarshal(text, (*[]string)(t))
}

func (o *outpostAnswers) take(path string, body json.RawMessage) error {
	var page struct {
		Models []struct{ ID string } `json:"models"`
	}
	if body = bytes.TrimSpace(body); body[0] == '{' {
		if err := json.Unmarshal(body, &page); err != nil || page.Models == nil {
			return errAnswer
		}
		for _, tenant := range page.Models {
			o.tenants = append(o.tenants, tenant.ID)
		}
		return nil
	}
	var list []outpostDestination
	if err := json.Unmarshal(body, &list); err != nil {
		return fmt.Errorf("%w: %w", errAnswer, err)
	}
	tenant := ""
	if at, ok := pathSegments(path, "tenants"); ok && len(at) == 2 {
		tenant = at[0]
		o.listed[tenant] = true
	}
	for _, d := range list {
		if d.TenantID == "" {
			d.TenantID = tenant
		}
		if d.TenantID == "" {
			return errors.New("has no tenant: save it with its path")
		}
		o.destinations = append(o.destinations, d)
	}
	return nil
}

func (o *outpostAnswers) convert(c *conversion) error {
	for _, tenant := range o.tenants {
		if !o.listed[tenant] {
			return errMissingAnswer("/tenants", tenant, "destinations")
		}
	}
	for i := range o.destinations {
		d := &o.destinations[i]
		if d.Type != "webhook" {
			c.lose("destination of type "+d.Type, true)
			continue
		}
		e := &wire.Endpoint{
			UID: importedUID(fromOutpost, d.ID), Tenant: d.TenantID, URL: d.Config["url"], Topics: d.Topics,
			Metadata: d.Metadata, Secret: d.Credentials["secret"], Disabled: d.DisabledAt != "",
			Signature: "hmac", SignatureHeader: "x-outpost-signature", SignaturePrefix: "v0=",
		}
		var err error
		if text := d.Config["custom_headers"]; text != "" {
			if json.Unmarshal([]byte(text), &e.Headers) != nil {
				err = errors.New("$.config.custom_headers: is not a JSON object of texts")
			}
		}
		c.lose("filter", isFilled(d.Filter))
		c.lose("delivery_metadata", isFilled(d.DeliveryMetadata))
		c.lose("previous_secret", d.Credentials["previous_secret"] != "")
		c.add(e, err)
	}
	return nil
}

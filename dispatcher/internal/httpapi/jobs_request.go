package httpapi

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/api"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// jobBytes limits a request for a job, because its filter is stored with the job. It is enough
// for a hundred destinations.
const jobBytes = 16 << 10

// jobRequest is the body of a request for a job.
type jobRequest struct {
	filters url.Values
	all     bool
	dryRun  bool
	whole   bool // a dry run counts for longer
	probe   bool
	rate    dispatcher.Rate
}

// jobFilters are the filters of lists of deliveries that a job has too, in its body.
func jobFilters() []*api.Param {
	fields := reflect.TypeFor[wire.JobFilter]()
	return slices.DeleteFunc(api.OfFilter(client.Filter{}), func(p *api.Param) bool {
		for i := range fields.NumField() {
			if name, _, _ := strings.Cut(fields.Field(i).Tag.Get("json"), ","); name == p.Name {
				return false
			}
		}
		return true
	})
}

// jobFields has the filters of lists, and the fields that only jobs have.
var jobFields = func() api.Fieldset[jobRequest] {
	fields := api.Fieldset[jobRequest]{
		{Name: "all", Set: func(r *jobRequest, v jsontext.Value) error { return api.Boolean(&r.all, v) }, Null: api.Itself},
		{Name: "count_all", Set: func(r *jobRequest, v jsontext.Value) error { return api.Boolean(&r.whole, v) }, Null: api.Itself},
		{Name: "dry_run", Set: func(r *jobRequest, v jsontext.Value) error { return api.Boolean(&r.dryRun, v) }, Null: api.Itself},
		{Name: "probe", Set: func(r *jobRequest, v jsontext.Value) error { return api.Boolean(&r.probe, v) }, Null: api.Itself},
		{Name: "rate", Set: func(r *jobRequest, v jsontext.Value) error { return jobRate(&r.rate, v) }},
	}
	for _, p := range jobFilters() {
		fields = append(fields, api.Field[jobRequest]{Name: p.Name, Null: api.Itself, Set: func(r *jobRequest, v jsontext.Value) error {
			values, err := filterValues(p, v)
			if err == nil && (p.Name != "failed" || values[0] == "true") { // false means the default
				r.filters[p.Name] = values
			}
			return err
		}})
	}
	return fields
}()

// filterValues parses a filter: a text, or a list of texts if it may be repeated.
func filterValues(p *api.Param, v jsontext.Value) ([]string, error) {
	values := make([]string, 1)
	if kind := v.Kind(); p.Name == "failed" && (kind == 't' || kind == 'f') {
		values[0] = string(v)
	} else if err := api.Filled(&values[0], v); err != nil {
		if v.Kind() != '[' || !p.Many {
			return nil, err
		}
		if values, err = list(v); err != nil {
			return nil, err
		}
	}
	if why := p.Check(values); why != "" {
		return nil, errors.New(why)
	}
	return values, nil
}

var errTextList = errors.New("must be a text or a list of texts, with one at least")

// list parses a list of texts.
func list(v jsontext.Value) (all []string, err error) {
	d := jsontext.NewDecoder(strings.NewReader(string(v)))
	if _, err := d.ReadToken(); err != nil {
		return nil, errTextList
	}
	for d.PeekKind() == '"' {
		one, err := d.ReadValue()
		if err != nil {
			return nil, errTextList
		}
		all = append(all, string(api.Unquoted(one)))
	}
	if d.PeekKind() != ']' || len(all) == 0 {
		return nil, errTextList
	}
	return all, nil
}

// jobRate parses a rate in the format of endpoints, or a number per second.
func jobRate(to *dispatcher.Rate, v jsontext.Value) (err error) {
	var s string
	if n, ok := api.Whole(v); ok {
		s = strconv.Itoa(n) + "/s"
	} else if err := api.Text(&s, v); err != nil {
		return errors.New("must be a rate as in 200/s, or a whole number a second")
	}
	*to, err = dispatcher.ParseRate(s)
	return err
}

// tenant returns the only tenant in the request; empty: there are others.
func (r *jobRequest) tenant() string {
	if tenants := r.filters["tenant"]; len(tenants) == 1 {
		return tenants[0]
	}
	return ""
}

// detail returns the request for the audit: its filters, without the paths of URLs.
func (r *jobRequest) detail() string {
	var words []string
	for _, name := range slices.Sorted(maps.Keys(r.filters)) {
		for _, value := range r.filters[name] {
			words = append(words, name+"="+api.WithoutSecrets(value))
		}
	}
	if r.all {
		words = append(words, "all")
	}
	if r.probe {
		words = append(words, "probe")
	}
	if !r.rate.IsZero() {
		words = append(words, "rate="+r.rate.String())
	}
	return strings.Join(words, " ")
}

// refuseJob returns the errors of a request for a job.
func refuseJob(kind dispatcher.JobKind, r *jobRequest) (wrong []dispatcher.FieldError) {
	may, _ := kind.Statuses()
	for _, status := range r.filters["status"] {
		if !slices.Contains(may, dispatcher.Status(status)) {
			detail := fmt.Sprintf("a %s takes only deliveries that are %s", kind, wordsOf(may))
			wrong = append(wrong, dispatcher.FieldError{Path: "$.status", Detail: detail})
			break
		}
	}
	if r.probe && kind != dispatcher.JobRetry {
		wrong = append(wrong, dispatcher.FieldError{Path: "$.probe", Detail: "only a retry probes destinations"})
	}
	if len(r.filters) == 0 && !r.all {
		wrong = append(wrong, dispatcher.FieldError{Path: "$", Detail: `needs a filter, or "all": true`})
	}
	return wrong
}

func wordsOf(statuses []dispatcher.Status) string {
	words := make([]string, len(statuses))
	for i, status := range statuses {
		words[i] = string(status)
	}
	return strings.Join(words, ", ")
}

// inBody replaces the parameter of a query in an error by the field of the body.
func inBody(err error) error {
	var p *api.Problem
	if !errors.As(err, &p) {
		return err
	}
	for i := range p.Fields {
		if name, ok := strings.CutPrefix(p.Fields[i].Path, "query."); ok {
			p.Fields[i].Path = "$." + name
		}
	}
	return p
}

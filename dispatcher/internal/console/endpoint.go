package console

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// failingShown limits the failing deliveries of a page, and deadShown the dead ones.
const failingShown, deadShown = 20, 10

// endpointPage is the data of an endpoint's page, problems first.
type endpointPage struct {
	endpointRow
	Missing  missing // parts: failing, dead
	Late     missing // parts: lanes, bars
	Advice   LaneSentence
	Cause    *endpointCause // nil: it works, or nothing waits
	Failures failures
	Failing  []wire.Delivery
	More     bool // there are more of these
	Dead     []wire.Delivery
	MoreDead bool
	Settings []setting
	Share    string             // a sentence for a ticket, with the URL of the page
	Test     *wire.EndpointTest // the receiver's response to a test; nil: no test
}

// setting is a field of an endpoint in words.
type setting struct{ Label, Value string }

// endpointCause is why deliveries to an endpoint wait.
type endpointCause struct {
	Title  string
	Last   *wire.LaneFailure // nil: no attempt failed, or it is not kept any more
	Answer string            // the first line of its response
	Held   int               // waiting deliveries that are due
	Timed  int               // the other waiting ones
	Why    string            // what holds those that are due
	Tries  bool              // an attempt of all may be made now
}

// causeOf returns why deliveries wait in the lane of an endpoint.
func (p *endpointPage) causeOf() *endpointCause {
	state, failing := p.State(), fails(p.State(), p.FailingSince)
	later := state == "active" && len(p.Failing) > 0 // it works, and some wait for their next attempt
	if p.Late["lanes"] != "" || !failing && !later && (p.Waiting == 0 || state == "active") {
		return nil
	}
	c := &endpointCause{Held: p.Lane.Ready, Timed: p.Waiting - p.Lane.Ready, Why: heldBy(p.Lane), Tries: failing || later || p.Lane.Why == "retry_after"}
	if c.Title = "Deliveries wait"; failing {
		c.Title, c.Last = "Attempts fail", p.LastFailure
	}
	if c.Last != nil {
		c.Title += ": " + causeTitle(*c.Last)
		c.Answer = firstLine(c.Last.ResponseExcerpt)
	}
	return c
}

// Tries reports whether the page offers an attempt of all that waits.
func (p endpointPage) Tries() bool { return p.Cause != nil && p.Cause.Tries }

// AwaitsResume reports whether nothing is sent to the endpoint until the visitor resumes it.
func (p endpointPage) AwaitsResume() bool {
	return p.Advice.Resumes && (p.State() == "paused" || p.State() == "disabled")
}

// heldBy returns what holds the deliveries of a lane that are due.
func heldBy(l wire.LaneState) string {
	switch {
	case l.State == "open" || l.State == "failing" && l.Opened > 0:
		return "held by its breaker"
	case l.State == "paused" || l.State == "unverified":
		return "held by the pause"
	case l.Why == "retry_after":
		return "held, because the receiver asked for a break"
	}
	return "due"
}

// endpoint serves GET …/endpoints/{id}.
func endpoint(v *visit) (pageAnswer, error) {
	e, err := v.Endpoint(v.ctx, v.r.PathValue("id"))
	if err != nil {
		return pageAnswer{}, err
	}
	page := endpointPage{Settings: settingsOf(e, v.May("stats"))}
	var rows []endpointRow
	var failing, dead wire.Page
	of := []string{e.ID}
	read := parts{v: v}
	read.add("endpoint", func() (err error) { rows, page.Late, err = v.rows([]wire.EndpointView{e}); return err })
	read.add("failing", func() (err error) {
		filter := filterOf(url.Values{"destination": of, "failed": {"true"}}, v.srv.Now())
		failing, err = firstFound(v, filter, "") // those that fail are often older than many that wait behind them
		failing.Data = failing.Data[:min(len(failing.Data), failingShown)]
		return err
	})
	read.add("dead", func() (err error) {
		dead, err = v.Deliveries(v.ctx, client.Filter{Destinations: of, Statuses: []string{"dead"}, Limit: deadShown})
		return err
	})
	if page.Missing, err = read.wait(); err != nil {
		return pageAnswer{}, err
	}
	page.endpointRow = rows[0]
	page.Lane.TokenAt = wire.Time{} // it changes with the clock
	if page.Lane.Lane != "" {
		page.Waiting = page.Lane.Waiting // read at once with its reasons
	}
	page.Advice = EndpointSentence(page.Lane, e, v.Link != nil)
	page.Failures = v.srv.failuresOf(&e, page.Bars)
	page.Failures.Examples = examplesOf(failing.Data, dead.Data)
	page.Failing, page.More = failing.Data, failing.NextCursor != nil || len(failing.Data) == failingShown
	page.Dead, page.MoreDead = dead.Data, dead.NextCursor != nil
	page.Cause = page.causeOf()
	page.Share = page.share(v)
	return pageAnswer{template: "endpoint", title: page.Name, section: "endpoints", body: page}, nil
}

// settingsOf returns the fields of an endpoint that are set. Of headers it has only the
// names.
func settingsOf(e wire.EndpointView, all bool) (list []setting) {
	texts := FormTexts(e)
	for _, f := range Fields {
		text := texts[f.Name]
		switch {
		case text == "" || f.Name == "url" || f.Kind == Area || !f.Basic && !all && f.Name != "signature":
			continue
		case f.Kind == Pairs && f.Name == "headers":
			text = strings.ReplaceAll(text, wire.Hidden, "(hidden)")
		case f.Kind == Switch:
			text = "yes"
		}
		list = append(list, setting{Label: f.Label, Value: text})
	}
	return append(list, setting{Label: "Id", Value: e.ID})
}

// testFor is the timeout of a test. An attempt takes at most 60 s.
const testFor = 80 * time.Second

// secretPage shows secrets: a new one, once, or all that are in use.
type secretPage struct {
	ID, Name   string
	Made       bool // of a new endpoint
	Rotated    bool // it replaces another secret
	Unverified bool // nothing is sent until a test succeeds
	Secrets    []wire.EndpointSecret
	Until      wire.Time // until when the old secret signs too; zero: it does not
}

// once writes secrets on the page of their endpoint.
func (v *visit) once(p secretPage) (pageAnswer, error) {
	v.at = v.base + "/endpoints/" + p.ID
	title := "Secrets of " + p.Name
	switch {
	case p.Made:
		title = p.Name + " was created"
	case p.Rotated:
		title = "New secret of " + p.Name
	}
	return pageAnswer{template: "secret", title: title, section: "endpoints", body: p}, nil
}

// pauseEndpoint serves POST …/endpoints/{id}/pause.
func pauseEndpoint(v *visit) (pageAnswer, error) {
	e, err := v.PauseEndpoint(v.ctx, v.r.PathValue("id"))
	return pageAnswer{to: v.base + "/endpoints/" + e.ID, result: "paused"}, err
}

// resumeEndpoint serves POST …/endpoints/{id}/resume.
func resumeEndpoint(v *visit) (pageAnswer, error) {
	e, err := v.ResumeEndpoint(v.ctx, v.r.PathValue("id"))
	var p *client.Problem
	if v.Link != nil && errors.As(err, &p) && p.Type == "/problems/disabled" {
		err = ErrDisabled
	}
	return pageAnswer{to: v.base + "/endpoints/" + e.ID, result: "resumed"}, err
}

// retryEndpoint serves POST …/endpoints/{id}/retry: what waits is attempted now, one delivery first.
func retryEndpoint(v *visit) (pageAnswer, error) {
	j, err := v.RetryEndpoint(v.ctx, v.r.PathValue("id"))
	return pageAnswer{to: v.base + "/jobs/" + url.PathEscape(j.ID), result: "tried"}, err
}

// confirmEndpoint serves POST …/endpoints/{id}/confirm, with the URL that the page had.
func confirmEndpoint(v *visit) (pageAnswer, error) {
	e, err := v.ConfirmEndpoint(v.ctx, v.r.PathValue("id"), v.r.PostFormValue("url"))
	return pageAnswer{to: v.base + "/endpoints/" + e.ID, result: "confirmed"}, err
}

// testEndpoint serves POST …/endpoints/{id}/test: the endpoint's page with the receiver's
// response.
func testEndpoint(v *visit) (pageAnswer, error) {
	_ = http.NewResponseController(v.w).SetWriteDeadline(time.Now().Add(testFor + actFor)) // a writer without deadlines needs none
	ctx, cancel := context.WithTimeout(v.r.Context(), testFor)
	defer cancel()
	result, err := v.TestEndpoint(ctx, v.r.PathValue("id"))
	if err != nil {
		return pageAnswer{}, err
	}
	ctx, cancel = context.WithTimeout(v.r.Context(), pageTimeout)
	defer cancel()
	v.ctx = ctx
	a, err := endpoint(v)
	if page, ok := a.body.(endpointPage); ok {
		page.Test = &result
		a.body, a.goesOn = page, true
	}
	return a, err
}

// overlaps are how long the old secret may sign too; the first is the default.
var overlaps = []string{"24h", "0s", "1h", "7d", "30d"}

// rotatePage is the data of the form of a rotation.
type rotatePage struct {
	wire.EndpointView
	Single   bool // its callbacks have room for one signature
	Name     string
	Overlaps []string
	Chosen   string
	Wrong    map[string]string
}

// askRotate serves GET …/endpoints/{id}/rotate.
func askRotate(v *visit) (pageAnswer, error) {
	return v.rotateForm("", nil)
}

func (v *visit) rotateForm(chosen string, wrong map[string]string) (pageAnswer, error) {
	e, err := v.Endpoint(v.ctx, v.r.PathValue("id"))
	if err != nil {
		return pageAnswer{}, err
	}
	a := pageAnswer{template: "rotate", title: "Rotate the secret of " + EndpointName(e), section: "endpoints"}
	a.body = rotatePage{EndpointView: e, Single: !RotatesSecret(e), Name: EndpointName(e), Overlaps: overlaps, Chosen: chosen, Wrong: wrong}
	if len(wrong) > 0 {
		a.status = http.StatusUnprocessableEntity
	}
	return a, nil
}

// rotateSecret serves POST …/endpoints/{id}/rotate: it shows the new secret once.
func rotateSecret(v *visit) (pageAnswer, error) {
	typed := map[string]string{"overlap": v.r.PostFormValue("overlap"), "secret": v.r.PostFormValue("secret")}
	r, wrong := RotationOf(typed)
	if len(wrong) == 0 {
		out, err := v.RotateSecret(v.ctx, v.r.PathValue("id"), r)
		if err == nil {
			return v.once(secretPage{
				ID: out.ID, Name: EndpointName(out.EndpointView), Rotated: true, Until: out.PreviousUntil,
				Secrets: []wire.EndpointSecret{{Secret: out.Secret, PublicKey: out.PublicKey}},
			})
		}
		if wrong, err = v.wrongFields(err, []FormField{{Name: "overlap"}, {Name: "secret"}}); err != nil {
			return pageAnswer{}, err
		}
	}
	return v.rotateForm(typed["overlap"], wrong)
}

// showSecret serves POST …/endpoints/{id}/secret. It is an action, because the audit
// records it.
func showSecret(v *visit) (pageAnswer, error) {
	e, err := v.Endpoint(v.ctx, v.r.PathValue("id"))
	if err != nil {
		return pageAnswer{}, err
	}
	s, err := v.EndpointSecret(v.ctx, e.ID)
	if err != nil {
		return pageAnswer{}, err
	}
	return v.once(secretPage{ID: e.ID, Name: EndpointName(e), Secrets: s.Secrets})
}

// askDelete serves GET …/endpoints/{id}/delete.
func askDelete(v *visit) (pageAnswer, error) {
	e, err := v.Endpoint(v.ctx, v.r.PathValue("id"))
	if err != nil {
		return pageAnswer{}, err
	}
	return pageAnswer{template: "delete", title: "Delete " + EndpointName(e), section: "endpoints", body: endpointRow{EndpointView: e, Name: EndpointName(e)}}, nil
}

// deletedPage is the number of cancelled deliveries after a deletion.
type deletedPage struct {
	Name      string
	Cancelled int
}

// deleteEndpoint serves POST …/endpoints/{id}/delete.
func deleteEndpoint(v *visit) (pageAnswer, error) {
	e, err := v.Endpoint(v.ctx, v.r.PathValue("id"))
	if err != nil {
		return pageAnswer{}, err
	}
	cancelled, err := v.DeleteEndpoint(v.ctx, e.ID)
	if err != nil {
		return pageAnswer{}, err
	}
	v.at = v.base + "/endpoints"
	return pageAnswer{template: "deleted", title: EndpointName(e) + " was deleted", section: "endpoints", body: deletedPage{Name: EndpointName(e), Cancelled: cancelled}}, nil
}

const (
	// examplesShown is how many errors of an endpoint's newest deliveries a page shows.
	examplesShown = 3
	// clocksDiffer is how much the clock of an instance may be ahead of the store's. An
	// endpoint is not older than its figures if it was created that shortly before they
	// began.
	clocksDiffer = 5 * time.Second
)

// failures are the failed attempts of an endpoint in the last day, counted by cause. They
// come from its own figures only.
type failures struct {
	Uncounted bool           // there are no figures, so it is unknown whether any failed
	Since     time.Time      // the figures begin then, less than a day ago; zero: earlier
	Unsure    bool           // their beginning is unknown
	Mixed     bool           // some half hours may be counted together with other endpoints
	Groups    []failureGroup // most frequent first
	Examples  []failureExample
}

// failureGroup counts failed attempts with one cause.
type failureGroup struct {
	Count int64
	Text  string
}

// failureExample is the error of one of the endpoint's newest deliveries.
type failureExample struct {
	Message string
	Code    int
	Text    string
}

// failuresOf counts the failed attempts of an endpoint.
func (s *server) failuresOf(e *wire.EndpointView, bars []dispatcher.Bar) failures {
	if s.Bars == nil {
		return failures{Uncounted: true}
	}
	var f failures
	var sum dispatcher.Failures
	for _, b := range bars {
		sum.Merge(b.Failed)
		f.Mixed = f.Mixed || b.Unsure
	}
	f.Groups = groupsOf(sum)
	began := time.Time{}
	if s.FiguresSince != nil {
		began = s.FiguresSince(dispatcher.Lane(e.ID))
	}
	switch {
	case began.IsZero():
		f.Unsure = true
	case began.After(s.Now().Add(-dispatcher.KeptBars*dispatcher.HalfHour)) && began.After(e.CreatedAt.Add(clocksDiffer)):
		f.Since = began
	}
	return f
}

// groupsOf returns the causes that occurred.
func groupsOf(f dispatcher.Failures) []failureGroup {
	groups := []failureGroup{
		{f.TLS, "TLS: the certificate is not trusted, or the handshake failed"},
		{f.DNS, "DNS: the name was not found"},
		{f.Connect, "no connection, or one that broke"},
		{f.Timeout, "no answer in time"},
		{f.Server, "answered with a status 5xx"},
		{f.Refused, "answered with another status, or a body that is not a success"},
		{f.Internal, "not the receiver's fault, or taken and not settled"},
	}
	groups = slices.DeleteFunc(groups, func(g failureGroup) bool { return g.Count == 0 })
	slices.SortStableFunc(groups, func(a, b failureGroup) int { return cmp.Compare(b.Count, a.Count) })
	return groups
}

// examplesOf returns the different errors of deliveries, in their order.
func examplesOf(lists ...[]wire.Delivery) (examples []failureExample) {
	for _, list := range lists {
		for i := range list {
			d := &list[i]
			same := func(x failureExample) bool { return x.Code == d.LastStatusCode && x.Text == d.LastError }
			if d.LastError == "" || slices.ContainsFunc(examples, same) {
				continue
			}
			if examples = append(examples, failureExample{Message: messageOf(d.ID), Code: d.LastStatusCode, Text: d.LastError}); len(examples) == examplesShown {
				return examples
			}
		}
	}
	return examples
}

// endpointForm is the form of an endpoint with the typed texts.
type endpointForm struct {
	ID, Name string // of an existing endpoint; empty: a new one
	Basic    []formField
	More     []formField
	Open     bool   // More is open
	Wrong    string // an error of no single field
}

// formField is a field with its text.
type formField struct {
	FormField
	Value, Was string
	Wrong      string // the API's error; empty: none
}

// fill sets the texts and errors of the fields.
func (f *endpointForm) fill(shown []FormField, typed, was, wrong map[string]string) {
	for _, one := range shown {
		field := formField{FormField: one, Value: typed[one.Name], Was: was[one.Name], Wrong: wrong[one.Name]}
		if one.Basic || one.Name == "tenant" {
			f.Basic = append(f.Basic, field)
			continue
		}
		f.More = append(f.More, field)
		f.Open = f.Open || field.Wrong != ""
	}
	f.Wrong = wrong[""]
}

func formAnswer(f endpointForm, status int) (pageAnswer, error) {
	title := "New endpoint"
	if f.ID != "" {
		title = "Edit " + f.Name
	}
	return pageAnswer{template: "endpoint-form", title: title, section: "endpoints", status: status, body: f}, nil
}

// newEndpoint serves GET …/endpoints/new.
func newEndpoint(v *visit) (pageAnswer, error) {
	if !v.mayAdd() {
		return pageAnswer{}, ErrHidden
	}
	var f endpointForm
	f.fill(ShownFields(false, v.mayConfigure()), map[string]string{"tenant": v.r.FormValue("tenant")}, nil, nil)
	return formAnswer(f, 0)
}

// createEndpoint serves POST …/endpoints: it shows the secret once.
func createEndpoint(v *visit) (pageAnswer, error) {
	all := v.mayConfigure()
	typed, _ := v.typed()
	e, wrong := CreatedEndpoint(typed, all)
	if len(wrong) == 0 {
		view, _, err := v.CreateEndpoint(v.ctx, &e)
		if err == nil {
			return v.once(secretPage{
				ID: view.ID, Name: EndpointName(view), Made: true, Unverified: view.State == "unverified",
				Secrets: []wire.EndpointSecret{{Secret: view.Secret}},
			})
		}
		if wrong, err = v.wrongFields(err, ShownFields(false, all)); err != nil {
			return pageAnswer{}, err
		}
	}
	v.at = v.base + "/endpoints/new"
	var f endpointForm
	f.fill(ShownFields(false, all), typed, nil, wrong)
	return formAnswer(f, http.StatusUnprocessableEntity)
}

// editEndpoint serves GET …/endpoints/{id}/edit.
func editEndpoint(v *visit) (pageAnswer, error) {
	e, err := v.Endpoint(v.ctx, v.r.PathValue("id"))
	if err != nil {
		return pageAnswer{}, err
	}
	f := endpointForm{ID: e.ID, Name: EndpointName(e)}
	texts := FormTexts(e)
	f.fill(v.formOf(e), texts, texts, nil)
	return formAnswer(f, 0)
}

// formOf returns the fields of the form of an existing endpoint. A queue endpoint has no
// URL.
func (v *visit) formOf(e wire.EndpointView) []FormField {
	shown := ShownFields(true, v.mayConfigure())
	if e.Kind == "pull" {
		shown = WithoutFields(shown, "url", "success", "timeout")
	}
	return shown
}

// changeEndpoint serves POST …/endpoints/{id}: it changes the edited fields.
func changeEndpoint(v *visit) (pageAnswer, error) {
	typed, was := v.typed()
	e, err := v.Endpoint(v.ctx, v.r.PathValue("id"))
	if err != nil {
		return pageAnswer{}, err
	}
	shown := v.formOf(e)
	patch := ChangedFields(shown, typed, was)
	if len(patch) == 0 {
		return pageAnswer{to: v.base + "/endpoints/" + e.ID, result: "unchanged"}, nil
	}
	if _, err = v.PatchEndpoint(v.ctx, e.ID, patch); err == nil {
		return pageAnswer{to: v.base + "/endpoints/" + e.ID, result: "changed"}, nil
	}
	wrong, err := v.wrongFields(err, shown)
	if err != nil {
		return pageAnswer{}, err
	}
	v.at = v.base + "/endpoints/" + e.ID + "/edit"
	f := endpointForm{ID: e.ID, Name: EndpointName(e)}
	f.fill(shown, typed, was, wrong)
	return formAnswer(f, http.StatusUnprocessableEntity)
}

// typed returns the texts of a submitted form, and the texts that the form had before.
func (v *visit) typed() (typed, was map[string]string) {
	typed, was = map[string]string{}, map[string]string{}
	for _, f := range Fields {
		typed[f.Name], was[f.Name] = v.r.PostFormValue(f.Name), v.r.PostFormValue("was."+f.Name)
	}
	return typed, was
}

// wrongFields returns the errors of single fields, if err has some.
func (v *visit) wrongFields(err error, shown []FormField) (map[string]string, error) {
	var p *client.Problem
	switch {
	case v.Link != nil && errors.As(err, &p) && p.Type == "/problems/endpoint-limit":
		return map[string]string{"": ErrEnough.Error()}, nil
	case errors.As(err, &p) && (p.Status == http.StatusUnprocessableEntity || p.Status == http.StatusConflict || p.Status == http.StatusBadRequest):
		return WrongFields(p, shown), nil
	}
	return nil, err
}

package console

import (
	"errors"
	"net/http"

	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

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

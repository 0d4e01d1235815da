package console

import (
	"context"
	"net/http"
	"time"

	"github.com/hookladder/hookladder/dispatcher/internal/console/form"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

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
	return pageAnswer{to: v.base + "/endpoints/" + e.ID, told: "paused"}, err
}

// resumeEndpoint serves POST …/endpoints/{id}/resume.
func resumeEndpoint(v *visit) (pageAnswer, error) {
	e, err := v.ResumeEndpoint(v.ctx, v.r.PathValue("id"))
	return pageAnswer{to: v.base + "/endpoints/" + e.ID, told: "resumed"}, err
}

// confirmEndpoint serves POST …/endpoints/{id}/confirm, with the URL that the page had.
func confirmEndpoint(v *visit) (pageAnswer, error) {
	e, err := v.ConfirmEndpoint(v.ctx, v.r.PathValue("id"), v.r.PostFormValue("url"))
	return pageAnswer{to: v.base + "/endpoints/" + e.ID, told: "confirmed"}, err
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
	ctx, cancel = context.WithTimeout(v.r.Context(), lookFor)
	defer cancel()
	v.ctx = ctx
	a, err := endpoint(v)
	if page, ok := a.body.(endpointPage); ok {
		page.Test = &result
		a.body = page
	}
	return a, err
}

// overlaps are how long the old secret may sign too; the first is the default.
var overlaps = []string{"24h", "0s", "1h", "7d", "30d"}

// rotatePage is the data of the form of a rotation.
type rotatePage struct {
	wire.EndpointView
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
	a := pageAnswer{template: "rotate", title: "Rotate the secret of " + form.NameOf(e), section: "endpoints"}
	a.body = rotatePage{EndpointView: e, Name: form.NameOf(e), Overlaps: overlaps, Chosen: chosen, Wrong: wrong}
	if len(wrong) > 0 {
		a.status = http.StatusUnprocessableEntity
	}
	return a, nil
}

// rotateSecret serves POST …/endpoints/{id}/rotate: it shows the new secret once.
func rotateSecret(v *visit) (pageAnswer, error) {
	typed := map[string]string{"overlap": v.r.PostFormValue("overlap"), "secret": v.r.PostFormValue("secret")}
	r, wrong := form.Rotation(typed)
	if len(wrong) == 0 {
		out, err := v.RotateSecret(v.ctx, v.r.PathValue("id"), r)
		if err == nil {
			return v.once(secretPage{
				ID: out.ID, Name: form.NameOf(out.EndpointView), Rotated: true, Until: out.PreviousUntil,
				Secrets: []wire.EndpointSecret{{Secret: out.Secret, PublicKey: out.PublicKey}},
			})
		}
		if wrong, err = v.wrongFields(err, []form.Field{{Name: "overlap"}, {Name: "secret"}}); err != nil {
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
	return v.once(secretPage{ID: e.ID, Name: form.NameOf(e), Secrets: s.Secrets})
}

// askDelete serves GET …/endpoints/{id}/delete.
func askDelete(v *visit) (pageAnswer, error) {
	e, err := v.Endpoint(v.ctx, v.r.PathValue("id"))
	if err != nil {
		return pageAnswer{}, err
	}
	return pageAnswer{template: "delete", title: "Delete " + form.NameOf(e), section: "endpoints", body: endpointRow{EndpointView: e, Name: form.NameOf(e)}}, nil
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
	return pageAnswer{template: "deleted", title: form.NameOf(e) + " was deleted", section: "endpoints", body: deletedPage{Name: form.NameOf(e), Cancelled: cancelled}}, nil
}

package console

import (
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/internal/console/desk"
	"github.com/hookladder/hookladder/dispatcher/internal/console/form"
	"github.com/hookladder/hookladder/dispatcher/internal/console/stand"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// failingShown limits the failing deliveries of a page, and deadShown the dead ones.
const failingShown, deadShown = 20, 10

// endpointPage is the data of an endpoint's page, problems first.
type endpointPage struct {
	endpointRow
	Stand    stand.Sentence
	Failures failures
	Failing  []wire.Delivery
	More     bool // there are more of these
	Dead     []wire.Delivery
	MoreDead bool
	Settings []setting
	Test     *wire.EndpointTest // the receiver's response to a test; nil: no test
}

// setting is a field of an endpoint in words.
type setting struct{ Label, Value string }

// endpoint serves GET …/endpoints/{id}.
func endpoint(v *visit) (pageAnswer, error) {
	e, err := v.Endpoint(v.ctx, v.r.PathValue("id"))
	if err != nil {
		return pageAnswer{}, err
	}
	page := endpointPage{Settings: settingsOf(e, v.May(desk.Survey))}
	var rows []endpointRow
	var failing, dead wire.Page
	g, ctx := errgroup.WithContext(v.ctx)
	of := []string{e.ID}
	g.Go(func() (err error) { rows, err = v.rows([]wire.EndpointView{e}); return err })
	g.Go(func() (err error) {
		failing, err = v.Deliveries(ctx, client.Filter{Destinations: of, Failed: true, Limit: failingShown})
		return err
	})
	g.Go(func() (err error) {
		dead, err = v.Deliveries(ctx, client.Filter{Destinations: of, Statuses: []string{"dead"}, Limit: deadShown})
		return err
	})
	if err := g.Wait(); err != nil {
		return pageAnswer{}, err
	}
	page.endpointRow = rows[0]
	page.Lane.TokenAt = wire.Time{} // it changes with the clock
	page.Stand = stand.Of(page.Lane, e, v.Link != nil)
	page.Failures = v.srv.failuresOf(&e, page.Bars)
	page.Failures.Examples = examplesOf(failing.Data, dead.Data)
	page.Failing, page.More = failing.Data, failing.NextCursor != nil
	page.Dead, page.MoreDead = dead.Data, dead.NextCursor != nil
	return pageAnswer{template: "endpoint", title: page.Name, section: "endpoints", body: page}, nil
}

// settingsOf returns the fields of an endpoint that are set. Of headers it has only the
// names.
func settingsOf(e wire.EndpointView, all bool) (list []setting) {
	texts := form.Texts(e)
	for _, f := range form.Fields {
		text := texts[f.Name]
		switch {
		case text == "" || f.Name == "url" || f.Kind == form.Area || !f.Basic && !all && f.Name != "signature":
			continue
		case f.Kind == form.Pairs && f.Name == "headers":
			text = strings.ReplaceAll(text, wire.Hidden, "(hidden)")
		case f.Kind == form.Switch:
			text = "yes"
		}
		list = append(list, setting{Label: f.Label, Value: text})
	}
	return append(list, setting{Label: "Id", Value: e.ID})
}

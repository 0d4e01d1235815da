package httpapi

import (
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/api"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// linkSchema returns the schema of a request for a link.
func linkSchema(r huma.Registry) *huma.Schema {
	p := api.Input(r, wire.LinkRequest{}).Properties
	p["tenant"].Pattern, p["tenant"].MaxLength = api.TenantPattern, api.Ref(128)
	p["endpoint"].Pattern, p["endpoint"].Not = api.NameForm.Schema.Pattern, api.NameForm.Schema.Not
	p["name"].Pattern, p["name"].MinLength = api.PrintPattern, nil
	api.Between(p["for"], time.Second, dispatcher.MaxLinkFor)
	return api.RefTo[wire.LinkRequest](r)
}

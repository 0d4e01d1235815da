package httpapi

import (
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/api"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// takeSchema returns the schema of a take.
func takeSchema(r huma.Registry) *huma.Schema {
	p := api.Input(r, wire.Take{}).Properties
	api.Between(p["lease"], dispatcher.ShortLease, dispatcher.LongLease)
	api.Between(p["wait"], 0, takeWait)
	return api.RefTo[wire.Take](r)
}

// settleSchema returns the schema of a settle.
func settleSchema(r huma.Registry) *huma.Schema {
	one := api.Input(r, wire.Settlement{})
	one.Properties["error"].MinLength = nil
	one.Properties["id"].Pattern = `^[^:]+:[\s\S]+$`
	after := func(least, most time.Duration) *huma.Schema {
		return &huma.Schema{Type: huma.TypeNumber, Minimum: api.Ref(least.Seconds()), Maximum: api.Ref(most.Seconds())}
	}
	bad := func(least, most time.Duration) *huma.Schema {
		return api.Holding("after", api.Both(&huma.Schema{Type: huma.TypeNumber}, api.Unlike(after(least, most))))
	}
	api.Between(one.Properties["after"], 0, settleAfter)
	extend := api.Holding("outcome", api.OneOf("extend"))
	api.Never(one,
		api.Both(extend, api.Unlike(api.Given("after"))),
		api.Both(extend, bad(dispatcher.ShortLease, dispatcher.LongLease)),
		api.Both(api.Holding("outcome", api.OneOf("delivered", "dead")), api.Given("after")),
	)
	one.Description = "after goes with retry and extend only. extend needs it."
	api.Input(r, wire.Settle{}).Properties["results"].Nullable = false
	return api.RefTo[wire.Settle](r)
}

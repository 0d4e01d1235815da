package httpapi

import (
	"context"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/hookladder/hookladder/dispatcher"
)

// operation is one row of the API: what it is called, who may call it, what it
// takes and answers.
type operation struct {
	id, method, path string
	summary          string
	scope            scope                                              // 0: needs no key
	subject          *subject                                           // what {id} in the path is; nil: there is none
	params           []*huma.Param                                      // of the query and the header
	anyQuery         bool                                               // unknown parameters are passed over
	body             any                                                // of a POST or PATCH; nil: none
	limit            int64                                              // most bytes of the request
	cure             string                                             // what a refusal of more says besides
	optional         bool                                               // the body may be left out
	media            string                                             // of the body, besides JSON
	answers          map[int]any                                        // by status
	produces         string                                             // media type of the answers; empty: JSON
	problems         []*kind                                            // besides those that every operation has
	fastPath         bool                                               // a POST that most requests are: it needs no mux
	do               func(context.Context, *request) (*response, error) // no response: it is written
}

// subject is what {id} in a path stands for.
type subject struct {
	doc     string
	valid   func(id string) bool
	missing error // of one that is not valid
}

var (
	aMessage   = &subject{"The id of the message.", dispatcher.ValidID, dispatcher.ErrNotFound}
	anEndpoint = &subject{"The id or the uid of the endpoint.", dispatcher.ValidName, dispatcher.ErrNoEndpoint}
)

// handle routes to an operation: whoever may call it and asks for what it takes
// gets its answer, or a problem.
func (s *server) handle(o operation) {
	pattern := o.method + " " + o.path
	h := func(rw http.ResponseWriter, r *http.Request) {
		w := rw.(*responseWriter)
		r.Pattern = pattern
		k, ok := s.authorised(w, r, o.scope, o.id)
		if !ok {
			return
		}
		ctx := r.Context()
		if o.scope == scopeAdmin { // what is done is kept with who asked for it
			ctx = dispatcher.WithCaller(ctx, k.name)
		}
		q := &request{r: r, w: w, of: &o, reads: k.scope.allows(scopeRead)}
		var answer *response
		err := q.check()
		if err == nil {
			answer, err = o.do(ctx, q)
		}
		switch {
		case err != nil:
			w.refuse(s.problem(ctx, err).of(r.Method))
		case answer != nil:
			answer.write(w)
		}
	}
	s.mux.HandleFunc(pattern, h)
	if o.fastPath {
		s.fastPath[o.path] = h
	}
}

// kinds are all problems that an operation answers with.
func (o operation) kinds() []*kind {
	all := []*kind{internal, forbidden} // 403: without keys only this host may call
	if o.scope != 0 {
		all = append(all, unauthorized)
	}
	return append(all, o.problems...)
}

// operations are all that the API serves.
func (s *server) operations() []operation {
	return slices.Concat(s.messageOperations(), s.endpointOperations(), s.secretOperations(), s.laneOperations(), s.plainOperations())
}

func listParams() []*huma.Param {
	return append([]*huma.Param{
		queryParam("status", "May be repeated: any of them matches.", many(enum("scheduled", "ready", "in_flight", "retrying", "delivered", "dead", "cancelled"))),
		queryParam("topic", "May be repeated.", many(text1)),
		queryParam("tenant", "May be repeated.", many(text1)),
		queryParam("destination", "A lane, an endpoint's id or uid, or a URL. May be repeated.", many(text1)),
		queryParam("dead_reason", "May be repeated.", many(enum("exhausted", "gone", "expired", "refused", "disabled", "overflow", "poison"))),
		queryParam("since", "Ended, or due, at this time or later.", moment1),
		queryParam("until", "Ended, or due, before this time.", moment1),
	}, pageParams(maxLimit)...)
}

// pageParams are those of every list.
func pageParams(limit int) []*huma.Param {
	one, most := 1.0, float64(limit)
	return []*huma.Param{
		queryParam("limit", "How many at most; a page may be shorter.", &huma.Schema{Type: huma.TypeInteger, Minimum: &one, Maximum: &most, Default: defaultLimit}),
		queryParam("cursor", "next_cursor of the page before.", text1),
	}
}

var (
	text1   = &huma.Schema{Type: huma.TypeString}
	moment1 = &huma.Schema{Type: huma.TypeString, Format: "date-time"}
)

func many(items *huma.Schema) *huma.Schema { return &huma.Schema{Type: huma.TypeArray, Items: items} }

func enum(values ...any) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Enum: values}
}

// inQuery is where a parameter stands that requests may have.
const inQuery = "query"

func queryParam(name, doc string, s *huma.Schema) *huma.Param {
	explode := true // status=dead&status=cancelled
	return &huma.Param{Name: name, In: inQuery, Description: doc, Schema: s, Explode: &explode}
}

func pathParam(name, doc string) *huma.Param {
	return &huma.Param{Name: name, In: "path", Required: true, Description: doc, Schema: text1}
}

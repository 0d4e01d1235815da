package httpapi

import (
	"slices"

	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/api"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/endpoints"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/jobs"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/lanes"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/links"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/lists"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/messages"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/takers"
)

// operations returns all operations: the rows of each noun, and of the process.
func (s *server) operations() []api.Operation {
	o := &s.o
	return slices.Concat(
		(&messages.Server{Publisher: o.Publisher, Messages: o.Messages, MessageLanes: o.MessageLanes, Policy: o.Policy, Single: s.single, Tracer: o.Tracer, Log: s.log}).Operations(),
		(&lists.Server{Lists: o.Lists, Dead: o.Dead, Attempts: o.Attempts, Followers: o.Followers, Lanes: o.Lanes}).Operations(),
		(&jobs.Server{Jobs: o.Jobs, Lanes: o.Lanes}).Operations(),
		(&takers.Server{Takers: o.Takers, Endpoints: o.Endpoints, Lanes: o.Lanes, Tracer: o.Tracer}).Operations(),
		(&endpoints.Server{Endpoints: o.Endpoints, Tester: o.Tester, Lanes: o.Lanes, Policy: o.Policy}).Operations(),
		(&lanes.Server{Lanes: o.Lanes}).Operations(),
		(&links.Server{Links: o.Links, Endpoints: o.Endpoints, LinksTo: o.LinksTo, NoLinks: o.NoLinks}).Operations(),
		s.auditOperations(),
		s.plainOperations(),
	)
}

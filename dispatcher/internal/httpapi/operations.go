package httpapi

import (
	"slices"

	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/api"
)

// operations returns all operations: the rows of each noun, and of the process.
func (s *server) operations() []api.Operation {
	o := &s.o
	return slices.Concat(
		(&messageServer{Publisher: o.Publisher, Messages: o.Messages, MessageLanes: o.MessageLanes, Policy: o.Policy, Single: s.single, Tracer: o.Tracer, Log: s.log}).Operations(),
		(&listServer{Lists: o.Lists, Dead: o.Dead, Attempts: o.Attempts, Followers: o.Followers, Lanes: o.Lanes, Endpoints: o.Endpoints}).Operations(),
		(&jobServer{Jobs: o.Jobs, Lanes: o.Lanes, Endpoints: o.Endpoints}).Operations(),
		(&takerServer{Takers: o.Takers, Endpoints: o.Endpoints, Lanes: o.Lanes, Tracer: o.Tracer}).Operations(),
		(&endpointServer{Endpoints: o.Endpoints, Tester: o.Tester, Lanes: o.Lanes, Policy: o.Policy}).Operations(),
		(&laneServer{Lanes: o.Lanes}).Operations(),
		(&linkServer{Links: o.Links, Endpoints: o.Endpoints, LinksTo: o.LinksTo, NoLinks: o.NoLinks}).Operations(),
		s.auditOperations(),
		s.plainOperations(),
	)
}

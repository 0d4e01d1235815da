package redisq

import (
	"context"
	_ "embed" // the scripts
	"errors"
	"fmt"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/script"
	"github.com/hookladder/hookladder/signer"
)

//go:embed lua/endpoint_create.lua
var endpointCreateSrc string

//go:embed lua/endpoint_change.lua
var endpointChangeSrc string

//go:embed lua/endpoint_delete.lua
var endpointDeleteSrc string

// The scripts of the endpoints. They are called so seldom that they are loaded
// when they are first needed.
var (
	endpointCreate = script.New("create endpoint", endpointCreateSrc)
	endpointChange = script.New("change endpoint", endpointChangeSrc)
	endpointDelete = script.New("delete endpoint", endpointDeleteSrc)
)

// mostEndpoints is how many a project may have: mostly a GB of Redis. README.md
// and the API tell it. Only tests set another.
var mostEndpoints = 1_000_000

var _ dispatcher.EndpointStore = (*Store)(nil)

// errOther says that a change is of what never changes.
var errOther = errors.New("its uid, tenant and time of creation never change")

// CreateEndpoint stores a new endpoint, in the indexes too, and tells all
// instances.
func (s *Store) CreateEndpoint(ctx context.Context, e *dispatcher.Endpoint) (taken *dispatcher.Endpoint, err error) {
	if len(e.Secrets) == 0 {
		return nil, fmt.Errorf("create endpoint %s: %w", e.ID, signer.ErrNoSecret)
	}
	a, err := s.put(ctx, endpointCreate, e)
	if err != nil {
		return nil, err
	}
	switch word := a.Text(); word {
	case "ok":
		return nil, nil
	case "id":
		return nil, fmt.Errorf("create endpoint %s: %w", e.ID, dispatcher.ErrTaken)
	case "full":
		return nil, fmt.Errorf("create endpoint %s: %w", e.ID, dispatcher.ErrEndpoints)
	case "uid":
		id, stored := a.Text(), a.Text()
		if a.Err != nil {
			return nil, fmt.Errorf("create endpoint %s: %w", e.ID, a.Err)
		}
		return s.readEndpoint(id, stored), fmt.Errorf("create endpoint %s: %w: %s", e.ID, dispatcher.ErrTaken, id)
	default:
		return nil, fmt.Errorf("create endpoint %s: %w", e.ID, conn.ErrReply)
	}
}

// ChangeEndpoint stores a changed endpoint and tells all instances. One without
// secrets was read without the keys that open it: ErrSealed, since storing it
// would lose them.
func (s *Store) ChangeEndpoint(ctx context.Context, e *dispatcher.Endpoint) error {
	if len(e.Secrets) == 0 {
		return fmt.Errorf("change endpoint %s: %w", e.ID, dispatcher.ErrSealed)
	}
	a, err := s.put(ctx, endpointChange, e)
	if err != nil {
		return err
	}
	answers := map[string]error{
		"ok": nil, "stale": dispatcher.ErrStale, "gone": dispatcher.ErrNoEndpoint, "other": errOther,
	}
	err, known := answers[a.Text()]
	if !known {
		err = conn.ErrReply
	}
	if err != nil {
		return fmt.Errorf("change endpoint %s: %w", e.ID, err)
	}
	return nil
}

// put calls a script that stores an endpoint.
func (s *Store) put(ctx context.Context, sc script.Script, e *dispatcher.Endpoint) (*conn.Reply, error) {
	record, err := encodeEndpoint(e, s.seal.Load())
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", sc.Name, e.ID, err)
	}
	a, err := s.conn.RunHome(ctx, sc, e.ID, e.Version, record, e.UID, e.Tenant, toMillis(e.CreatedAt), s.tells(), conn.Flag(len(e.PublicKeys()) > 0), mostEndpoints)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.ID, err)
	}
	return a, nil
}

// tells is the id for scripts that publish it by themselves; empty: they must not.
func (s *Store) tells() string {
	if s.polls {
		return ""
	}
	return s.conn.ID()
}

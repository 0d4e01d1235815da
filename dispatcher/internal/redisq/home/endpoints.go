package home

import (
	"context"
	_ "embed" // the scripts
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/seal"
	"github.com/hookladder/hookladder/signer"
)

//go:embed lua/endpoint_common.lua
var endpointCommonSrc string // the names of the keys: put before each of the other scripts

//go:embed lua/endpoint_create.lua
var createSrc string

//go:embed lua/endpoint_change.lua
var changeSrc string

//go:embed lua/endpoint_delete.lua
var deleteSrc string

//go:embed lua/endpoint_versions.lua
var versionsSrc string

// The scripts of the endpoints. They are called so rarely that each is loaded on its
// first call.
var (
	createScript   = makeScript("create endpoint", createSrc)
	changeScript   = makeScript("change endpoint", changeSrc)
	deleteScript   = makeScript("delete endpoint", deleteSrc)
	versionsScript = makeScript("read versions of endpoints", versionsSrc)
)

func makeScript(name, text string) conn.Script {
	return conn.PrunedScript(name, endpointCommonSrc+text)
}

// mostEndpoints is the limit of a project: about a GB of Redis. README.md and the API
// document it. Only tests change it.
var mostEndpoints = 1_000_000

// Endpoints is a dispatcher.EndpointStore in Redis.
type Endpoints struct {
	conn       *conn.Client
	home       string                   // tag of the keys
	announceAs func() string            // returns the project's id, the prefix of published messages; empty: nothing is published
	seal       atomic.Pointer[seal.Box] // nil: records are not encrypted
	unread     sync.Map                 // by id: records that can't be read, as they were when that was logged
	log        *slog.Logger
}

var _ dispatcher.EndpointStore = (*Endpoints)(nil)

// NewEndpoints returns Endpoints with a connection. box encrypts the secrets and header values; nil:
// they are not encrypted.
func NewEndpoints(c *conn.Client, announceAs func() string, box *seal.Box, log *slog.Logger) *Endpoints {
	s := &Endpoints{conn: c, home: c.Tag(conn.Home), announceAs: announceAs, log: log}
	s.Reseal(box)
	return s
}

// Reseal sets the box for new records.
func (s *Endpoints) Reseal(box *seal.Box) { s.seal.Store(box) }

// Box returns the box for secrets and header values; nil: they are not encrypted.
func (s *Endpoints) Box() *seal.Box { return s.seal.Load() }

// MayReseal reports whether a box opens everything that the current one opens.
func (s *Endpoints) MayReseal(box *seal.Box) bool { return box.Covers(s.seal.Load()) }

// errOther is the error for a change of an immutable field.
var errOther = errors.New("its uid, tenant and time of creation never change")

// CreateEndpoint stores a new endpoint, adds it to the indexes, and notifies all
// instances.
func (s *Endpoints) CreateEndpoint(ctx context.Context, e *dispatcher.Endpoint) (taken *dispatcher.Endpoint, err error) {
	return s.create(ctx, e, false)
}

// CheckEndpoint returns what CreateEndpoint would return, and stores nothing.
func (s *Endpoints) CheckEndpoint(ctx context.Context, e *dispatcher.Endpoint) (taken *dispatcher.Endpoint, err error) {
	return s.create(ctx, e, true)
}

func (s *Endpoints) create(ctx context.Context, e *dispatcher.Endpoint, dry bool) (taken *dispatcher.Endpoint, err error) {
	if len(e.Secrets) == 0 {
		return nil, fmt.Errorf("create endpoint %s: %w", e.ID, signer.ErrNoSecret)
	}
	a, err := s.put(ctx, createScript, e, mostEndpoints, mostOfTenant(ctx), conn.Flag(dry))
	if err != nil {
		return nil, err
	}
	switch word := a.Text(); word {
	case "ok":
		return nil, nil
	case "id":
		return nil, fmt.Errorf("create endpoint %s: %w", e.ID, dispatcher.ErrTaken)
	case "enough":
		return nil, fmt.Errorf("create endpoint %s: %w", e.ID, dispatcher.ErrTenantEndpoints)
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

// mostOfTenant returns how many endpoints a tenant may have for this call to add one; 0:
// no limit.
func mostOfTenant(ctx context.Context) int {
	if c, ok := dispatcher.BrowserOf(ctx); ok && c.Linked() {
		return dispatcher.LinkEndpoints
	}
	return 0
}

// ChangeEndpoint stores a changed endpoint and notifies all instances. It returns
// ErrSealed if the endpoint has no secrets, because it was read without the keys and the
// secrets would be lost.
func (s *Endpoints) ChangeEndpoint(ctx context.Context, e *dispatcher.Endpoint) error {
	return s.RaiseEndpoint(ctx, e.Version-1, e)
}

// RaiseEndpoint is ChangeEndpoint with any later version. before is the stored version.
func (s *Endpoints) RaiseEndpoint(ctx context.Context, before int64, e *dispatcher.Endpoint) error {
	if len(e.Secrets) == 0 {
		return fmt.Errorf("change endpoint %s: %w", e.ID, dispatcher.ErrSealed)
	}
	a, err := s.put(ctx, changeScript, e, before)
	if err != nil {
		return err
	}
	switch a.Text() {
	case "ok":
	case "stale":
		err = dispatcher.ErrStale
	case "gone":
		err = s.gone(ctx)
	case "other":
		err = errOther
	default:
		err = conn.ErrReply
	}
	if err != nil {
		return fmt.Errorf("change endpoint %s: %w", e.ID, err)
	}
	return nil
}

// gone returns the error for an endpoint that was not found. The store may have lost it just now, so
// this looks at the store after the search.
func (s *Endpoints) gone(ctx context.Context) error {
	if err := s.conn.Intact(ctx); err != nil {
		return err
	}
	return dispatcher.ErrNoEndpoint
}

// put calls a script that stores an endpoint. last are its last arguments.
func (s *Endpoints) put(ctx context.Context, sc conn.Script, e *dispatcher.Endpoint, last ...any) (*conn.Reply, error) {
	record, err := encode(e, s.seal.Load())
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", sc.Name, e.ID, err)
	}
	if err := s.conn.Intact(ctx); err != nil { // a changed endpoint must exist, and a new one must not
		return nil, fmt.Errorf("%s %s: %w", sc.Name, e.ID, err)
	}
	args := []any{e.ID, e.Version, record, e.UID, e.Tenant, conn.ToMillis(e.CreatedAt), s.announceAs(), conn.Flag(len(e.PublicKeys()) > 0)}
	a, err := s.conn.RunHome(ctx, sc, append(args, last...)...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.ID, err)
	}
	return a, nil
}

// Package endpoints keeps the endpoints in Redis.
//
// All of them lie under the project's own hash tag, so that a script finds them
// on one node. lua/endpoint_common.lua says what each key holds.
package endpoints

import (
	"context"
	_ "embed" // the scripts
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/access"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/cursor"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/script"
	"github.com/hookladder/hookladder/dispatcher/internal/seal"
	"github.com/hookladder/hookladder/signer"
)

//go:embed lua/endpoint_common.lua
var commonSrc string // the names of the keys: put before each of the others

//go:embed lua/endpoint_create.lua
var createSrc string

//go:embed lua/endpoint_change.lua
var changeSrc string

//go:embed lua/endpoint_delete.lua
var deleteSrc string

//go:embed lua/endpoint_versions.lua
var versionsSrc string

// The scripts of the endpoints. They are called so seldom that they are loaded
// when they are first needed.
var (
	createScript   = makeScript("create endpoint", createSrc)
	changeScript   = makeScript("change endpoint", changeSrc)
	deleteScript   = makeScript("delete endpoint", deleteSrc)
	versionsScript = makeScript("read versions of endpoints", versionsSrc)
)

func makeScript(name, text string) script.Script {
	return script.New(name, script.Prune(commonSrc+text))
}

// mostEndpoints is how many a project may have: mostly a GB of Redis. README.md
// and the API tell it. Only tests set another.
var mostEndpoints = 1_000_000

// Store is a dispatcher.EndpointStore in Redis.
type Store struct {
	conn       *conn.Client
	home       string                   // tag of the keys
	announceAs func() string            // the project's id, with which begins what is published; empty: nothing is published
	seal       atomic.Pointer[seal.Box] // nil: nothing is sealed
	unread     sync.Map                 // endpoints whose record can't be read, by their ids: what it was when the log was told
	log        *slog.Logger
	sealer     *cursor.Sealer
}

var _ dispatcher.EndpointStore = (*Store)(nil)

// New keeps endpoints by a connection. box hides their secrets and header
// values; nil: they are stored as they are.
func New(c *conn.Client, announceAs func() string, box *seal.Box, log *slog.Logger) *Store {
	s := &Store{conn: c, home: c.Tag(conn.Home), announceAs: announceAs, log: log, sealer: cursor.New(c)}
	s.Reseal(box)
	return s
}

// Reseal has what is stored from now on sealed with another box.
func (s *Store) Reseal(box *seal.Box) { s.seal.Store(box) }

// Box is what hides secrets and header values; nil: nothing is hidden.
func (s *Store) Box() *seal.Box { return s.seal.Load() }

// MayReseal reports whether a box opens all that the present one does.
func (s *Store) MayReseal(box *seal.Box) bool { return box.Covers(s.seal.Load()) }

// errOther says that a change is of what never changes.
var errOther = errors.New("its uid, tenant and time of creation never change")

// CreateEndpoint stores a new endpoint, in the indexes too, and tells all
// instances.
func (s *Store) CreateEndpoint(ctx context.Context, e *dispatcher.Endpoint) (taken *dispatcher.Endpoint, err error) {
	if len(e.Secrets) == 0 {
		return nil, fmt.Errorf("create endpoint %s: %w", e.ID, signer.ErrNoSecret)
	}
	a, err := s.put(ctx, createScript, e, mostEndpoints, mostOfTenant(ctx))
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

// mostOfTenant is how many endpoints a tenant may have for this call to add one; 0: any number.
func mostOfTenant(ctx context.Context) int {
	if c, ok := access.CallerOf(ctx); ok && c.Linked() {
		return access.LinkEndpoints
	}
	return 0
}

// ChangeEndpoint stores a changed endpoint and tells all instances. One without
// secrets was read without the keys that open it: ErrSealed, since storing it
// would lose them.
func (s *Store) ChangeEndpoint(ctx context.Context, e *dispatcher.Endpoint) error {
	return s.RaiseEndpoint(ctx, e.Version-1, e)
}

// RaiseEndpoint is ChangeEndpoint with any later version than the stored one, which is before.
func (s *Store) RaiseEndpoint(ctx context.Context, before int64, e *dispatcher.Endpoint) error {
	if len(e.Secrets) == 0 {
		return fmt.Errorf("change endpoint %s: %w", e.ID, dispatcher.ErrSealed)
	}
	a, err := s.put(ctx, changeScript, e, before)
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

// put calls a script that stores an endpoint; last is its last argument.
func (s *Store) put(ctx context.Context, sc script.Script, e *dispatcher.Endpoint, last ...any) (*conn.Reply, error) {
	record, err := encode(e, s.seal.Load())
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", sc.Name, e.ID, err)
	}
	if err := s.conn.Intact(ctx); err != nil { // what is changed has to be there, and what is new must not be
		return nil, fmt.Errorf("%s %s: %w", sc.Name, e.ID, err)
	}
	args := []any{e.ID, e.Version, record, e.UID, e.Tenant, conn.ToMillis(e.CreatedAt), s.announceAs(), conn.Flag(len(e.PublicKeys()) > 0)}
	a, err := s.conn.RunHome(ctx, sc, append(args, last...)...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.ID, err)
	}
	return a, nil
}

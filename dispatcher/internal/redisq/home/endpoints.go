package home

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
	"github.com/hookladder/hookladder/dispatcher/internal/seal"
	"github.com/hookladder/hookladder/signer"
)

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
	a, err := s.put(ctx, createEndpointScript, e, mostEndpoints, mostOfTenant(ctx), conn.Flag(dry))
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
	a, err := s.put(ctx, changeEndpointScript, e, before)
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

// Limits of one call: Lua reads versionsChunk whole records, each of at most 48 KiB, for
// their versions, and gonePage deleted endpoints are listed.
const (
	versionsChunk = 20
	gonePage      = 100
)

// DeleteEndpoint deletes an endpoint, records its last version, and notifies all
// instances.
func (s *Endpoints) DeleteEndpoint(ctx context.Context, id string) (end int64, err error) {
	if err := s.conn.Intact(ctx); err != nil {
		return 0, fmt.Errorf("delete endpoint %s: %w", id, err)
	}
	a, err := s.conn.RunHome(ctx, deleteEndpointScript, id, s.announceAs())
	if err != nil {
		return 0, fmt.Errorf("%s: %w", id, err)
	}
	switch a.Text() {
	case "ok":
		if end = a.Number(); a.Err == nil && end > 0 {
			return end, nil
		}
		return 0, fmt.Errorf("delete endpoint %s: %w", id, conn.ErrReply)
	case "gone":
		return 0, fmt.Errorf("delete endpoint %s: %w", id, s.gone(ctx))
	default:
		return 0, fmt.Errorf("delete endpoint %s: %w", id, conn.ErrReply)
	}
}

// EndpointVersions returns versions without the records.
func (s *Endpoints) EndpointVersions(ctx context.Context, ids []string) ([]dispatcher.EndpointVersion, error) {
	if err := s.conn.LostHome(); err != nil {
		return nil, err
	}
	out, absent := make([]dispatcher.EndpointVersion, 0, len(ids)), false
	for chunk := range slices.Chunk(ids, versionsChunk) {
		args := make([]any, len(chunk))
		for i, id := range chunk {
			args[i] = id
		}
		a, err := s.conn.RunHome(ctx, endpointVersionsScript, args...)
		if err != nil {
			return nil, err
		}
		for range chunk {
			v := dispatcher.EndpointVersion{Version: a.Number(), End: a.Number()}
			out, absent = append(out, v), absent || v.Version == 0
		}
		if a.Err != nil {
			return nil, fmt.Errorf("%s: %w", endpointVersionsScript.Name, a.Err)
		}
	}
	if absent {
		return out, s.conn.Intact(ctx)
	}
	return out, nil
}

// DeletedEndpoints returns a page of the deleted endpoints.
func (s *Endpoints) DeletedEndpoints(ctx context.Context, cursor string) (ends map[string]int64, next string, err error) {
	found, next, err := s.conn.Scan(ctx, "read deleted endpoints", conn.Home, cursor, func(p redis.Pipeliner, at uint64) *redis.ScanCmd {
		return p.HScan(ctx, s.home+keys.Gone, at, "", gonePage)
	})
	if err != nil {
		return nil, "", err
	}
	ends = make(map[string]int64, len(found)/2)
	for i := 0; i+1 < len(found); i += 2 {
		// An invalid version was not written by this program, and doctor reports it.
		if end, err := strconv.ParseInt(found[i+1], 10, 64); err == nil && end > 0 {
			ends[found[i]] = end
		}
	}
	return ends, next, nil
}

// ForgetDeleted removes the record of a deleted endpoint.
func (s *Endpoints) ForgetDeleted(ctx context.Context, id string) error {
	return s.conn.At(ctx, "forget deleted endpoint", conn.Home, func(p redis.Pipeliner) { p.HDel(ctx, s.home+keys.Gone, id) })
}

// EndpointBack is an endpoint from an archive.
type EndpointBack struct {
	ID      string
	Version int64
	Record  []byte
	Deleted bool
	Lane    dispatcher.LaneLimits // the current limits of the endpoint's lane, which may still exist
}

// PutBack stores an endpoint's record from an archive, or records that the endpoint was
// deleted, unless the store knows the endpoint. It returns the limits of its lane, and
// whether the endpoint was missing.
func (s *Endpoints) PutBack(ctx context.Context, b EndpointBack) (l dispatcher.LaneLimits, fresh bool, err error) {
	newer := b.Lane.Version > b.Version
	if newer && b.Lane.Mode == dispatcher.LaneDeleted {
		b.Deleted, b.Version = true, b.Lane.Version
	}
	if b.Deleted {
		l = dispatcher.LaneLimits{Version: b.Version, Mode: dispatcher.LaneDeleted}
		fresh, err = s.putEnd(ctx, b.ID, b.Version)
		return l, fresh, err
	}
	// A record that no key decrypts is restored too, because the key may be added later.
	box := s.seal.Load()
	e, err := decode(b.ID, strconv.FormatInt(b.Version, 10)+" "+string(b.Record), box)
	if e.CreatedAt.IsZero() {
		return l, false, err
	}
	l = e.Limits()
	if newer && err == nil {
		e.Overtake(b.Lane)
		if b.Record, err = encode(e, box); err != nil {
			return l, false, err
		}
		b.Version = e.Version
	}
	a, err := s.conn.RunHome(ctx, createEndpointScript, b.ID, b.Version, b.Record, e.UID, e.Tenant, conn.ToMillis(e.CreatedAt), s.announceAs(), conn.Flag(len(e.PublicKeys()) > 0), mostEndpoints, 0)
	if err != nil {
		return l, false, err
	}
	switch word := a.Text(); word {
	case "ok":
		return e.Limits(), true, nil
	case "id":
		return l, false, nil
	case "uid":
		if a.Text() == b.ID {
			return l, false, nil
		}
		return l, false, fmt.Errorf("%w: another one has its uid %s", dispatcher.ErrTaken, e.UID)
	case "full":
		return l, false, dispatcher.ErrEndpoints
	}
	return l, false, conn.ErrReply
}

// putEnd records the deletion of an endpoint that the store does not know.
func (s *Endpoints) putEnd(ctx context.Context, id string, end int64) (fresh bool, err error) {
	var there, noted *redis.BoolCmd
	err = s.conn.At(ctx, "read endpoint", conn.Home, func(p redis.Pipeliner) { there = p.HExists(ctx, s.home+keys.Endpoints, id) })
	if err != nil || there.Val() {
		return false, err
	}
	err = s.conn.At(ctx, "note deleted endpoint", conn.Home, func(p redis.Pipeliner) { noted = p.HSetNX(ctx, s.home+keys.Gone, id, end) })
	return conn.Value(noted), err
}

package redisqtest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

// The token and the owner of the leases of TakeFor.
const (
	Token = "t1"
	Owner = "o1"
)

// TakeFor takes up to wanted deliveries of lanes, by leases that end by
// themselves.
func (r *Rig) TakeFor(wanted int, lasts time.Duration, lanes ...dispatcher.Lane) []dispatcher.Claimed {
	r.Helper()
	taken, hints, err := r.Queue.Take(r.Ctx, One, dispatcher.Take{
		Lanes: lanes, Most: wanted, Bytes: 1 << 20, For: lasts, Token: Token, Owner: Owner,
	})
	require.NoError(r, err)
	require.LessOrEqual(r, len(taken.Claimed), wanted)
	r.MustBeCurrent(hints)
	return taken.Claimed
}

// MustTakeFor takes exactly these deliveries, in this order. lasts is the
// length of their leases.
func (r *Rig) MustTakeFor(lasts time.Duration, want ...dispatcher.DeliveryID) []dispatcher.Claimed {
	r.Helper()
	got := r.TakeFor(len(want), lasts, want[0].Lane)
	require.Equal(r, want, ClaimedIDs(got))
	return got
}

// LeaseOf returns the lease by which TakeFor took a delivery.
func LeaseOf(id dispatcher.DeliveryID) dispatcher.TakenLease {
	return dispatcher.TakenLease{ID: id, Token: Token, Owner: Owner}
}

// Adopt moves leases to an instance.
func (r *Rig) Adopt(by string, leases ...dispatcher.TakenLease) []dispatcher.Adopted {
	r.Helper()
	got, hints := r.Queue.Adopt(r.Ctx, by, leases)
	require.Len(r, got, len(leases))
	r.MustBeCurrent(hints)
	for i, a := range got {
		require.Equal(r, a.Err == nil, a.Claimed != nil, "%s: %v", leases[i].ID, a.Err)
	}
	return got
}

// MustAdopt moves the lease of a delivery to an instance.
func (r *Rig) MustAdopt(by string, id dispatcher.DeliveryID) dispatcher.Claimed {
	r.Helper()
	a := r.Adopt(by, LeaseOf(id))[0]
	require.NoError(r, a.Err)
	require.Equal(r, id, a.Claimed.ID)
	return *a.Claimed
}

// Extend makes leases last longer.
func (r *Rig) Extend(lasts time.Duration, leases ...dispatcher.TakenLease) []dispatcher.Adopted {
	r.Helper()
	got, hints := r.Queue.Extend(r.Ctx, One, leases, lasts)
	require.Len(r, got, len(leases))
	r.MustBeCurrent(hints)
	return got
}

// End moves, and returns the deliveries whose leases have ended by themselves.
func (r *Rig) End(by string) []dispatcher.Claimed {
	r.Helper()
	ended, hints, err := r.Queue.Move(r.Ctx, by, r.All())
	require.NoError(r, err)
	r.MustBeCurrent(hints)
	return ended
}

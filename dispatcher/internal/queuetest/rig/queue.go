package rig

import (
	"context"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// Hint says what a partition has to do, as of Now by its own clock.
type Hint struct {
	Partition int
	Now       time.Time
	Due       time.Time            // the earliest time at which something becomes ready; zero: nothing waits for a time
	Weight    int                  // of the lightest lane that may be claimed from; -1: there is none
	Ended     int                  // deliveries that a claim ended instead of leasing them
	Lost      int                  // deliveries that a claim dropped because their message was gone
	Placed    int                  // lanes that a claim placed anew, since instances came or went
	Opened    []dispatcher.Opening // lanes whose breaker this call opened, or opened again
	Closed    []dispatcher.Lane    // lanes whose breaker it closed
	Dead      []dispatcher.Death   // deliveries that died of this call
}

// Queue is a dispatcher.Queue as the suite uses it. The suite says which partitions
// a call asks. A call also answers the hints that the store took in.
type Queue interface {
	Schedule(ctx context.Context, by string, free, lease int, batch []dispatcher.Entry) ([]dispatcher.ScheduleResult, []Hint, error)
	Move(ctx context.Context, by string, in []int) (ended []dispatcher.Claimed, hints []Hint, err error)
	Adopt(ctx context.Context, by string, leases []dispatcher.TakenLease) ([]dispatcher.Adopted, []Hint)
	Extend(ctx context.Context, by string, leases []dispatcher.TakenLease, lasts time.Duration) ([]dispatcher.Adopted, []Hint)
	Claim(ctx context.Context, by string, in []int, wanted, free int) ([]dispatcher.Claimed, []Hint, error)
	ClaimBeside(ctx context.Context, by string, in []int, c dispatcher.Claim) ([]dispatcher.Claimed, []Hint, error)
	Begin(ctx context.Context, by string, l dispatcher.Lease, beside bool) (bool, error)
	Take(ctx context.Context, by string, t dispatcher.Take) (dispatcher.Taken, []Hint, error)
	Settled(ctx context.Context, by string, batch []dispatcher.Settlement) ([]dispatcher.Settled, []Hint) // Settle with all that is told of each
	Settle(ctx context.Context, by string, batch []dispatcher.Settlement) ([]dispatcher.SettleResult, []Hint, error)
	Reap(ctx context.Context, by, dead string) (taken int, hints []Hint, err error)
	Trim(ctx context.Context, by string, in []int, keep dispatcher.Keep, room bool) (Trimmed, error)
	Cancel(ctx context.Context, by string, ids []dispatcher.DeliveryID) ([]dispatcher.Change, []Hint, error)
	Retry(ctx context.Context, by string, ids []dispatcher.DeliveryID, delivered bool) ([]dispatcher.Change, []Hint, error)
	Limit(ctx context.Context, by string, lane dispatcher.Lane, l dispatcher.LaneLimits, clear bool) (dispatcher.LaneCount, []Hint, error)
	Cut(ctx context.Context, by string, lane dispatcher.Lane, since time.Time) (waiting int, cut bool, hints []Hint, err error)
	Works(ctx context.Context, by string, lane dispatcher.Lane) ([]Hint, error)
	Uncut(ctx context.Context, by string, lane dispatcher.Lane) error
	EndWaits(ctx context.Context, by string, lanes []dispatcher.Lane) ([]Hint, error)
	Sweep(ctx context.Context, by string, lane dispatcher.Lane, cursor string) (ended int, next string, hints []Hint, err error)
	ReadHints(ctx context.Context, in []int) ([]Hint, error)
	Watch(ctx context.Context, by string, to Subscriber) error
	HeldLanesIn(ctx context.Context, partition int, cursor string) ([]dispatcher.HeldLane, string, error)
	LaneNamesIn(ctx context.Context, partition int, cursor string) ([]dispatcher.LaneName, string, error)
	Partitions() int

	// The same as in dispatcher.Queue.
	Join(ctx context.Context, by string, i dispatcher.Instance) error
	Beat(ctx context.Context, by string, number int64) (fresh bool, all map[string]int64, err error)
	Leave(ctx context.Context, by string) error
	Instances(ctx context.Context, limit int, cursor string) ([]dispatcher.InstanceState, string, error)
	Orphans(ctx context.Context) ([]string, error)
	Leases(ctx context.Context, by string) ([]dispatcher.Lease, error)
	Body(ctx context.Context, id dispatcher.DeliveryID, a dispatcher.Apart) ([]byte, error)
	ForgetLane(ctx context.Context, by string, copied dispatcher.LaneVersion, age time.Duration) (bool, error)
	LaneStates(ctx context.Context, lanes []dispatcher.Lane) ([]dispatcher.LaneState, error)
	Lanes(ctx context.Context, limit int, cursor string) ([]dispatcher.LaneState, string, error)
	PausedLanes(ctx context.Context, most int) ([]dispatcher.LaneState, int, error)
	Read(ctx context.Context, id string) (dispatcher.MessageView, error)
	Standing(ctx context.Context, batch []dispatcher.Entry) ([]dispatcher.Standing, error)
	Known(ctx context.Context, ids []string) ([]bool, error)
	Kept(ctx context.Context, batch []dispatcher.Entry) ([]*dispatcher.Message, error)
	ReadLog(ctx context.Context, f dispatcher.LogFilter, limit int, cursor string) (dispatcher.LogPage, error)
	LogEnd(ctx context.Context) (dispatcher.LogPosition, error)
	LogSince(at time.Time) dispatcher.LogPosition
	LogAt(text string) (dispatcher.LogPosition, error)
	FollowLog(ctx context.Context, at *dispatcher.LogPosition, wanted func(*dispatcher.Logged) bool) (dispatcher.LogStep, error)
	List(ctx context.Context, f dispatcher.Filter) (dispatcher.Page, error)
	Ended(ctx context.Context, f dispatcher.EndedFilter) (dispatcher.EndedPage, error)
	Dead(ctx context.Context, f dispatcher.DeadFilter) (dispatcher.DeadPage, error)
	Upcoming(ctx context.Context) (dispatcher.Upcoming, error)
	Stats(ctx context.Context) (dispatcher.Stats, error)
	Polls() bool
	Nodes() int
	Store(ctx context.Context) (dispatcher.StoreInfo, error)
	Ping(ctx context.Context) error
}

// Trimmed is what a Trim answers, with the hints.
type Trimmed struct {
	dispatcher.Trimmed
	Hints []Hint // of partitions in which a lane was placed anew, since another clock had set its time
}

// Subscriber is also told the hints of other instances.
type Subscriber struct {
	dispatcher.Subscriber
	OnHint func(Hint)
}

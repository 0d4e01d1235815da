// Package dispatcher is the engine of Hookladder: it takes notifications,
// keeps them in a queue, and delivers each as a signed HTTP callback at its due
// time, again and again up a ladder of waits, until it is delivered, dead or
// cancelled.
//
// # The promise
//
// Once a message is accepted, each of its deliveries ends delivered, dead or
// cancelled, whichever process dies and whenever. No attempt is made before its
// due time, none is made unsigned, and a destination that hangs or fails delays
// no other.
//
// # The words
//
//   - A message is what a caller publishes: id, topic, tenant, body.
//   - A destination is where it goes; its lane is the short key under which
//     everything that goes there waits.
//   - An endpoint is a destination that was registered, with secrets, limits
//     and a state of its own; its lane keeps a copy of its limits.
//   - A lane is held while it is paused, disabled or deleted, and open while
//     its breaker is: after too many failures it waits, and is probed.
//   - A delivery is one message to one destination, named <lane>:<message id>.
//   - An attempt is one HTTP request of a delivery, counted from 1.
//   - The ladder is the list of waits between attempts, a rung one of them.
//   - A lease is an instance's hold on a delivery that is in flight.
//   - To settle is to record the outcome of an attempt.
//   - A partition is one set of keys of the queue; a lane always lies in the
//     same one.
//   - A permit is the right to hold one lease; an instance has so many.
//
// # The flow
//
// The files are read in this order:
//
//	accept ──► schedule ──► move ──► claim ──► deliver ──► settle ──► done, dead
//	                         ▲                                │
//	                         └────────── rung ◄───────────────┘
//
// accept.go coalesces concurrent publishes into one call to the queue; move.go
// makes ready what is due; claim.go takes permits and leases that many;
// workers.go bounds what runs at once; deliver.go signs, sends and asks outcome.go
// what the answer means; settle.go records it, and settle_apart.go what could
// not be recorded at once. beat.go keeps the instance alive and finds out who is
// not, reap.go takes over from those, reconcile.go hands back leases whose answer
// was lost, trim.go forgets what is old, evict.go what is young when memory is
// full, and view.go knows which partition has something to do, and when. run.go
// begins all that and ends it in order.
//
// Endpoints have files of their own: registry.go joins them, register.go makes and
// changes them, cache.go knows those that were asked for, fanout.go finds which of
// them a message goes to, versions.go makes sure that lane and endpoint agree before
// an attempt, pause.go pauses and resumes any lane, sweep.go ends what waits in one
// that takes nothing any more, and finish.go ends changes that stopped half-way.
// route.go says how an attempt goes, and try.go sends a message that only tries.
//
// The package speaks no Redis, no SQL and serves no HTTP: those are adapters
// below internal, and package app joins them.
package dispatcher

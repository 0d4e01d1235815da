// Package dispatcher has the types of Hookladder, its pure decisions, and the interfaces of
// stores and senders. Hookladder accepts messages and keeps them in a queue. It delivers
// each as a signed HTTP callback at its due time. A failed attempt is retried after the
// waits of a ladder, until the delivery is delivered, dead or cancelled.
//
// # The promise
//
// Once a message is accepted, each of its deliveries ends delivered, dead or
// cancelled, whichever process dies and whenever. No attempt is made before its
// due time or without a signature. A destination that hangs or fails delays no other.
//
// # The words
//
//   - A message is published by a caller. It has an id, a topic, a tenant and a body.
//   - A destination is the receiver of a message. Its lane is the short key of its
//     waiting deliveries.
//   - An endpoint is a registered destination with secrets, limits and a state of
//     its own. Its lane keeps a copy of its limits.
//   - A lane is blocked while it is paused, disabled or deleted. It is open while its
//     circuit breaker is open: after too many failures it waits, and single attempts probe it.
//   - A delivery is one message to one destination, named <lane>:<message id>.
//   - An attempt is one HTTP request of a delivery, counted from 1.
//   - The ladder is the list of waits between attempts. A rung is one of them.
//   - An instance is one process that dispatches, under a name of its own.
//   - A lease gives a delivery in flight to one instance.
//   - A suspect is a delivery that two instances had leased when they died, without an
//     outcome after that. It is poison if a third one dies after its attempt began. If
//     other handlers ran beside it, it is attempted alone first.
//   - A permit allows one lease. Each instance has a fixed number.
//   - To settle is to record the outcome of an attempt.
//   - The queue is the store of messages and deliveries. It divides itself into
//     partitions, of which only the store knows.
//
// # The flow
//
//	publish ──► accept ──► schedule ──► move ──► take ──► deliver ──► settle ──► done, dead
//	                                     ▲                              │
//	                                     └──────────── rung ◄───────────┘
//
// Package success has the rules for a successful response, and package ladder the waits
// between attempts. The engine is in internal/engine, a file for each stage, in this order:
//
//	publish.go   finds the lanes of a message, and returns the result of publishing it
//	accept.go    coalesces concurrent publishes into one call of the queue, by turns of the callers
//	watch.go     moves due deliveries, and polls the queue for events that were lost
//	take.go      takes permits, claims as many deliveries, and starts their attempts
//	bodies.go    reads large bodies first
//	workers.go   bounds how many attempts run at once
//	attempt.go   makes an attempt and judges the response (route.go: URL, signer and headers of a delivery)
//	settle.go    records the outcome, and keeps what could not be recorded at once
//
// queue.go has the methods of the store that the stages call. lease.go knows the leases of
// this instance and of its takers, and returns those whose response was lost. beat.go keeps
// the instance alive and finds dead ones, and reap.go takes over from them. trim.go deletes
// old deliveries. run.go starts and stops these parts in order.
//
// The endpoints are in internal/endpoints. register.go makes and changes them,
// cache.go caches them, and finds the endpoints that match a topic. versions.go
// checks before an attempt that lane and endpoint agree. pause.go and tenants.go pause and
// resume lanes. repair.go is the loop in the background: it gives up failing destinations,
// completes changes that an instance left unfinished, and ends the deliveries of disabled and
// deleted lanes.
//
// None of these packages speaks Redis or SQL, or serves HTTP: those are adapters
// below internal, and package app joins them.
package dispatcher

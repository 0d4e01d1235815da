// Package observe has what both hosts of the engine, the service and a queue of a Go program,
// are observed by. None of it lets a delivery wait.
//
// A Gauge counts deliveries over time, for the charts of the console. It is a
// dispatcher.Observer, and counts the events of this instance in memory, by minute and by
// lane. Once a minute it adds the counts to a GaugeStore, so that no delivery costs a write.
// Reading returns the stored counts of all instances and the own counts that are not stored
// yet. It counts attempts that this instance made or whose outcome a taker reported to it,
// accepted messages, and deliveries that died here. It does not count tests of endpoints, and
// leases of takers that expired. Counting an event takes 88 ns and allocates nothing
// (bench_test.go).
//
// NewTracer records the spans of package trace by the API of OpenTelemetry (tracer.go). Its
// caller brings the implementation: the program has an SDK of its own, and a Go program of a
// user the user's.
//
// A Log lets the program log without waiting for the reader of its log (log.go). A pipe
// that nobody reads blocks each write, and a log line is never worth a delivery. A Log takes
// lines in memory, and one goroutine hands them to the real handler in their order. A line
// that does not fit, or that the handler can't write, is dropped and counted. When lines are
// written again, one line reports how many were dropped at that place.
package observe

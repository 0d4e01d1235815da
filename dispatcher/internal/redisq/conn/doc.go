// Package conn is the connection of one project to its Redis, of any kind:
// one server, a cluster, or a master in Sentinel.
//
// [Dial] makes a [Client]. [Client.Agree] reads :meta, or writes it in an empty
// store, and [Client.Divide] gives the client its partitions. [Client.FindDurable]
// detects the way to make writes durable, and [Client.Load] loads scripts. Then there
// are four kinds of calls, each one round trip to every master of its partitions:
//
//   - [Client.At] runs plain commands in one partition, or at [Home], which has the
//     project's own keys.
//   - [Client.EachPartition] runs plain commands in several partitions.
//   - [Client.Send] sends a [Batch]: a script that each [Call] runs once, or plain
//     commands, with the master's clock or durably. Each call has its own [Reply],
//     which is read value by value.
//   - [Client.RunHome] runs a script on the project's own keys.
//
// All of them retry a command that Redis reports as not run, load a script that a
// node does not have, and wrap errors in the errors of the engine ([Failed]). In a
// cluster a node breaker stops calls to masters that do not respond. Every
// call fails after the project was changed under this instance (division.go).
//
// The other files have what the packages above are made of:
//
//   - script.go builds the Lua scripts. Most begin with the shared parts in lua/: the names of
//     the keys, the clock, the records and the state of lanes. Each package with scripts embeds
//     its own texts.
//   - codec_*.go encode and decode the texts in the keys: records of messages, progress and
//     attempts of deliveries, limits and pauses of lanes, and instances. Each text has a fixed
//     format. The scripts use the same formats.
//   - cursor.go seals where a page of a list ended. So a cursor reveals nothing, and fits its
//     own list only.
//   - partitions.go records the state of each partition: whether it replies, when a delivery
//     becomes due there, and how heavy its lightest lane is that may be claimed from. A
//     [PartitionSet] learns this from every reply of the store and from the hints of other
//     instances. It chooses the partitions that a call asks. No partition has its own goroutine,
//     timer or connection.
//   - probe.go queries a store's features, its configuration, and the data that it could lose.
//     The start of an instance, /readyz and the doctor call [Probe.Store]. It queries all
//     masters, evaluates the checks (probe_checks.go) and caches the result.
package conn

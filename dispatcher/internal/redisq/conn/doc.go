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
package conn

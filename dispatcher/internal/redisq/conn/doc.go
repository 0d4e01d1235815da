// Package conn is the connection of one project to its Redis, whatever kind of
// Redis that is: one server, a cluster, or a master that sentinels name.
//
// [Dial] makes a [Client]. [Client.Agree] reads :meta, or writes it in an empty
// store, and [Client.Divide] gives the client its partitions. [Client.FindDurable]
// finds the way to make writes durable, and [Client.Load] loads scripts. From then
// on there are four ways to ask, each one round trip to every master concerned:
//
//   - [Client.At] makes plain commands in one partition, or at [Home], where the
//     project's own keys lie.
//   - [Client.EachPartition] makes plain commands in several partitions.
//   - [Client.Run], and [Client.RunDurable], call a script once for each
//     [ScriptCall] and answer a [Reply] each, which is read value by value.
//     [Client.RunHome] calls one on the project's own keys.
//   - [Client.Send] sends a [Batch] of calls that are filled by hand, for callers
//     that need the master's clock or durable plain commands.
//
// All of them repeat what Redis said it did not carry out, load a script that a
// node does not know, and give errors the engine's meaning ([Failed]). In a
// cluster a node breaker keeps calls away from masters that do not answer. Every
// call fails once the project is no longer as it was opened (division.go).
package conn

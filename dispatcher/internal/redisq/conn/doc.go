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
//   - [Client.Send] sends a [Batch]: a script that each [Call] runs once, or plain
//     commands, with the master's clock or durably. Each call has its own [Reply],
//     which is read value by value.
//   - [Client.RunHome] calls a script on the project's own keys.
//
// All of them repeat what Redis said it did not carry out, load a script that a
// node does not know, and give errors the engine's meaning ([Failed]). In a
// cluster a node breaker keeps calls away from masters that do not answer. Every
// call fails once the project is no longer as it was opened (division.go).
package conn

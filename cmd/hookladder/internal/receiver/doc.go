// Package receiver helps people who build a receiver.
//
// Check tests one: it sends webhooks that the receiver should accept and others that it
// should refuse, and grades the responses (check.go).
//
// Inspect reports why the signature of a webhook is not valid (inspect.go). A signature that
// does not match does not show the reason. So Inspect makes the usual mistakes itself: it
// formats the body again, does not decode the secret, or signs the parts in another order. It
// combines one or two mistakes, until the result is the signature of the webhook. The tables
// in inspect_keys.go and inspect_texts.go have one row for each mistake.
package receiver

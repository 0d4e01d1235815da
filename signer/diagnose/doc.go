// Package diagnose helps people who build a receiver: Inspect reports why the signature of a webhook
// is not valid, and Check tests a receiver.
//
// A signature that does not match does not show the reason. So Inspect makes the usual mistakes
// itself: it formats the body again, does not decode the secret, or signs the parts in another
// order. It combines one or two mistakes, until the result is the signature of the webhook, or
// the one that the receiver's own code computed. The tables in inspect.go have one row for each
// mistake.
//
// Check sends webhooks that the receiver should accept and others that it should refuse, and grades
// the responses. The table in check.go has one row for each of them.
package diagnose

// Package diagnose reports why the signature of a webhook is not valid.
//
// A signature that does not match does not show the reason. So Inspect makes the usual mistakes
// itself: it formats the body again, does not decode the secret, or signs the parts in another
// order. It combines one or two mistakes, until the result is the signature of the webhook, or
// the one that the receiver's own code computed. The tables in inspect_keys.go and
// inspect_texts.go have one row for each mistake.
package diagnose

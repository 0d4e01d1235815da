// Package receiver helps people who build a receiver.
//
// Check tests one: it sends webhooks that the receiver should accept and others that it
// should refuse, and grades the responses (check.go).
package receiver

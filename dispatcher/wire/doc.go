// Package wire has the JSON types of the HTTP API: what a caller sends and what
// it is answered. The server and the Go client share them.
//
// Times are RFC 3339 in UTC with milliseconds. A field that does not apply is
// left out, but next_attempt_at, next_cursor and the until of a secret, which
// are null then. Fields may be added to answers; a reader ignores those it does
// not know.
package wire

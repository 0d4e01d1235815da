// Package wire has the JSON types of the HTTP API: requests and answers. The server
// and the Go client share them.
//
// Times are RFC 3339 in UTC with milliseconds. A field that does not apply is left
// out, except for next_attempt_at, next_cursor and the until of a secret, which are
// null. Answers may get more fields; a reader ignores unknown ones.
package wire

// Package wire has the JSON types of requests and responses of the HTTP API. The server and the
// Go client share them.
//
// Times are RFC 3339 in UTC with milliseconds. A field that does not apply is omitted. Only
// next_attempt_at, next_cursor and the until of a secret are null instead. Responses may get more
// fields, so a reader ignores unknown ones.
package wire

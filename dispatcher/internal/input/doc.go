// Package input reads what people write, and shows it to them again without a secret: the
// fields of a caller's JSON (fields.go), the sizes of pages, the URLs of settings
// (url.go), and files of certificates (certificates.go).
//
// A URL of a setting may have a password. A password that is not percent-encoded ends up in
// any other part of the URL: in the path, the query, the fragment, the port. So a mistyped URL
// is refused as a whole, and no part of it is printed.
package input

package inspect

import (
	"encoding/base64"
	"encoding/hex"
	"regexp"
	"strings"
)

// A reading is one way to read a signature as bytes.
type reading struct {
	sum      []byte
	prefix   string // what stood before it, as a version
	form     string
	mistakes []slip
}

// The forms of signatures.
const (
	formHex      = "hex"
	formUpperHex = "hex in upper case"
	formBase64   = "base64"
	formNoPad    = "base64 without padding"
	formURL      = "the base64 of URLs"
	formURLNoPad = "the base64 of URLs without padding"
	formHexIn64  = "base64 of hex"
)

// mostSignatures is how many signatures of a header are looked at, as signer does.
const mostSignatures = 32

// versions are what stands before a signature in some header.
var versions = regexp.MustCompile(`^(v[0-9]+[a-z]?[,=:]|sha(?:1|256|512)[=:])`)

// decodings are all ways to read what is in a header as signatures.
func decodings(header string) (all []reading) {
	words := strings.Fields(header)
	if strings.Contains(header, "t=") { // Stripe's list
		words = strings.Split(header, ",")
	}
	for _, word := range words[:min(len(words), mostSignatures)] {
		word = strings.Trim(strings.TrimSpace(word), `"'`)
		prefix := versions.FindString(word)
		for _, one := range forms(word[len(prefix):]) {
			one.prefix = prefix
			all = append(all, one)
		}
	}
	return all
}

// forms are the ways to read a text. Signatures have 20, 32 or 64 bytes.
func forms(text string) (all []reading) {
	add := func(sum []byte, err error, form string) {
		if err == nil && (len(sum) == 20 || len(sum) == 32 || len(sum) == 64) {
			all = append(all, reading{sum: sum, form: form})
		}
	}
	form := formHex
	if text != strings.ToLower(text) {
		form = formUpperHex
	}
	sum, err := hex.DecodeString(text)
	add(sum, err, form)
	for _, e := range []struct {
		form string
		*base64.Encoding
	}{
		{formBase64, base64.StdEncoding}, {formNoPad, base64.RawStdEncoding},
		{formURL, base64.URLEncoding}, {formURLNoPad, base64.RawURLEncoding},
	} {
		sum, err := e.DecodeString(text)
		add(sum, err, e.form)
		if inner, err := hex.DecodeString(string(sum)); err == nil {
			add(inner, nil, formHexIn64)
		}
	}
	return all
}

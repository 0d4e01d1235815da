package signer

import (
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"net/textproto"
	"slices"
	"strings"
)

// Hash is the hash function of a Form.
type Hash string

// The hash functions, by their names in the API.
const (
	SHA256 Hash = "sha256"
	SHA512 Hash = "sha512"
)

// Hashes returns all hash functions, the default first.
func Hashes() []Hash { return slices.Clone(hashes) }

var hashes = []Hash{SHA256, SHA512}

// Encoding is the text form of a signature in a Form.
type Encoding string

// The encodings, by their names in the API.
const (
	Hex    Encoding = "hex"    // in lower case
	Base64 Encoding = "base64" // the standard alphabet, with padding
)

// Encodings returns all encodings, the default first.
func Encodings() []Encoding { return slices.Clone(encodings) }

var encodings = []Encoding{Hex, Base64}

// Content is the signed text of a Form. The contents with a time write the header as
// t=<Unix seconds>,v1=<signature>, with one v1 for each secret.
type Content string

// The contents, by their names in the API.
const (
	OnlyBody      Content = "body"
	TimeDotBody   Content = "t.body"       // as Stripe
	TimeCommaBody Content = "t-comma-body" // as Convoy
)

// Contents returns all contents, the default first.
func Contents() []Content { return slices.Clone(contents) }

var contents = []Content{OnlyBody, TimeDotBody, TimeCommaBody}

// MaxPrefix is the longest prefix of a Form in characters.
const MaxPrefix = 16

// ErrForm means that a Form is not valid, or does not belong to the scheme.
var ErrForm = errors.New("not a form of the signature")

// Form describes a signature of HMAC. The zero Form is that of HMACHex: the hex of
// HMAC-SHA256 of the body, in the header x-signature.
type Form struct {
	Header   string   // empty: HeaderHMAC
	Hash     Hash     // empty: SHA256
	Encoding Encoding // empty: Hex
	Prefix   string   // before the signature, of OnlyBody only
	Content  Content  // empty: OnlyBody
}

// The forms of the schemes that are one form of HMAC.
var (
	stripeForm = Form{Header: HeaderStripe, Content: TimeDotBody}
	githubForm = Form{Header: HeaderGitHub, Prefix: "sha256="}
)

// Check returns an error that wraps ErrForm if a field is not valid. It does not check
// the name of the header.
func (f Form) Check() error {
	for _, err := range []error{f.CheckHash(), f.CheckEncoding(), f.CheckPrefix(), f.CheckContent()} {
		if err != nil {
			return fmt.Errorf("%w: %w", ErrForm, err)
		}
	}
	return nil
}

// CheckHash returns an error if the hash is none of Hashes.
func (f Form) CheckHash() error { return oneOf(f.Hash, hashes) }

// CheckEncoding returns an error if the encoding is none of Encodings.
func (f Form) CheckEncoding() error { return oneOf(f.Encoding, encodings) }

// CheckContent returns an error if the content is none of Contents.
func (f Form) CheckContent() error { return oneOf(f.Content, contents) }

// CheckPrefix returns an error for a prefix that the header can't have.
func (f Form) CheckPrefix() error {
	switch {
	case f.Prefix == "":
		return nil
	case f.timed():
		return fmt.Errorf("must be empty, because the content %s writes a header of the form t=...,v1=... without one", f.Content)
	case len(f.Prefix) > MaxPrefix:
		return fmt.Errorf("has %d characters, at most %d are accepted", len(f.Prefix), MaxPrefix)
	case f.Prefix[0] == ' ' || strings.ContainsFunc(f.Prefix, func(r rune) bool { return r < ' ' || r > '~' }):
		return errors.New("must be printable ASCII, and not begin with a space")
	}
	return nil
}

func oneOf[T ~string](word T, words []T) error {
	if word == "" || slices.Contains(words, word) {
		return nil
	}
	return fmt.Errorf("must be one of %s", joined(words))
}

func joined[T ~string](words []T) string {
	texts := make([]string, len(words))
	for i, word := range words {
		texts[i] = string(word)
	}
	return strings.Join(texts, ", ")
}

// timed reports whether the form signs the time.
func (f Form) timed() bool { return f.Content == TimeDotBody || f.Content == TimeCommaBody }

// separator is the text between the time and the body.
func (f Form) separator() byte {
	if f.Content == TimeCommaBody {
		return ','
	}
	return '.'
}

func (f Form) hash() func() hash.Hash {
	if f.Hash == SHA512 {
		return sha512.New
	}
	return sha256.New
}

// size returns the length of a signature in bytes.
func (f Form) size() int {
	if f.Hash == SHA512 {
		return sha512.Size
	}
	return sha256.Size
}

// layout returns the properties of HMAC in this form.
func (f Form) layout() layout {
	if f.Header == "" {
		f.Header = HeaderHMAC
	}
	return layout{
		header: strings.ToLower(f.Header), canonical: textproto.CanonicalMIMEHeaderKey(f.Header),
		kind: kindText, rotates: f.timed(), time: f.timed(), form: f,
	}
}

// append writes a signature.
func (f Form) append(to, sum []byte) []byte {
	if f.Encoding == Base64 {
		return base64.StdEncoding.AppendEncode(to, sum)
	}
	return hex.AppendEncode(to, sum)
}

// decode parses a signature. It returns nil for any other text.
func (f Form) decode(text string) []byte {
	if f.Encoding == Base64 {
		return decode64(text, f.size())
	}
	return decodeHex(text, f.size())
}

// String describes the value of the header.
func (f Form) String() string {
	text := fmt.Sprintf("<hex of %d bytes in lower case>", f.size())
	if f.Encoding == Base64 {
		text = fmt.Sprintf("<base64 of %d bytes>", f.size())
	}
	if f.timed() {
		return "t=<Unix seconds>,v1=" + text
	}
	return f.Prefix + text
}

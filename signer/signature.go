package signer

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"strings"
)

// maxCandidates is the most signatures that are checked in one header. It is enough for
// every secret of a sender in two versions.
const maxCandidates = 2 * MaxSecrets

// parseSignatures returns the signatures of a scheme's version in a header of Standard
// Webhooks. It skips malformed ones and other versions if there is a valid one.
func parseSignatures(s Scheme, header string) ([][]byte, error) {
	version, size := version, macSize
	if s == StandardEd25519 {
		version, size = versionEd, ed25519.SignatureSize
	}
	var found [][]byte
	seen, malformed := 0, false
	for word := range strings.FieldsSeq(header) {
		if seen++; seen > maxCandidates {
			return nil, refuse(ErrSignature, "malformed %s: more than %d signatures", HeaderSignature, maxCandidates)
		}
		text, ours := strings.CutPrefix(word, version)
		switch sum := decode64(text, size); {
		case !ours: // a future version, or one for another kind of key
			malformed = malformed || !strings.Contains(word, ",")
		case sum == nil:
			malformed = true
		default:
			found = append(found, sum)
		}
	}
	switch {
	case len(found) > 0:
		return found, nil
	case malformed:
		return nil, refuse(ErrSignature, "malformed %s: want %s and the base64 of %d bytes", HeaderSignature, version, size)
	case seen > 0:
		return nil, refuse(ErrNoVersion, "no %s signature in %s", strings.TrimSuffix(version, ","), HeaderSignature)
	default:
		return nil, refuse(ErrNoSignature, "no %s", HeaderSignature)
	}
}

// parseTimed parses t=<unix>,v1=<signature>,… with one t. It skips other versions, and
// malformed parts beside a valid v1. It may return no v1 at all.
func parseTimed(l *layout, header string) (timestamp string, sums [][]byte, err error) {
	if header == "" {
		return "", nil, refuse(ErrNoSignature, "no %s", l.header)
	}
	seen, timed, malformed := 0, false, false
	for part := range strings.SplitSeq(header, ",") {
		if seen++; seen > 1+maxCandidates {
			return "", nil, refuse(ErrSignature, "malformed %s: more than %d signatures", l.header, maxCandidates)
		}
		if t, ok := strings.CutPrefix(part, formTime); ok {
			if timed { // the verified t and the one that another program reads could differ
				return "", nil, refuse(ErrSignature, "malformed %s: more than one t", l.header)
			}
			timestamp, timed = t, true
			continue
		}
		text, ours := strings.CutPrefix(part, formV1)
		switch sum := l.form.decode(text); {
		case !ours:
			malformed = malformed || !strings.Contains(part, "=")
		case sum == nil:
			malformed = true
		default:
			sums = append(sums, sum)
		}
	}
	if len(sums) == 0 && malformed {
		return "", nil, refuse(ErrSignature, "malformed %s: want %s", l.header, l.form)
	}
	return timestamp, sums, nil
}

// parseOne parses the single signature of a form without a time.
func parseOne(l *layout, header string) ([]byte, error) {
	if header == "" {
		return nil, refuse(ErrNoSignature, "no %s", l.header)
	}
	text, ok := strings.CutPrefix(header, l.form.Prefix)
	if sum := l.form.decode(text); ok && sum != nil {
		return sum, nil
	}
	return nil, refuse(ErrSignature, "malformed %s: want %s", l.header, l.form)
}

// decode64 decodes base64 of exactly size bytes. It is strict, so no two texts mean the
// same bytes. It returns nil for any other text.
func decode64(text string, size int) []byte {
	// The decoder skips line breaks, but the length leaves no room for them.
	if len(text) != base64.StdEncoding.EncodedLen(size) {
		return nil
	}
	sum, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || len(sum) != size {
		return nil
	}
	return sum
}

// decodeHex is decode64 for hex, in lower case only.
func decodeHex(text string, size int) []byte {
	if len(text) != hex.EncodedLen(size) || strings.ContainsAny(text, "ABCDEF") {
		return nil
	}
	sum, err := hex.DecodeString(text)
	if err != nil {
		return nil
	}
	return sum
}

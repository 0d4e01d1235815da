package inspect

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/hookladder/hookladder/signer"
)

// A candidate is one way to decode one of the receiver's secrets.
type candidate struct {
	deviation
	mac      []byte            // the key of HMAC
	public   ed25519.PublicKey // the key of ed25519
	verifier *signer.Verifier  // of a correctly decoded secret; else nil
}

// The cures of secrets that were decoded in another way.
const (
	cureDecode = "decode the base64 behind whsec_, and use those bytes as the key"
	cureText   = "use the text of the secret as it is, not decoded"
)

// keys returns the secrets, decoded correctly and with each mistake. It reports the causes of
// malformed secrets.
func (c *callback) keys(r *Report) (all []candidate) {
	for _, given := range c.Secrets {
		text := strings.Trim(strings.TrimSpace(given), `"'`)
		verifier, err := c.scheme.NewVerifier(text)
		switch {
		case err == nil:
			verifier.Form = c.hmac
		case isEd25519(text) != (c.scheme == signer.StandardEd25519) && (isEd25519(text) || strings.HasPrefix(text, signer.SecretPrefix)):
			r.add(OtherKind, "the key given is none", c.scheme)
		case errors.Is(err, signer.ErrSecret) || errors.Is(err, signer.ErrPublicKey) || errors.Is(err, signer.ErrNoSecret):
			r.add(BadSecret, err)
		}
		if c.scheme == signer.StandardEd25519 {
			all = append(all, publicKeys(text, verifier)...)
		} else {
			all = append(all, c.macKeys(text, verifier)...)
		}
		if text != given {
			says := "was made with the secret and the characters around it: white space or quotes"
			all = append(all, candidate{deviation: deviation{OtherKey, says, "take them away"}, mac: []byte(given)})
		}
	}
	return all
}

// macKeys returns the ways to decode a shared secret, the right one first.
func (c *callback) macKeys(text string, verifier *signer.Verifier) (all []candidate) {
	bare := strings.TrimPrefix(text, signer.SecretPrefix)
	var rows []candidate
	row := func(mac []byte, says, cure string) {
		rows = append(rows, candidate{deviation{OtherKey, says, cure}, mac, nil, nil})
	}
	if c.scheme == signer.Standard {
		rows = append(rows, candidate{mac: decoded(bare), verifier: verifier})
		row([]byte(text), "was made with the secret's text, not decoded", cureDecode)
		row([]byte(bare), "was made with the text behind whsec_, not decoded", cureDecode)
		row(derived(verifier, c.Header), "was made with the secret that is derived for the tenant (SIGNING_DERIVE=tenant)",
			"give the receiver what hookladder secret --tenant prints, not SIGNING_SECRET itself")
	} else {
		rows = append(rows, candidate{mac: []byte(text), verifier: verifier})
		row([]byte(bare), "was made with the text behind whsec_", cureText)
		row(decoded(bare), "was made with the decoded secret", cureText)
	}
	row([]byte(text+"\n"), "was made with the secret and an end of line behind it", "drop the end of line that a file or echo leaves")
	if fromHex, err := hex.DecodeString(bare); err == nil {
		row(fromHex, "was made with the secret decoded as hex", "read the secret as its scheme says")
	}
	for _, r := range rows {
		if len(r.mac) > 0 && !slices.ContainsFunc(all, func(k candidate) bool { return bytes.Equal(k.mac, r.mac) }) {
			all = append(all, r)
		}
	}
	return all
}

func publicKeys(text string, verifier *signer.Verifier) (all []candidate) {
	if verifier == nil {
		if out := decoded(text); len(out) == ed25519.PublicKeySize {
			return []candidate{{deviation: deviation{OtherKey, "fits the public key", "write " + signer.PublicPrefix + " before the key"}, public: out}}
		}
		return nil
	}
	for _, k := range verifier.PublicKeys {
		all = append(all, candidate{public: decoded(strings.TrimPrefix(k.String(), signer.PublicPrefix)), verifier: verifier})
	}
	return all
}

// decoded returns the bytes of base64 in any alphabet, padded or not; nil: it is no base64.
func decoded(text string) []byte {
	text = strings.TrimRight(strings.NewReplacer("-", "+", "_", "/").Replace(text), "=")
	out, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return nil
	}
	return out
}

// derived returns the key of the tenant in the headers.
func derived(verifier *signer.Verifier, h http.Header) []byte {
	if verifier == nil {
		return nil
	}
	tenant := ""
	for name := range h {
		if strings.HasSuffix(strings.ToLower(name), "-tenant") {
			tenant = h.Get(name)
		}
	}
	return decoded(strings.TrimPrefix(verifier.Secrets[0].Derive(tenant).Reveal(), signer.SecretPrefix))
}

package inspect

import (
	"bytes"
	"crypto/ed25519"
	"crypto/hmac"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/hookladder/hookladder/signer"
)

// A candidate is one way to read one of the receiver's secrets.
type candidate struct {
	mac      []byte            // for HMAC
	public   ed25519.PublicKey // in place of it
	verifier *signer.Verifier  // of a secret that is read as it should be; else nil
	says     string            // how it was read wrong; empty: it was not
	cure     string
}

// makes reports whether the key made a signature of a body.
func (k candidate) makes(of content, with hashing, body, sum []byte) bool {
	if k.public != nil {
		signed := append([]byte(of.head), body...)
		return len(sum) == ed25519.SignatureSize && ed25519.Verify(k.public, append(signed, of.tail...), sum)
	}
	return bytes.Equal(k.sum(of, with, body), sum)
}

func (k candidate) sum(of content, with hashing, body []byte) []byte {
	mac := hmac.New(with.make, k.mac)
	mac.Write([]byte(of.head))
	mac.Write(body)
	mac.Write([]byte(of.tail))
	return mac.Sum(nil)
}

// The cures of secrets that were read wrong.
const (
	cureDecode = "decode the base64 behind whsec_, and use those bytes as the key"
	cureText   = "use the text of the secret as it is, not decoded"
)

// keys are the secrets as they should be read, and as they are by mistake. What is
// wrong with a secret itself goes into the report.
func (c *callback) keys(r *Report) (all []candidate) {
	for _, given := range c.Secrets {
		text := strings.Trim(strings.TrimSpace(given), `"'`)
		verifier, err := c.scheme.NewVerifier(text)
		switch {
		case err == nil:
		case otherKind(c.scheme, text):
			r.add(OtherKind, "give the key of the endpoint's scheme, or name the scheme", "the key given is none of %s", c.scheme)
		case errors.Is(err, signer.ErrSecret) || errors.Is(err, signer.ErrPublicKey) || errors.Is(err, signer.ErrNoSecret):
			r.add(BadSecret, "copy it whole, as hookladder endpoints secret or hookladder secret prints it", "the secret given is %s", err)
		}
		all = append(all, c.readings(text, verifier)...)
		if text != given {
			all = append(all, candidate{mac: []byte(given), says: "was made with the secret and what stands around it: white space or quotes", cure: "take them away"})
		}
	}
	return all
}

// otherKind reports whether a text is a key, but of another scheme.
func otherKind(scheme signer.Scheme, text string) bool {
	private := strings.HasPrefix(text, signer.PrivatePrefix) || strings.HasPrefix(text, signer.PublicPrefix)
	return private != (scheme == signer.StandardEd25519) && (private || strings.HasPrefix(text, signer.SecretPrefix))
}

// readings are the ways to read one secret, the right one first.
func (c *callback) readings(text string, verifier *signer.Verifier) (all []candidate) {
	add := func(mac []byte, says, cure string) {
		if len(mac) > 0 && !slices.ContainsFunc(all, func(k candidate) bool { return bytes.Equal(k.mac, mac) }) {
			all = append(all, candidate{mac: mac, says: says, cure: cure})
		}
	}
	bare := strings.TrimPrefix(text, signer.SecretPrefix)
	switch c.scheme {
	case signer.StandardEd25519:
		return publicReadings(text, verifier)
	case signer.Standard:
		add(decoded(bare), "", "")
		add([]byte(text), "was made with the secret's text, not decoded", cureDecode)
		add([]byte(bare), "was made with the text behind whsec_, not decoded", cureDecode)
		add(derived(verifier, c.Header), "was made with the secret that is derived for the tenant (SIGNING_DERIVE=tenant)",
			"give the receiver what hookladder secret --tenant prints, not SIGNING_SECRET itself")
	default:
		add([]byte(text), "", "")
		add([]byte(bare), "was made with the text behind whsec_", cureText)
		add(decoded(bare), "was made with the decoded secret", cureText)
	}
	if len(all) > 0 && all[0].says == "" {
		all[0].verifier = verifier
	}
	add([]byte(text+"\n"), "was made with the secret and an end of line behind it", "drop the end of line that a file or echo leaves")
	if out, err := hex.DecodeString(bare); err == nil {
		add(out, "was made with the secret decoded as hex", "read the secret as its scheme says")
	}
	return all
}

func publicReadings(text string, verifier *signer.Verifier) (all []candidate) {
	if verifier == nil {
		if out := decoded(text); len(out) == ed25519.PublicKeySize {
			return []candidate{{public: out, says: "fits the public key", cure: "write " + signer.PublicPrefix + " before the key"}}
		}
		return nil
	}
	for _, k := range verifier.PublicKeys {
		out := decoded(strings.TrimPrefix(k.String(), signer.PublicPrefix))
		all = append(all, candidate{public: out, verifier: verifier})
	}
	return all
}

// decoded reads base64 of any alphabet, padded or not; nil: it is none.
func decoded(text string) []byte {
	text = strings.TrimRight(strings.NewReplacer("-", "+", "_", "/").Replace(text), "=")
	out, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return nil
	}
	return out
}

// derived is the key of the tenant that the callback names.
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

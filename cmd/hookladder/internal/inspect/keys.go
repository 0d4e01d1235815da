package inspect

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net/http"
	"strings"

	"github.com/hookladder/hookladder/signer"
)

// A secretKey is one way to decode one of the receiver's secrets.
type secretKey struct {
	mac    string // the key of HMAC
	public string // the key of ed25519
}

// The cures of mistakes in keys.
const (
	cureDecode = "decode the base64 behind whsec_, and use those bytes as the key"
	cureText   = "use the text of the secret as it is, not decoded"
	cureKind   = "give the key of the endpoint's scheme, or name the scheme"
)

// keys returns the secrets, decoded correctly and with each mistake, and the verifiers of the
// correct ones. It reports the causes of malformed secrets.
func (c *callback) keys(r *Report) (all assumptions[secretKey], verifiers []*signer.Verifier) {
	for _, given := range c.Secrets {
		text := strings.Trim(strings.TrimSpace(given), `"'`)
		verifier, err := c.scheme.NewVerifier(text)
		switch {
		case err == nil:
			verifier.Form = c.hmac
			verifiers = append(verifiers, verifier)
		case isEd25519(text) != (c.scheme == signer.StandardEd25519) && (isEd25519(text) || strings.HasPrefix(text, signer.SecretPrefix)):
			r.add(OtherKind, cureKind, "the key given is none of %s", c.scheme)
		case errors.Is(err, signer.ErrSecret) || errors.Is(err, signer.ErrPublicKey) || errors.Is(err, signer.ErrNoSecret):
			r.add(BadSecret, "copy it whole, as hookladder endpoints secret or hookladder secret prints it", "the secret given is %s", err)
		}
		if c.scheme == signer.StandardEd25519 {
			all = append(all, publicKeys(text, verifier)...)
		} else {
			all = append(all, c.macKeys(text, verifier)...)
		}
		if text != given {
			all.add(OtherKey, secretKey{mac: given}, "take them away", "was made with the secret and the characters around it: white space or quotes")
		}
	}
	return all, verifiers
}

// macKeys returns the ways to decode a shared secret, the right one first.
func (c *callback) macKeys(text string, verifier *signer.Verifier) (all assumptions[secretKey]) {
	bare := strings.TrimPrefix(text, signer.SecretPrefix)
	add := func(mac, cure, says string) {
		if mac != "" {
			all.add(OtherKey, secretKey{mac: mac}, cure, says)
		}
	}
	right := text
	if c.scheme == signer.Standard {
		right = decoded(bare)
	}
	if right != "" {
		all = assumptions[secretKey]{{value: secretKey{mac: right}}}
	}
	if c.scheme == signer.Standard {
		add(text, cureDecode, "was made with the secret's text, not decoded")
		add(bare, cureDecode, "was made with the text behind whsec_, not decoded")
		add(derived(verifier, c.Header), "give the receiver what hookladder secret --tenant prints, not SIGNING_SECRET itself",
			"was made with the secret that is derived for the tenant (SIGNING_DERIVE=tenant)")
	} else {
		add(bare, cureText, "was made with the text behind whsec_")
		add(decoded(bare), cureText, "was made with the decoded secret")
	}
	add(text+"\n", "drop the end of line that a file or echo leaves", "was made with the secret and an end of line behind it")
	if fromHex, err := hex.DecodeString(bare); err == nil {
		add(string(fromHex), "read the secret as its scheme says", "was made with the secret decoded as hex")
	}
	return all
}

func publicKeys(text string, verifier *signer.Verifier) (all assumptions[secretKey]) {
	if verifier == nil {
		if out := decoded(text); len(out) == ed25519.PublicKeySize {
			all.add(OtherKey, secretKey{public: out}, "write "+signer.PublicPrefix+" before the key", "fits the public key")
		}
		return all
	}
	for _, k := range verifier.PublicKeys {
		all = append(all, assumption[secretKey]{value: secretKey{public: decoded(strings.TrimPrefix(k.String(), signer.PublicPrefix))}})
	}
	return all
}

// decoded returns the bytes of base64 in any alphabet, padded or not; empty: it is no base64.
func decoded(text string) string {
	text = strings.TrimRight(strings.NewReplacer("-", "+", "_", "/").Replace(text), "=")
	out, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return ""
	}
	return string(out)
}

// derived returns the key of the tenant in the headers.
func derived(verifier *signer.Verifier, h http.Header) string {
	if verifier == nil {
		return ""
	}
	tenant := ""
	for name := range h {
		if strings.HasSuffix(strings.ToLower(name), "-tenant") {
			tenant = h.Get(name)
		}
	}
	return decoded(strings.TrimPrefix(verifier.Secrets[0].Derive(tenant).Reveal(), signer.SecretPrefix))
}

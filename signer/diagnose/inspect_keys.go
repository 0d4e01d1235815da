package diagnose

import (
	"encoding/base64"
	"encoding/hex"
	"strings"

	"github.com/hookladder/hookladder/signer"
)

const cureKind = "give the key of the endpoint's scheme, or name the scheme"

// keys returns the secrets, decoded correctly and with each mistake, or the public keys of
// ed25519. It also returns the verifiers of the correct ones, and reports the malformed ones.
func (c *callback) keys(r *Inspection) (all assumptions, verifiers []*signer.Verifier) {
	for _, text := range c.Secrets {
		ed25519 := c.scheme == signer.StandardEd25519
		v, err := c.scheme.NewVerifier(text)
		switch {
		case err == nil:
			verifiers = append(verifiers, v)
		case !ed25519 && isEd25519(text), ed25519 && strings.HasPrefix(text, signer.SecretPrefix):
			r.add(OtherKind, cureKind, "the key given is none of %s", c.scheme)
		default:
			r.add(BadSecret, "copy it whole, as hookladder endpoints secret or hookladder secret prints it", "%s", err)
		}
		switch {
		case !ed25519:
			c.addSecret(&all, text)
		case err == nil:
			all.right(decoded(strings.TrimPrefix(v.PublicKeys[0].String(), signer.PublicPrefix)))
		}
	}
	return all, verifiers
}

// addSecret adds the ways to decode a shared secret, the right one first.
func (c *callback) addSecret(all *assumptions, text string) {
	bare := strings.TrimPrefix(text, signer.SecretPrefix)
	right, cure := text, "use the text of the secret as it is, not decoded"
	if c.scheme == signer.Standard {
		right, cure = decoded(bare), "decode the base64 behind whsec_, and use those bytes as the key"
	}
	if right != "" {
		all.right(right)
	}
	for _, row := range []struct{ key, says, cure string }{
		{text, "the secret's text, not decoded", cure},
		{bare, "the text behind whsec_, not decoded", cure},
		{decoded(bare), "the decoded secret", cure},
		{valid(hex.DecodeString(bare)), "the secret decoded as hex", cure},
		{text + "\n", "the secret and an end of line behind it", "drop the end of line that a file or echo leaves"},
		{strings.Trim(text, `"'`), "the secret without the quotes around it", "take the quotes away"},
		{c.derived(text), "the secret that is derived for the tenant (SIGNING_DERIVE=tenant)", "give the receiver what hookladder secret --tenant prints, not SIGNING_SECRET itself"},
	} {
		if row.key != "" {
			all.add(OtherKey, row.key, "was made with "+row.says, row.cure)
		}
	}
}

// derived returns the key of the tenant in the headers, whose prefix is a setting.
func (c *callback) derived(text string) string {
	secret, err := signer.ParseSecret(text)
	if err != nil {
		return ""
	}
	tenant := ""
	for name := range c.Header {
		if strings.HasSuffix(strings.ToLower(name), "-tenant") {
			tenant = c.Header.Get(name)
		}
	}
	return decoded(strings.TrimPrefix(secret.Derive(tenant).Reveal(), signer.SecretPrefix))
}

// isEd25519 reports whether a text is a private or public key of ed25519.
func isEd25519(text string) bool {
	return strings.HasPrefix(text, signer.PublicPrefix) || strings.HasPrefix(text, signer.PrivatePrefix)
}

// decoded returns the bytes of base64 in any alphabet, padded or not; empty: it is no base64.
func decoded(text string) string {
	text = strings.TrimRight(strings.NewReplacer("-", "+", "_", "/").Replace(text), "=")
	return valid(base64.RawStdEncoding.DecodeString(text))
}

// valid returns a value as text, or an empty text instead of an error.
func valid[T string | []byte](value T, err error) string {
	if err != nil {
		return ""
	}
	return string(value)
}

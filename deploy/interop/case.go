// Package interop has callbacks, genuine and otherwise, for libraries that are
// not ours to judge: its tests ask those there are for Go, and verify.mjs asks the
// one for Node.
package interop

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/hookladder/hookladder/signer"
)

// Callback is what reached a receiver, and the secret that it holds, as
// verify.mjs reads it.
type Callback struct {
	Secret  string            `json:"secret"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
}

// Case is a callback of Standard Webhooks that every receiver must judge alike.
type Case struct {
	Name     string   `json:"name"`
	Genuine  bool     `json:"genuine"`
	Callback Callback `json:"callback"`
}

// farOff is further from now than any receiver tolerates: they allow five minutes.
const farOff = 10 * time.Minute

// id of every callback, as Hookladder makes them.
const id = "msg_01JXYZABCDEFGHJKMNPQRSTVWX"

// Cases are callbacks as they would be sent now.
func Cases(now time.Time) ([]Case, error) {
	fresh, old, tenants := signer.NewSecret(), signer.NewSecret(), signer.NewSecret().Derive("acme")
	many := make([]signer.Secret, signer.MaxSecrets)
	for i := range many {
		many[i] = signer.NewSecret()
	}
	private := signer.StandardEd25519.NewSecret()
	const body = `{"event":"payment.captured","amount":4200,"name":"支付 é 🙂"}`

	m := &maker{}
	sent := m.sign(now, body, fresh)
	if m.err != nil {
		return nil, m.err
	}
	m.genuine("one secret", sent, fresh)
	m.genuine("a tenant's secret", m.sign(now, body, tenants), tenants)
	m.genuine("an empty body", m.sign(now, "", fresh), fresh)
	m.genuine("a body that is not JSON", m.sign(now, "a=1&b=%20\r\n", fresh), fresh)
	m.genuine("a large body", m.sign(now, `"`+strings.Repeat("x", 256<<10)+`"`, fresh), fresh)
	m.genuine("four minutes old", m.sign(now.Add(-4*time.Minute), body, fresh), fresh)
	m.genuine("during a rotation, seen with the new secret", m.sign(now, body, fresh, old), fresh)
	m.genuine("during a rotation, seen with the old secret", m.sign(now, body, fresh, old), old)
	m.genuine("as many secrets as may be, seen with the last", m.sign(now, body, many...), many[len(many)-1])
	ed := m.signBy(signer.StandardEd25519, now, body, private)
	both := ed.Headers[signer.HeaderSignature] + " " + sent.Headers[signer.HeaderSignature]
	m.genuine("beside a signature of Ed25519", ed.with(signer.HeaderSignature, both), fresh)

	m.forged("after a rotation, seen with the old secret", sent, old)
	m.forged("another tenant's secret", m.sign(now, body, tenants), signer.NewSecret().Derive("acme"))
	m.forged("a signature of Ed25519 only", ed, fresh)
	m.forged("stale", m.sign(now.Add(-farOff), body, fresh), fresh)
	m.forged("from the future", m.sign(now.Add(farOff), body, fresh), fresh)

	const named, at, signature = signer.HeaderID, signer.HeaderTimestamp, signer.HeaderSignature
	m.forged("a stale one with a fresh timestamp", m.sign(now.Add(-farOff), body, fresh).with(at, unix(now)), fresh)
	m.forged("another timestamp", sent.with(at, unix(now.Add(time.Second))), fresh)
	m.forged("another id", sent.with(named, id+"0"), fresh)
	m.forged("no id", sent.with(named, ""), fresh)
	m.forged("no timestamp", sent.with(at, ""), fresh)
	m.forged("no signature", sent.with(signature, ""), fresh)
	m.forged("a version that nobody knows", sent.with(signature, "v0"+sent.Headers[signature][2:]), fresh)
	m.forged("a signature cut short", sent.with(signature, sent.Headers[signature][:40]), fresh)
	for _, other := range []string{body + " ", body[1:], "", strings.Replace(body, "4200", "4201", 1)} {
		m.forged("another body", Callback{Headers: sent.Headers, Body: other}, fresh)
	}
	return m.cases, m.err
}

// maker collects cases, and the first error.
type maker struct {
	cases []Case
	err   error
}

func (m *maker) genuine(name string, c Callback, secret signer.Secret) {
	c.Secret = secret.Reveal()
	m.cases = append(m.cases, Case{name, true, c})
}

func (m *maker) forged(name string, c Callback, secret signer.Secret) {
	c.Secret = secret.Reveal()
	m.cases = append(m.cases, Case{name, false, c})
}

func (m *maker) sign(at time.Time, body string, secrets ...signer.Secret) Callback {
	return m.signBy(signer.Standard, at, body, secrets...)
}

func (m *maker) signBy(scheme signer.Scheme, at time.Time, body string, secrets ...signer.Secret) Callback {
	s, err := scheme.NewSigner(secrets...)
	if err != nil {
		m.err = errors.Join(m.err, fmt.Errorf("sign by %s: %w", scheme, err))
		return Callback{Headers: map[string]string{}}
	}
	return Callback{Body: body, Headers: map[string]string{
		signer.HeaderID:        id,
		signer.HeaderTimestamp: unix(at),
		signer.HeaderSignature: s.Sign(id, at, []byte(body)),
	}}
}

// with is the callback with another value of one header, or without it.
func (c Callback) with(header, value string) Callback {
	c.Headers = maps.Clone(c.Headers)
	c.Headers[header] = value
	if value == "" {
		delete(c.Headers, header)
	}
	return c
}

func unix(at time.Time) string { return strconv.FormatInt(at.Unix(), 10) }

package diagnose

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/hookladder/hookladder/signer"
)

// A variant says how a webhook differs from a valid one. The zero value is valid.
type variant struct {
	id       string        // empty: a new id
	topic    string        // empty: the receiver's
	attempt  int           // 0: the first
	age      time.Duration // since it was signed
	forged   bool          // signed with another secret
	altered  bool          // the body was changed
	renamed  bool          // the id was changed
	unsigned bool          // without the header
	blank    bool          // with an empty header
	cut      bool          // with half of the signature
	rotated  bool          // another secret's signature is first
	respaced bool          // the same JSON with other white space
	large    bool
	slow     bool
}

// caller sends webhooks to a receiver.
type caller struct {
	Target
	signer *signer.Signer
	forger *signer.Signer // with another secret
	pair   *signer.Signer // with both, the other first; nil: the scheme has no room for two
	http   *http.Client
}

func newCaller(r Target) (*caller, error) {
	other := r.Scheme.NewSecret()
	c := &caller{Target: r}
	if c.Slowly <= 0 {
		c.Slowly = slowly
	}
	var err error
	if c.signer, err = r.Scheme.NewSignerIn(r.Form, r.Secret); err != nil {
		return nil, err
	}
	if c.forger, err = r.Scheme.NewSignerIn(r.Form, other); err != nil {
		return nil, err
	}
	if r.Scheme.RotatesIn(r.Form) {
		if c.pair, err = r.Scheme.NewSignerIn(r.Form, other, r.Secret); err != nil {
			return nil, err
		}
	}
	c.http = &http.Client{
		Timeout:       r.Timeout,
		Transport:     &http.Transport{MaxIdleConnsPerHost: atOnce, DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // as the sender
	}
	return c, nil
}

func (c *caller) close() { c.http.CloseIdleConnections() }

// newID is the id of a new message.
func (c *caller) newID() string { return "check_" + strings.ToLower(rand.Text()) }

// mostAnswer is the most bytes of a response that are read, to use the connection again.
const mostAnswer = 64 << 10

// call sends one webhook and waits for its response.
func (c *caller) call(ctx context.Context, of variant) (answer, error) {
	signed, sent := c.bodies(of)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL, bytes.NewReader(sent))
	if err != nil {
		return answer{}, err
	}
	if of.slow {
		r.Body, r.GetBody = io.NopCloser(&pieces{ctx: ctx, left: sent, of: len(sent), wait: c.Slowly / piecesOf}), nil
		r.ContentLength = int64(len(sent))
	}
	c.sign(r.Header, of, signed)
	start := time.Now()
	resp, err := c.http.Do(r)
	if err != nil {
		return answer{}, withoutURL(err)
	}
	got := answer{status: resp.StatusCode, took: time.Since(start)}
	_, _ = io.CopyN(io.Discard, resp.Body, mostAnswer) // only the status is used
	return got, resp.Body.Close()
}

// withoutURL returns the cause of a call's error. The query of its URL may have a secret.
func withoutURL(err error) error {
	var at *url.Error
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}

// bodies are the body that is signed, and the body that is sent.
func (c *caller) bodies(of variant) (signed, sent []byte) {
	signed = c.Body
	if of.respaced {
		signed = respaced(signed)
	}
	if of.large {
		signed = enlarged(signed)
	}
	sent = signed
	if of.altered {
		sent = altered(signed)
	}
	return signed, sent
}

// altered is another body that is still valid JSON, so a parser does not refuse it.
func altered(body []byte) []byte {
	body = bytes.Clone(body)
	i := bytes.LastIndexAny(body, "123456789")
	if i < 0 {
		return append(body, ' ')
	}
	body[i] = '1' + (body[i]-'0')%9
	return body
}

// sign sets the headers as the sender does.
func (c *caller) sign(h http.Header, of variant, body []byte) {
	id, at := of.id, time.Now().Add(-of.age)
	if id == "" {
		id = c.newID()
	}
	by := c.signer
	switch {
	case of.forged:
		by = c.forger
	case of.rotated:
		by = c.pair
	}
	name, signature := by.Header(), by.Sign(id, at, body)
	if of.renamed {
		id = c.newID()
	}
	topic := of.topic
	if topic == "" {
		topic = c.Topic
	}
	for key, value := range map[string]string{
		"content-type": c.Type, "user-agent": c.Agent, signer.HeaderID: id, signer.HeaderTimestamp: strconv.FormatInt(at.Unix(), 10),
		"hookladder-topic": topic, "hookladder-attempt": strconv.Itoa(max(of.attempt, 1)),
	} {
		h.Set(key, value)
	}
	switch {
	case of.unsigned:
	case of.blank:
		h.Set(name, "")
	case of.cut:
		h.Set(name, signature[:len(signature)/2])
	default:
		h.Set(name, signature)
	}
}

// piecesOf is the number of pieces of a slow body.
const piecesOf = 10

// pieces returns a body in pieces, with a wait before each of them.
type pieces struct {
	ctx  context.Context
	left []byte
	of   int // bytes in all
	wait time.Duration
}

func (p *pieces) Read(to []byte) (int, error) {
	if len(p.left) == 0 {
		return 0, io.EOF
	}
	select {
	case <-p.ctx.Done():
		return 0, fmt.Errorf("send a body in pieces: %w", p.ctx.Err())
	case <-time.After(p.wait):
	}
	n := copy(to, p.left[:min(len(p.left), max(1, (p.of+piecesOf-1)/piecesOf))])
	p.left = p.left[n:]
	return n, nil
}

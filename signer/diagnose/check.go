package diagnose

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hookladder/hookladder/ladder"
	"github.com/hookladder/hookladder/signer"
)

// Target is the receiver, and the parameters of the webhooks.
type Target struct {
	URL     string
	Scheme  signer.Scheme
	Secret  signer.Secret
	Form    signer.Form // of signer.HMAC; for signer.HMACHex only its header
	Topic   string
	Body    []byte // a sample that the receiver accepts
	Type    string // its content type
	Agent   string // the user agent
	Timeout time.Duration
	Slowly  time.Duration // duration of a body that is sent in pieces; 0: 3 s
}

// CheckResult is the result of one trial.
type CheckResult struct {
	Trial  string `json:"trial"`
	Points int    `json:"points"`
	Of     int    `json:"of"`
	Says   string `json:"says"`           // the webhook and the response
	Cure   string `json:"cure,omitempty"` // empty: all points
}

// CheckReport is the grade: all points of the trials that fit the scheme.
type CheckReport struct {
	Points int           `json:"points"`
	Of     int           `json:"of"`
	Trials []CheckResult `json:"trials"`
}

// ErrNotTaken means that the receiver refused a valid webhook. So its other responses mean
// nothing.
var ErrNotTaken = errors.New("a valid webhook was not accepted")

// ErrNoAnswer means that the receiver could not be reached.
var ErrNoAnswer = errors.New("no response")

// Check runs all trials that fit the scheme, one after the other, and reports each result. It
// returns ErrNotTaken or ErrNoAnswer if the first trial fails.
func Check(ctx context.Context, r Target, each func(CheckResult)) (CheckReport, error) {
	c, err := newCaller(r)
	if err != nil {
		return CheckReport{}, err
	}
	defer c.close()
	report := CheckReport{Trials: []CheckResult{}}
	for i, t := range trials {
		if !t.fits(&r) {
			continue
		}
		got, err := t.make(ctx, c)
		if ctx.Err() != nil {
			return report, ctx.Err()
		}
		if i == 0 && err != nil {
			return report, fmt.Errorf("%w: %w", ErrNoAnswer, err)
		}
		result := t.judge(got, err)
		report.Points, report.Of = report.Points+result.Points, report.Of+result.Of
		report.Trials = append(report.Trials, result)
		each(result)
		if i == 0 && result.Points < result.Of {
			return report, ErrNotTaken
		}
	}
	return report, nil
}

// answer is the receiver's response to a webhook.
type answer struct {
	status int
	took   time.Duration
}

func (a answer) taken() bool { return a.status >= 200 && a.status < 300 }

// judge gives points for the responses of a trial. One wrong response loses all of them.
func (t trial) judge(got []answer, err error) CheckResult {
	r := CheckResult{Trial: t.name, Of: t.points, Points: t.points}
	if err != nil {
		r.Points, r.Says, r.Cure = 0, t.says+": "+err.Error(), t.cure
		return r
	}
	for _, a := range got {
		r.Says = fmt.Sprintf("%s: response %d", t.says, a.status)
		switch {
		case t.take && a.taken():
			if t.within > 0 && a.took > t.within {
				r.Says = fmt.Sprintf("%s: response after %s", t.says, ladder.FormatDuration(a.took.Round(time.Millisecond)))
				r.Points, r.Cure = 0, t.cure
				return r
			}
		case t.take, a.taken():
			r.Points, r.Cure = 0, t.cure
			return r
		case a.status >= 500:
			r.Points, r.Cure = t.points/2, "respond with 401: a server error means that it failed, not that it refused"
			return r
		}
	}
	return r
}

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

// A trial is one thing that a receiver should do.
type trial struct {
	name   string
	says   string // the webhook
	take   bool   // the receiver should accept it
	points int
	within time.Duration      // the time limit for the response; 0: none
	only   func(*Target) bool // nil: every scheme
	make   func(context.Context, *caller) ([]answer, error)
	cure   string
}

// fits reports whether a trial applies to the receiver's scheme.
func (t trial) fits(r *Target) bool { return t.only == nil || t.only(r) }

// withTime reports whether the time is signed. The same schemes sign with several secrets.
func withTime(r *Target) bool { return r.Scheme.RotatesIn(r.Form) }

func withID(r *Target) bool {
	return r.Scheme == signer.Standard || r.Scheme == signer.StandardEd25519
}

// The cures that several trials share.
const (
	cureVerify   = "verify the signature first, and respond with 401 if it does not match"
	trialCureRaw = "verify the bytes of the body as they came, before they are parsed"
)

// largest is the largest body by default, in bytes.
const largest = 256 << 10

// atOnce is the number of webhooks at the same time.
const atOnce = 10

// slowly is the duration of a body that is sent in pieces.
const slowly = 3 * time.Second

// soon is the time limit for a quick response. The sender waits 15 seconds by default.
const soon = 5 * time.Second

// trials in their order. If the first one fails, the others mean nothing.
var trials = []trial{
	{
		name: "genuine", says: "a valid webhook", take: true, points: 15,
		make: one(variant{}), cure: "respond with 200 or 204 if this secret made the signature; hookladder verify explains a mismatch",
	},
	{
		name: "quick", says: "a valid webhook", take: true, points: 5, within: soon,
		make: one(variant{}), cure: "store it, respond, and process it later: the sender waits 15s, and sends fewer webhooks at a time to a slow receiver",
	},
	{
		name: "forged", says: "a webhook that is signed with another secret", points: 12,
		make: one(variant{forged: true}), cure: cureVerify,
	},
	{
		name: "altered", says: "a webhook whose body was changed after signing", points: 10,
		make: one(variant{altered: true}), cure: cureVerify + "; the body is signed too",
	},
	{
		name: "unsigned", says: "a webhook without a signature, and one with an empty signature", points: 10,
		make: both(variant{unsigned: true}, variant{blank: true}), cure: "refuse a webhook without a signature: it is not optional",
	},
	{
		name: "cut", says: "a webhook with the first half of its signature", points: 5,
		make: one(variant{cut: true}), cure: "compare the whole signature, in constant time",
	},
	{
		name: "stale", says: "a webhook that was signed an hour ago", points: 8, only: withTime,
		make: one(variant{age: time.Hour}), cure: "refuse a timestamp that is older than five minutes: it may be a recording",
	},
	{
		name: "early", says: "a webhook with a timestamp of one hour later", points: 2, only: withTime,
		make: one(variant{age: -time.Hour}), cure: "refuse a timestamp that is more than five minutes ahead of your clock",
	},
	{
		name: "renamed", says: "a webhook whose id was changed after signing", points: 5, only: withID,
		make: one(variant{renamed: true}), cure: "the id is signed too: else a recording passes as a new webhook",
	},
	{
		name: "repeated", says: "the same webhook again", take: true, points: 8,
		make: repeated, cure: "respond with 200 to a repeat and do nothing: store each webhook-id that was processed",
	},
	{
		name: "unordered", says: "two webhooks, the later one first", take: true, points: 4,
		make: unordered, cure: "accept them in any order: a failed attempt is repeated after others",
	},
	{
		name: "rotated", says: "a webhook with a signature by another secret before the right one", take: true, points: 5, only: withTime,
		make: one(variant{rotated: true}), cure: "try each signature of the header: during a rotation there are two",
	},
	{
		name: "rewritten", says: "a valid webhook whose JSON has other white space", take: true, points: 5,
		make: one(variant{respaced: true}), cure: trialCureRaw,
	},
	{
		name: "other topic", says: "a webhook with an unknown topic", take: true, points: 2,
		make: one(variant{topic: "hookladder.check.unknown"}), cure: "respond with 200 to unknown topics: after an error they are retried",
	},
	{
		name: "large", says: "a webhook of 256 KiB", take: true, points: 2,
		make: one(variant{large: true}), cure: "allow bodies of 256 KiB, which is the largest size by default",
	},
	{
		name: "slow", says: "a webhook whose body needs 3s", take: true, points: 1,
		make: one(variant{slow: true}), cure: "wait for a body for at least ten seconds",
	},
	{
		name: "at once", says: "ten webhooks at once", take: true, points: 1,
		make: together, cure: "process webhooks in parallel, or set max_in_flight of the endpoint",
	},
}

// one sends a single webhook.
func one(of variant) func(context.Context, *caller) ([]answer, error) { return both(of) }

// both sends two webhooks one after the other, each with its own id.
func both(all ...variant) func(context.Context, *caller) ([]answer, error) {
	return func(ctx context.Context, c *caller) (got []answer, err error) {
		for _, of := range all {
			a, err := c.call(ctx, of)
			if err != nil {
				return got, err
			}
			got = append(got, a)
		}
		return got, nil
	}
}

// repeated sends a webhook three times, as after a lost response.
func repeated(ctx context.Context, c *caller) ([]answer, error) {
	id := c.newID()
	return both(variant{id: id}, variant{id: id, attempt: 2}, variant{id: id, attempt: 3})(ctx, c)
}

// unordered sends two webhooks, the later one first.
func unordered(ctx context.Context, c *caller) ([]answer, error) {
	return both(variant{}, variant{age: 2 * time.Second, attempt: 2})(ctx, c)
}

func together(ctx context.Context, c *caller) ([]answer, error) {
	type called struct {
		answer
		err error
	}
	results := make(chan called, atOnce)
	for range atOnce {
		go func() {
			a, err := c.call(ctx, variant{})
			results <- called{a, err}
		}()
	}
	var got []answer
	var failed error
	for range atOnce {
		r := <-results
		if r.err != nil {
			failed = r.err
		}
		got = append(got, r.answer)
	}
	return got, failed
}

// respaced adds unusual white space to JSON. Other bodies do not change.
func respaced(body []byte) []byte {
	var out bytes.Buffer
	if json.Indent(&out, body, " ", "   ") != nil {
		return body
	}
	return out.Bytes()
}

// enlarged adds white space to JSON up to the largest size. Other bodies are repeated.
func enlarged(body []byte) []byte {
	if len(body) >= largest {
		return body
	}
	fill := " "
	if !json.Valid(body) && len(body) > 0 {
		fill = string(body)
	}
	more := (largest - len(body)) / len(fill)
	return append(slices.Clip(body), strings.Repeat(fill, more)...)
}

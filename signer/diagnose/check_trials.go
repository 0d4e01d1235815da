package diagnose

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/hookladder/hookladder/signer"
)

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

package check

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
	says   string // what is sent
	take   bool   // the receiver should take it
	points int
	within time.Duration // an answer later than that loses the points; 0: any time
	only   []signer.Scheme
	make   func(context.Context, *caller) ([]answer, error)
	cure   string
}

// fits reports whether a trial means anything for a scheme.
func (t trial) fits(s signer.Scheme) bool { return t.only == nil || slices.Contains(t.only, s) }

var (
	withTime = []signer.Scheme{signer.Standard, signer.StandardEd25519, signer.Stripe}
	withID   = []signer.Scheme{signer.Standard, signer.StandardEd25519}
)

// The cures that several trials share.
const (
	cureVerify = "verify the signature before anything else, and answer 401 where it does not match"
	cureRaw    = "verify the bytes of the body as they came, before they are parsed"
)

// largest is the size of the largest body that is sent by default, in bytes.
const largest = 256 << 10

// atOnce is how many callbacks come together in the trial of that.
const atOnce = 10

// slowly is how long a body takes that comes in pieces.
const slowly = 3 * time.Second

// soon is when an answer has to be there. The sender waits 15 seconds by default.
const soon = 5 * time.Second

// trials in their order. The first must be passed for the others to say anything.
var trials = []trial{
	{
		name: "genuine", says: "a sound callback", take: true, points: 15,
		make: one(variant{}), cure: "answer 200 or 204 to what is signed with this secret; hookladder verify says why it may not match",
	},
	{
		name: "quick", says: "a sound callback", take: true, points: 5, within: soon,
		make: one(variant{}), cure: "store it and answer, then work: the sender waits 15s, and a slow receiver gets fewer at a time",
	},
	{
		name: "forged", says: "a callback that is signed with another secret", points: 12,
		make: one(variant{forged: true}), cure: cureVerify,
	},
	{
		name: "altered", says: "a callback whose body was changed behind the signature", points: 10,
		make: one(variant{altered: true}), cure: cureVerify + "; the body is a part of what is signed",
	},
	{
		name: "unsigned", says: "a callback without a signature, and one with an empty one", points: 10,
		make: both(variant{unsigned: true}, variant{blank: true}), cure: "refuse what has no signature: it is not optional",
	},
	{
		name: "cut", says: "a callback with the first half of its signature", points: 5,
		make: one(variant{cut: true}), cure: "compare the whole signature, in constant time",
	},
	{
		name: "stale", says: "a callback that was signed an hour ago", points: 8, only: withTime,
		make: one(variant{age: time.Hour}), cure: "refuse a timestamp that is more than five minutes from your clock: it may be a recording",
	},
	{
		name: "early", says: "a callback that was signed in an hour", points: 2, only: withTime,
		make: one(variant{age: -time.Hour}), cure: "refuse a timestamp that is more than five minutes ahead of your clock",
	},
	{
		name: "renamed", says: "a callback whose id was changed behind the signature", points: 5, only: withID,
		make: one(variant{renamed: true}), cure: "the id is a part of what is signed: else a recording passes as new",
	},
	{
		name: "repeated", says: "the same callback again", take: true, points: 8,
		make: repeated, cure: "answer 200 to a repeat and do nothing: keep the webhook-id of what was processed",
	},
	{
		name: "unordered", says: "two callbacks, the later one first", take: true, points: 4,
		make: unordered, cure: "take them in any order: an attempt that failed comes again behind others",
	},
	{
		name: "rotated", says: "a callback with a signature by another secret before the right one", take: true, points: 5, only: withTime,
		make: one(variant{rotated: true}), cure: "try each signature of the header: while a secret is rotated there are two",
	},
	{
		name: "rewritten", says: "a sound callback whose JSON has other white space", take: true, points: 5,
		make: one(variant{respaced: true}), cure: cureRaw,
	},
	{
		name: "other topic", says: "a callback of a topic that is not known", take: true, points: 2,
		make: one(variant{topic: "hookladder.check.unknown"}), cure: "answer 200 to topics that you don't know: an error brings them again",
	},
	{
		name: "large", says: "a callback of 256 KiB", take: true, points: 2,
		make: one(variant{large: true}), cure: "allow bodies of 256 KiB, the largest that are sent by default",
	},
	{
		name: "slow", says: "a callback whose body comes within 3s", take: true, points: 1,
		make: one(variant{slow: true}), cure: "wait for a body at least ten seconds",
	},
	{
		name: "at once", says: "ten callbacks at once", take: true, points: 1,
		make: together, cure: "take callbacks side by side, or set max_in_flight of the endpoint",
	},
}

// one sends a single callback.
func one(of variant) func(context.Context, *caller) ([]answer, error) { return both(of) }

// both sends callbacks one after the other, each with an id of its own.
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

// repeated sends a callback three times, as after an answer that was lost.
func repeated(ctx context.Context, c *caller) ([]answer, error) {
	id := c.newID()
	return both(variant{id: id}, variant{id: id, attempt: 2}, variant{id: id, attempt: 3})(ctx, c)
}

// unordered sends what was signed two seconds later first.
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

// respaced is the same JSON with white space that no writer puts there; what is no
// JSON stays.
func respaced(body []byte) []byte {
	var out bytes.Buffer
	if json.Indent(&out, body, " ", "   ") != nil {
		return body
	}
	return out.Bytes()
}

// enlarged is the same JSON with white space up to the largest size; what is no JSON is
// repeated.
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

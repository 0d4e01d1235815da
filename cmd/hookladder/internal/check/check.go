// Package check tries a receiver: it sends callbacks that should be taken and others
// that should not, and judges the answers.
package check

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hookladder/hookladder/ladder"
	"github.com/hookladder/hookladder/signer"
)

// Receiver is what is tried, and how it is called.
type Receiver struct {
	URL     string
	Scheme  signer.Scheme
	Secret  signer.Secret
	Header  string // of signer.HMACHex; empty: signer.HeaderHMACHex
	Topic   string
	Body    []byte // a sample that the receiver takes
	Type    string // its content type
	Agent   string // the user agent
	Timeout time.Duration
	Slowly  time.Duration // how long a body takes that comes in pieces; 0: 3 s
}

// Result is what came of one trial.
type Result struct {
	Trial  string `json:"trial"`
	Points int    `json:"points"`
	Of     int    `json:"of"`
	Says   string `json:"says"`           // what was sent, and what was answered
	Cure   string `json:"cure,omitempty"` // empty: all points
}

// Report is the grade: all points of the trials that fit the scheme.
type Report struct {
	Points int      `json:"points"`
	Of     int      `json:"of"`
	Trials []Result `json:"trials"`
}

// ErrNotTaken says that the receiver did not take a callback that is sound, so that
// nothing can be learnt from what it refuses.
var ErrNotTaken = errors.New("a callback that is sound was not taken")

// ErrNoAnswer says that the receiver could not be reached.
var ErrNoAnswer = errors.New("no answer")

// Run makes all trials that fit the scheme, one after the other, and tells of each as
// it ends. It stops with ErrNotTaken or ErrNoAnswer where the first one fails.
func Run(ctx context.Context, r Receiver, told func(Result)) (Report, error) {
	c, err := newCaller(r)
	if err != nil {
		return Report{}, err
	}
	defer c.close()
	report := Report{Trials: []Result{}}
	for i, t := range trials {
		if !t.fits(r.Scheme) {
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
		told(result)
		if i == 0 && result.Points < result.Of {
			return report, ErrNotTaken
		}
	}
	return report, nil
}

// answer is what the receiver said to a callback.
type answer struct {
	status int
	took   time.Duration
}

func (a answer) taken() bool { return a.status >= 200 && a.status < 300 }

// judge gives points for answers to what should be taken, or should not. One answer of
// the wrong kind loses all.
func (t trial) judge(got []answer, err error) Result {
	r := Result{Trial: t.name, Of: t.points, Points: t.points}
	if err != nil {
		r.Points, r.Says, r.Cure = 0, t.says+": "+err.Error(), t.cure
		return r
	}
	for _, a := range got {
		r.Says = fmt.Sprintf("%s: answered %d", t.says, a.status)
		switch {
		case t.take && a.taken():
			if t.within > 0 && a.took > t.within {
				r.Says = fmt.Sprintf("%s: answered after %s", t.says, ladder.FormatDuration(a.took.Round(time.Millisecond)))
				r.Points, r.Cure = 0, t.cure
				return r
			}
		case t.take, a.taken():
			r.Points, r.Cure = 0, t.cure
			return r
		case a.status >= 500:
			r.Points, r.Cure = t.points/2, "answer 401: an error of the server's own says that it failed, not that it refused"
			return r
		}
	}
	return r
}

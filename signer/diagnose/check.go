package diagnose

import (
	"context"
	"errors"
	"fmt"
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

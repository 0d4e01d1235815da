package inspect

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/hookladder/hookladder/ladder"
	"github.com/hookladder/hookladder/signer"
)

// received reports the causes that apply to valid signatures too.
func (c *callback) received(r *Report) {
	for _, name := range []string{c.single, signer.HeaderID, signer.HeaderTimestamp} {
		if len(c.Header.Values(name)) > 1 {
			r.add(Repeated, strings.ToLower(name))
		}
	}
	var length int
	if _, err := fmt.Sscan(c.Header.Get("content-length"), &length); err == nil && length >= 0 && length != len(c.Body) {
		r.add(BodyLength, length, len(c.Body))
	}
}

// headers reports the causes in the headers of a callback that does not match.
func (c *callback) headers(r *Report) {
	switch {
	case c.signature == "" && c.other.name != "":
		r.add(OtherScheme, c.name, c.other.name, c.other.says)
	case c.signature == "":
		r.add(NoSignature, c.name)
	}
	v := signer.Verifier{Secrets: []signer.Secret{signer.Standard.NewSecret()}, Now: c.signedAt}
	switch err := v.Verify(c.id, c.timestamp, c.signature, nil); {
	case !c.signsID:
	case errors.Is(err, signer.ErrNoID):
		r.add(NoID, signer.HeaderID)
	case errors.Is(err, signer.ErrID):
		r.add(BadID, err)
	}
	clock := signer.HeaderTimestamp
	if !c.signsID {
		clock = "t in " + c.name
	}
	switch _, err := unixSeconds(c.timestamp); {
	case !c.signsTime:
	case c.timestamp == "" && c.signature != "":
		r.add(NoTimestamp, clock)
	case c.timestamp != "" && err != nil:
		r.add(BadTimestamp, clock, err)
	}
}

// age reports the age of the callback, and whether it is too high or too low.
func (c *callback) age(r *Report) {
	if _, err := unixSeconds(c.timestamp); !c.signsTime || err != nil {
		return
	}
	age, tolerance := c.At.Sub(c.signedAt()), c.Tolerance
	if tolerance <= 0 {
		tolerance = signer.DefaultTolerance
	}
	shown := age.Round(time.Second)
	r.Age = new(shown.Seconds())
	switch {
	case age > tolerance:
		r.add(TooOld, ladder.FormatDuration(shown), ladder.FormatDuration(tolerance))
	case age < -tolerance:
		r.add(TooNew, ladder.FormatDuration(-shown))
	}
}

// signedAt returns the signed time. With this time as its clock, a verifier checks everything
// except the age.
func (c *callback) signedAt() time.Time {
	seconds, err := unixSeconds(c.timestamp)
	if err != nil {
		return c.At
	}
	return time.Unix(seconds, 0)
}

// The wrong forms of timestamps.
var (
	errMillis = errors.New("in milliseconds")
	errDate   = errors.New("a date")
	errNotInt = errors.New("no number")
)

// mostSeconds is a time in the year 5138. Current milliseconds are far above it.
const mostSeconds = 100_000_000_000

// unixSeconds parses a timestamp. For another form it returns the right number with an error.
func unixSeconds(text string) (int64, error) {
	text = strings.TrimSpace(text)
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		if n >= mostSeconds {
			return n / 1000, errMillis
		}
		return n, nil
	}
	for _, form := range []string{time.RFC3339Nano, time.RFC1123, time.RFC1123Z, "2006-01-02 15:04:05"} {
		if at, err := time.Parse(form, text); err == nil {
			return at.Unix(), fmt.Errorf("%w, %s", errDate, form)
		}
	}
	return 0, errNotInt
}

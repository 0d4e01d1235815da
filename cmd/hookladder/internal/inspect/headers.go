package inspect

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/hookladder/hookladder/ladder"
	"github.com/hookladder/hookladder/signer"
)

// The cures of mistakes in headers.
const (
	cureHeaders = "keep all headers as they came"
	cureClock   = "set the receiver's clock by NTP; of a recording, say when it came"
)

// received reports the causes that apply to valid signatures too.
func (c *callback) received(r *Report) {
	for _, name := range []string{c.single, signer.HeaderID, signer.HeaderTimestamp} {
		if len(c.Header.Values(name)) > 1 {
			r.add(Repeated, "refuse it: two readers could take two values", "%s is there more than once", strings.ToLower(name))
		}
	}
	var length int
	if _, err := fmt.Sscan(c.Header.Get("content-length"), &length); err == nil && length >= 0 && length != len(c.Body) {
		r.add(BodyLength, "keep the bytes as they came: editors add an end of line, and frameworks parse and write anew",
			"content-length is %d, but the body has %d bytes", length, len(c.Body))
	}
}

// headers reports the causes in the headers of a callback that does not match.
func (c *callback) headers(r *Report) {
	switch {
	case c.signature == "" && c.other.name != "":
		r.add(OtherScheme, "verify it in that scheme, or change the signature scheme of the endpoint",
			"there is no %s, but there is %s: it is signed as %s", c.name, c.other.name, c.other.says)
	case c.signature == "":
		r.add(NoSignature, "keep all headers as they came: a proxy or a framework may drop them, or it was never signed", "there is no %s", c.name)
	}
	v := signer.Verifier{Secrets: []signer.Secret{signer.Standard.NewSecret()}, Now: c.signedAt}
	err := v.Verify(c.id, c.timestamp, c.signature, nil)
	if c.signsID && errors.Is(err, signer.ErrNoID) {
		r.add(NoID, cureHeaders, "there is no %s, which is signed too", signer.HeaderID)
	}
	if c.signsID && errors.Is(err, signer.ErrID) {
		r.add(BadID, "", "%s", err)
	}
	clock := signer.HeaderTimestamp
	if !c.signsID {
		clock = "t in " + c.name
	}
	switch _, err := unixSeconds(c.timestamp); {
	case !c.signsTime:
	case c.timestamp == "" && c.signature != "":
		r.add(NoTimestamp, cureHeaders, "there is no %s, which is signed too", clock)
	case c.timestamp != "" && err != nil:
		r.add(BadTimestamp, "pass on the header's text as it came: it is whole Unix seconds", "%s is %s", clock, err)
	}
}

// age reports the age of the callback, and whether it is too high or too low.
func (c *callback) age(r *Report) {
	if _, err := unixSeconds(c.timestamp); !c.signsTime || err != nil {
		return
	}
	age, tolerance := c.At.Sub(c.signedAt()), cmp.Or(max(c.Tolerance, 0), signer.DefaultTolerance)
	shown := age.Round(time.Second)
	r.Age = new(shown.Seconds())
	switch {
	case age > tolerance:
		r.add(TooOld, cureClock, "it was signed %s before it came, and a receiver takes at most %s", ladder.FormatDuration(shown), ladder.FormatDuration(tolerance))
	case age < -tolerance:
		r.add(TooNew, cureClock, "it was signed %s after it came: one of the two clocks is wrong", ladder.FormatDuration(-shown))
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

// mostSeconds is a time in the year 5138. Current milliseconds are far above it.
const mostSeconds = 100_000_000_000

// unixSeconds parses a timestamp. For another form it returns the right number with an error.
func unixSeconds(text string) (int64, error) {
	text = strings.TrimSpace(text)
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		if n >= mostSeconds {
			return n / 1000, errors.New("in milliseconds")
		}
		return n, nil
	}
	for _, form := range []string{time.RFC3339Nano, time.RFC1123, time.RFC1123Z, "2006-01-02 15:04:05"} {
		if at, err := time.Parse(form, text); err == nil {
			return at.Unix(), fmt.Errorf("a date, %s", form)
		}
	}
	return 0, errors.New("no number")
}

package dispatcher

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher/success"
	"github.com/hookladder/hookladder/ladder"
)

// maxRetryAfter is the longest a receiver may put off its next attempt. Beyond
// a day it is a mistake more often than a wish, and would use up the time that
// the ladder has.
const maxRetryAfter = 24 * time.Hour

// Case is a response with everything that Judge needs.
type Case struct {
	Answer      Answer
	Success     *success.Rule // nil: any 2xx
	Rung        int           // number of the attempt since its ladder began, from 1
	Ladder      ladder.Ladder
	MaxAttempts int       // cuts the ladder; 0: does not
	WaitsOn     time.Time // a person asked for the attempt: if it fails, the delivery waits until then; zero: its ladder continues
	Now         time.Time // by the queue's clock
	ExpiresAt   time.Time // zero: never
	Jitter      float64   // a fraction of the rung, only ever added
	Random      float64   // in [0, 1): how much of the jitter

	After *time.Duration // replaces a rung's wait, at most maxRetryAfter; nil: it does not
}

// Outcome is the effect of a response on its delivery.
type Outcome struct {
	Attempt               // without its number and its time; Delivered, Retry or Dead
	Wait    time.Duration // Retry: until the next attempt
	Reason  DeadReason    // Dead: why
	Blame   bool          // it counts for the lane's breaker
	Fails   bool          // its lane fails, and is disabled if that lasts
	Pause   time.Duration // for which the receiver wants no attempt
}

// Judge decides the outcome of an attempt. It is a pure function: no clock, no random numbers,
// no network.
func Judge(c Case) Outcome {
	o := Outcome{Attempt: Attempt{Status: c.Answer.Status, Duration: c.Answer.Took}}
	o.Class, o.Error = fault(c.Answer, c.Success)
	o.Blame = blamed(o.Class, o.Status) && !c.Answer.Rejected
	o.Fails = o.Blame || answered(o.Class) && o.Status != http.StatusTooManyRequests && !c.Answer.Rejected
	if o.Class != ClassNone && (o.Status == http.StatusTooManyRequests || o.Status == http.StatusServiceUnavailable) {
		o.Pause = retryAfter(c.Answer.RetryAfter, c.Answer.Date, c.Now)
	}
	switch {
	case o.Class == ClassNone:
		o.Verdict = Delivered
	case o.Class == ClassRefused:
		o.Verdict, o.Reason = Dead, ReasonRefused
	case o.Class == ClassExpired:
		o.Verdict, o.Reason = Dead, ReasonExpired
	case c.Answer.Rejected: // before 410: it is about this delivery alone
		o.Verdict, o.Reason = Dead, ReasonRejected
		o.Error += ", and the receiver asks for no further attempt"
	case o.Status == http.StatusGone:
		o.Verdict, o.Reason = Dead, ReasonGone
	default:
		o.Verdict, o.Wait, o.Reason = next(c, o.Pause)
	}
	return o
}

// blamed reports whether a failure says that the receiver is in trouble: it gave
// no answer, or a 5xx. Any other status comes from a receiver that works. An attempt
// that never left this host is not its fault.
func blamed(class Class, status int) bool {
	switch class {
	case ClassStatus, ClassBody:
		return status >= 500
	case ClassTimeout, ClassConnect, ClassReset, ClassTLS, ClassDNS, ClassProtocol:
		return true
	}
	return false
}

// answered reports whether a failure is an answer of the receiver.
func answered(c Class) bool { return c == ClassStatus || c == ClassBody }

// fault returns the class and the error of a response, or nothing for a success.
func fault(a Answer, s *success.Rule) (Class, string) {
	if a.Status == 0 {
		return noAnswer(a)
	}
	switch result, why := s.Judge(a.Status, a.Body); result {
	case success.Unreadable:
		return ClassInternal, "the stored success can't be read"
	case success.WrongStatus:
		return ClassStatus, statusFault(a, why)
	case success.WrongBody:
		return ClassBody, fmt.Sprintf("status %d, but %s", a.Status, why)
	default:
		return ClassNone, ""
	}
}

func noAnswer(a Answer) (Class, string) {
	if a.Class == ClassNone {
		return ClassInternal, "no answer, and no reason for it"
	}
	if a.Err != nil {
		return a.Class, a.Err.Error()
	}
	if a.Class == ClassExpired {
		return a.Class, "expired before it could be attempted"
	}
	return a.Class, "no answer: " + string(a.Class)
}

func statusFault(a Answer, wanted string) string {
	status := a.Status
	switch {
	case status == http.StatusSwitchingProtocols:
		return "status 101: the receiver left HTTP"
	case status < 200:
		return fmt.Sprintf("status %d: an announcement, not an answer", status)
	case status <= 299:
		return fmt.Sprintf("status %d, not one of %s", status, wanted)
	case status <= 399:
		return redirectFault(status, a.Location)
	case status == http.StatusGone:
		return "status 410: gone for good"
	default:
		return fmt.Sprintf("status %d", status)
	}
}

// next finds the time of the next attempt, not before pause is over, or why
// there is none.
func next(c Case, pause time.Duration) (Verdict, time.Duration, DeadReason) {
	if !c.WaitsOn.IsZero() {
		return waitOn(c, pause)
	}
	wait, ok := c.Ladder.Cut(c.MaxAttempts).Next(c.Rung)
	if !ok {
		return Dead, 0, ReasonExhausted
	}
	wait = max(c.wait(wait), pause)
	if c.expires(c.Now.Add(wait)) {
		return Dead, 0, ReasonExpired
	}
	return Retry, wait, ""
}

// waitOn finds the wait after a failed attempt that a person asked for. The queue
// has the delivery wait until the time that it waited for before. The length of
// that rung counts only where the time has passed by then. A delivery that was
// never attempted waited on no rung.
func waitOn(c Case, pause time.Duration) (Verdict, time.Duration, DeadReason) {
	l := c.Ladder.Cut(c.MaxAttempts)
	wait, _ := l.Next(min(c.Rung-1, l.Len())) // it may be shorter than it was
	wait = max(c.wait(wait), pause)
	due := c.Now.Add(wait)
	if c.WaitsOn.After(c.Now) {
		due = c.WaitsOn
		if c.Now.Add(pause).After(due) {
			due = c.Now.Add(pause)
		}
	}
	if c.expires(due) {
		return Dead, 0, ReasonExpired
	}
	return Retry, wait, ""
}

// wait is how long a rung waits in this case.
func (c Case) wait(rung time.Duration) time.Duration {
	if c.After != nil {
		return min(max(*c.After, 0), maxRetryAfter)
	}
	return ladder.Jittered(rung, c.Jitter, c.Random)
}

// expires reports whether an attempt at a time would come too late.
func (c Case) expires(at time.Time) bool { return !c.ExpiresAt.IsZero() && !at.Before(c.ExpiresAt) }

// retryAfter reads a Retry-After header: seconds or any HTTP date, at most
// maxRetryAfter. What says nothing, nothing sensible or the past is 0. A date is
// one of the receiver's clock, so it is reckoned from what that clock said when
// it answered, and from now where the answer has no date of its own.
func retryAfter(header, date string, now time.Time) time.Duration {
	header = strings.TrimSpace(header)
	if header == "" {
		return 0
	}
	if strings.Trim(header, "0123456789") == "" {
		seconds, err := strconv.ParseInt(header, 10, 64)
		if err != nil || seconds > int64(maxRetryAfter/time.Second) {
			return maxRetryAfter // err: more digits than an int64 has
		}
		return time.Duration(seconds) * time.Second
	}
	at, err := http.ParseTime(header)
	if err != nil {
		return 0
	}
	if said, err := http.ParseTime(date); err == nil {
		now = said
	}
	return min(max(at.Sub(now), 0), maxRetryAfter)
}

// masked replaces a signature of ours in an excerpt, if a receiver echoed it.
const masked = "[signature]"

const (
	// minMasked is the shortest text taken for a signature, or for the rest of one
	// that the end of an answer cut off. Shorter ones occur by chance.
	minMasked = 8
	// surelyMasked is the length of a prefix that identifies a secret. This many characters
	// decide. So a response that nearly repeats a secret of 8 KiB at each byte costs no more than
	// another one.
	surelyMasked = 16
)

// Excerpt copies the first n bytes of an answer's body, with our own signatures
// masked. Receivers that echo the request give them back, whole or cut, and
// escaped as in JSON, HTML or a URL. own holds signatures, or the values of
// signature headers: each is split at spaces and commas.
func Excerpt(body []byte, n int, own []string) []byte {
	if n <= 0 || len(body) == 0 {
		return nil
	}
	if len(body) < minMasked {
		return append([]byte(nil), body[:min(n, len(body))]...)
	}
	secrets := masking(own)
	begins := beginnings(secrets)
	kept := make([]byte, 0, min(n, len(body)))
	for i := 0; i < len(body) && len(kept) < n; {
		if !begins[body[i]] {
			kept = append(kept, body[i])
			i++
			continue
		}
		if end := echo(body, i, secrets); end > i {
			kept = append(kept, masked...)
			i = end
			continue
		}
		kept = append(kept, body[i])
		i++
	}
	return kept[:min(n, len(kept))]
}

// beginnings are the bytes that may begin a secret, or an escape of its first
// character. Most bytes of an answer are none, so that the rest is not asked.
func beginnings(secrets []string) (b [256]bool) {
	b['\\'], b['%'], b['&'] = true, true, true
	for _, s := range secrets {
		b[s[0]] = true
	}
	return b
}

// masking are the parts of values that are secret, sorted and each once.
func masking(own []string) (secrets []string) {
	for _, value := range own {
		for _, part := range strings.FieldsFunc(value, func(r rune) bool { return r == ' ' || r == ',' }) {
			name, value, named := strings.Cut(part, "=")
			if named && name == "t" {
				continue // the time, which is no secret
			}
			if len(part) >= minMasked {
				secrets = append(secrets, part)
			}
			if named && len(value) >= minMasked { // sha256=<hex>
				secrets = append(secrets, value)
			}
		}
	}
	slices.Sort(secrets)
	return slices.Compact(secrets)
}

// echo is where body stops repeating a secret from i on, or i if it repeats none: all of it,
// or surelyMasked of it, or minMasked of it at its own end. The longest match of several
// secrets counts. The secrets are sorted, so all that begin with the matched text are next to
// each other.
func echo(body []byte, i int, secrets []string) (end int) {
	end = i
	at := i
	for matched := 0; ; matched++ {
		if len(secrets) > 0 && len(secrets[0]) == matched { // the shortest comes first
			end, secrets = at, secrets[1:]
		}
		if matched >= surelyMasked || matched >= minMasked && at == len(body) {
			end = at
		}
		if at == len(body) || len(secrets) == 0 {
			return end
		}
		c, width := unescape(body[at:])
		secrets = followed(secrets, matched, c)
		if len(secrets) == 0 {
			return end
		}
		at += width
	}
}

// followed returns the secrets with c at a place. The secrets are sorted, and equal before
// this place. All are longer.
func followed(secrets []string, at int, c byte) []string {
	low := sort.Search(len(secrets), func(i int) bool { return secrets[i][at] >= c })
	high := low + sort.Search(len(secrets)-low, func(i int) bool { return secrets[low+i][at] > c })
	return secrets[low:high]
}

// unescape reads one character as it is, or as \/, \u002f, %2f, &#47; or &#x2f;.
// An escape that is cut off or none of these is read as its first byte.
func unescape(b []byte) (c byte, width int) {
	number := func(digits []byte, base, width int) (byte, int) {
		if v, err := strconv.ParseUint(string(digits), base, 8); err == nil {
			return byte(v), width
		}
		return b[0], 1
	}
	switch {
	case b[0] == '\\' && len(b) >= 6 && b[1] == 'u' && b[2] == '0' && b[3] == '0':
		return number(b[4:6], 16, 6)
	case b[0] == '\\' && len(b) >= 2 && b[1] == '/':
		return '/', 2
	case b[0] == '%' && len(b) >= 3:
		return number(b[1:3], 16, 3)
	case b[0] == '&' && len(b) >= 4 && b[1] == '#':
		end := strings.IndexByte(string(b[:min(len(b), 8)]), ';')
		if end > 3 && (b[2] == 'x' || b[2] == 'X') {
			return number(b[3:end], 16, end+1)
		}
		if end > 2 {
			return number(b[2:end], 10, end+1)
		}
	}
	return b[0], 1
}

// redirectShown is the most of a redirect's target that is shown: enough to see
// http become https, or a path that moved.
const redirectShown = 200

// redirectFault says whither an answer leads, for a URL that was registered wrong.
func redirectFault(status int, location string) string {
	to := redirectTarget(location)
	if to != "" {
		to = " to " + to
	}
	return fmt.Sprintf("status %d%s: redirects are not followed", status, to)
}

// redirectTarget is a Location without what may open something: user, query and
// fragment. All of it is a stranger's, and is shown to people: it is printable
// ASCII, and no longer than redirectShown.
func redirectTarget(location string) string {
	u, err := url.Parse(location)
	if err != nil || u.Opaque != "" {
		return ""
	}
	bare := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}
	var b strings.Builder
	for _, c := range []byte(bare.String()) {
		if b.Len() >= redirectShown {
			return b.String()[:redirectShown] + "..."
		}
		if c <= ' ' || c > '~' {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

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

// maxRetryAfter is the longest delay that a receiver may ask for. A delay beyond a day is usually
// a mistake, and would use up the ladder's time.
const maxRetryAfter = 24 * time.Hour

// Case is a response with everything that Judge needs.
type Case struct {
	Answer      Answer
	Success     *success.Rule // nil: any 2xx
	Rung        int           // number of the attempt on its ladder, from 1
	Ladder      ladder.Ladder
	MaxAttempts int       // cuts the ladder; 0: does not cut it
	WaitsOn     time.Time // a person asked for the attempt: if it fails, the delivery waits until then; zero: its ladder continues
	Now         time.Time // by the queue's clock
	ExpiresAt   time.Time // zero: never
	Jitter      float64   // a fraction of the rung, which is only added
	Random      float64   // in [0, 1): the used part of the jitter

	After *time.Duration // replaces a rung's wait, at most ladder.MaxDuration; nil: it does not
}

// Outcome is the effect of a response on its delivery.
type Outcome struct {
	Attempt               // without its number and its time; Delivered, Retry or Dead
	Wait    time.Duration // Retry: the time until the next attempt
	Reason  DeadReason    // Dead: why
	Blame   bool          // the attempt counts for the lane's breaker
	Fails   bool          // its lane fails, and is disabled if that lasts
	Pause   time.Duration // the time in which the receiver wants no attempt
}

// Judge returns the outcome of an attempt. It is a pure function: it uses no clock, no random
// numbers and no network.
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
	case c.Answer.Rejected: // before 410, because it is about this delivery alone
		o.Verdict, o.Reason = Dead, ReasonRejected
		o.Error += ", and the receiver asks for no further attempt"
	case o.Status == http.StatusGone:
		o.Verdict, o.Reason = Dead, ReasonGone
	default:
		o.Verdict, o.Wait, o.Reason = next(c, o.Pause)
	}
	return o
}

// blamed reports whether a failure means trouble of the receiver: no response, or a 5xx. A
// receiver that returns any other status works. An attempt that never left this host is not the
// receiver's fault.
func blamed(class Class, status int) bool {
	switch class {
	case ClassStatus, ClassBody:
		return status >= 500
	case ClassTimeout, ClassConnect, ClassReset, ClassTLS, ClassDNS, ClassProtocol:
		return true
	}
	return false
}

// answered reports whether the failure is a response of the receiver.
func answered(c Class) bool { return c == ClassStatus || c == ClassBody }

// fault returns the class and the error of a response, or nothing for a success.
func fault(a Answer, s *success.Rule) (Class, string) {
	if a.Status == 0 {
		return noAnswer(a)
	}
	class, text := ClassNone, ""
	switch result, why := s.Judge(a.Status, a.Body); result {
	case success.Met:
		return ClassNone, ""
	case success.Unreadable:
		return ClassInternal, "the stored success can't be read"
	case success.WrongStatus:
		class, text = ClassStatus, statusFault(a, why)
	case success.WrongBody:
		class, text = ClassBody, fmt.Sprintf("status %d, but %s", a.Status, why)
	}
	if a.Unread != "" { // without it, a Retry-After or a body would be missed
		text += "; " + a.Unread
	}
	return class, text
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

// next returns the time of the next attempt, not before the end of pause, or the reason why there
// is none.
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

// waitOn returns the wait after a failed attempt that a person asked for. The queue lets the
// delivery wait until its previous time. The length of that rung counts only if this time has
// passed by then. A delivery without an earlier attempt was on no rung.
func waitOn(c Case, pause time.Duration) (Verdict, time.Duration, DeadReason) {
	l := c.Ladder.Cut(c.MaxAttempts)
	wait, _ := l.Next(min(c.Rung-1, l.Len())) // the ladder may be shorter now
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

// wait returns the wait of a rung in this case.
func (c Case) wait(rung time.Duration) time.Duration {
	if c.After != nil {
		return min(max(*c.After, 0), ladder.MaxDuration)
	}
	return ladder.Jittered(rung, c.Jitter, c.Random)
}

// expires reports whether an attempt at a time would be too late.
func (c Case) expires(at time.Time) bool { return !c.ExpiresAt.IsZero() && !at.Before(c.ExpiresAt) }

// retryAfter parses a Retry-After header: seconds or any HTTP date, at most maxRetryAfter. It
// returns 0 for a missing, invalid or past value. A date is by the receiver's clock, so the wait
// counts from the response's own date. Without that date, it counts from now.
func retryAfter(header, date string, now time.Time) time.Duration {
	header = strings.TrimSpace(header)
	if header == "" {
		return 0
	}
	if strings.Trim(header, "0123456789") == "" {
		seconds, err := strconv.ParseInt(header, 10, 64)
		if err != nil || seconds > int64(maxRetryAfter/time.Second) {
			return maxRetryAfter // err: the number does not fit in an int64
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

// masked replaces our signature in an excerpt if a receiver returned it.
const masked = "[signature]"

const (
	// minMasked is the shortest text that is masked as a signature, or as its beginning at the
	// end of a cut response. Shorter texts occur by chance.
	minMasked = 8
	// surelyMasked is the length of a prefix that identifies a secret. A match of this length
	// decides, so a response that nearly repeats a secret of 8 KiB at each byte costs no more
	// than another one.
	surelyMasked = 16
)

// Excerpt returns the first n bytes of a response body, with our own signatures masked. Receivers
// that return the request repeat them, whole or cut, and escaped as in JSON, HTML or a URL. own
// has signatures, or the values of signature headers: each is split at spaces and commas.
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

// beginnings returns the bytes that may begin a secret, or an escape of its first character. Most
// bytes of a response do not, so no further check is needed.
func beginnings(secrets []string) (b [256]bool) {
	b['\\'], b['%'], b['&'] = true, true, true
	for _, s := range secrets {
		b[s[0]] = true
	}
	return b
}

// masking returns the secret parts of values, sorted and without duplicates.
func masking(own []string) (secrets []string) {
	for _, value := range own {
		for _, part := range strings.FieldsFunc(value, func(r rune) bool { return r == ' ' || r == ',' }) {
			name, value, named := strings.Cut(part, "=")
			if named && name == "t" {
				continue // the time is no secret
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

// echo returns the end of the text from i that repeats a secret, or i if none is repeated. A
// match is the whole secret, or surelyMasked of it, or minMasked of it at the end of body. The
// longest match of several secrets counts. The secrets are sorted, so all that begin with the
// matched text are next to each other.
func echo(body []byte, i int, secrets []string) (end int) {
	end = i
	at := i
	for matched := 0; ; matched++ {
		if len(secrets) > 0 && len(secrets[0]) == matched { // the shortest secret comes first
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

// followed returns the secrets that have c at a place. The secrets are sorted, equal before this
// place, and longer.
func followed(secrets []string, at int, c byte) []string {
	low := sort.Search(len(secrets), func(i int) bool { return secrets[i][at] >= c })
	high := low + sort.Search(len(secrets)-low, func(i int) bool { return secrets[low+i][at] > c })
	return secrets[low:high]
}

// unescape reads one character as it is, or as \/, \u002f, %2f, &#47; or &#x2f;. Any other or
// incomplete escape is read as its first byte.
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

// redirectShown is the most characters of a redirect's target in an error. They are enough to
// show http become https, or a path that moved.
const redirectShown = 200

// redirectFault returns the error of a redirect with its target, because the registered URL may
// be wrong.
func redirectFault(status int, location string) string {
	to := redirectTarget(location)
	if to != "" {
		to = " to " + to
	}
	return fmt.Sprintf("status %d%s: redirects are not followed", status, to)
}

// redirectTarget returns a Location without the parts that may grant access: user, query and
// fragment. People see this text, and a stranger wrote it. So it is printable ASCII, and no
// longer than redirectShown.
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

package dispatcher

import (
	"crypto/rand"
	"errors"
	"fmt"
	"mime"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/oklog/ulid/v2"

	"github.com/hookladder/hookladder/dispatcher/internal/input"
	"github.com/hookladder/hookladder/ladder"
	"github.com/hookladder/hookladder/signer"
)

// The limits of a message. The contract names each of these numbers.
const (
	maxID          = 128
	maxTopic       = 128
	maxTenant      = 128
	maxSubject     = 128     // characters
	maxContentType = 256     // far more than any media type with parameters has
	maxHeaderBytes = 8 << 10 // names and values together
	maxAttempts    = 101     // the longest ladder has 100 rungs
	minTimeout     = time.Second
	maxTimeout     = 60 * time.Second
	maxHandling    = time.Hour // as maxTimeout, of a message to a queue

	// MaxHeaders is the highest number of headers of a message or an endpoint.
	MaxHeaders = 20

	// maxDelay is the longest delay. maxAhead is the latest time of a first attempt: a year from
	// now, with a leap day.
	maxDelay = ladder.MaxDuration
	maxAhead = 366 * 24 * time.Hour
)

// TestTopic is the topic of a message that tests an endpoint.
const TestTopic = ownTopics + "test"

// ownTopics is the prefix of topics that Hookladder itself publishes. Callers may not use it,
// because receivers trust these topics.
const ownTopics = "hookladder."

// Policy has the limits of messages and endpoints.
type Policy struct {
	MaxBody   int                  // bytes of a message's body; 0: no limit
	Unsigned  bool                 // there is no secret for bare URLs, so none is accepted
	HTTPSOnly bool                 // plain http is refused
	CheckURL  func(*url.URL) error // returns an error if a literal address may not be called; nil: all may
	Now       func() time.Time     // nil: time.Now

	CheckLinkURL func(*url.URL) error // CheckURL of URLs that a link sets
	Passed       *Passed              // caches URLs that may be called; nil: each is checked again

	HeaderPrefix HeaderPrefix // of our own headers, which no message may set
}

// OfLink returns the policy for URLs and headers that a link sets.
func (l Policy) OfLink() Policy {
	l.CheckURL, l.Passed = l.CheckLinkURL, nil
	return l
}

func (l Policy) now() time.Time {
	if l.Now == nil {
		return time.Now()
	}
	return l.Now()
}

// FieldError is the error of one field of a message or an endpoint, with its path.
type FieldError = input.FieldError

// faults collects errors of fields.
type faults []FieldError

func (f *faults) add(path, detail string) {
	*f = append(*f, FieldError{Path: path, Detail: detail})
}

func (f *faults) check(path string, err error) {
	if err != nil {
		f.add(path, err.Error())
	}
}

// checkURL applies all checks of a URL that is published or registered.
func (l Policy) checkURL(raw string) error {
	if l.Passed == nil {
		return l.parseURL(raw)
	}
	if l.Passed.has(raw) && !l.Unsigned {
		return nil
	}
	err := l.parseURL(raw)
	if err == nil {
		l.Passed.add(raw)
	}
	return err
}

func (l Policy) parseURL(raw string) error {
	u, err := ParseURL(raw)
	switch {
	case err != nil:
		return err
	case l.Unsigned:
		return errUnsigned
	case l.HTTPSOnly && u.Scheme != "https":
		return errPlain
	case l.CheckURL != nil:
		return l.CheckURL(u)
	}
	return nil
}

// checkSubject returns an error if a text may not be a message's subject.
func checkSubject(s string) error {
	if utf8.RuneCountInString(s) > maxSubject || !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl) {
		return errors.New("must be at most 128 characters, none of them a control one")
	}
	return nil
}

// ValidSubject reports whether a text may be a message's subject.
func ValidSubject(s string) bool { return s != "" && checkSubject(s) == nil }

// ValidID reports whether s may be a message's id: 1 to 128 of A-Za-z0-9_-. A dot is invalid
// because the signed text is id.timestamp.body. So are characters with a meaning in the store's
// keys.
func ValidID(s string) bool {
	return len(s) <= maxID && input.IsWord(s)
}

// entropy makes ULIDs of one millisecond ascend, for all callers. Its random part can't be
// guessed, because ids are in URLs.
var entropy = &ulid.LockedMonotonicReader{MonotonicReader: ulid.Monotonic(rand.Reader, 0)}

// NewID returns a new id for a message: msg_ and a ULID.
func NewID() string {
	now := ulid.Timestamp(time.Now())
	id, err := ulid.New(now, entropy)
	if err != nil { // the random part overflowed in this millisecond: use another
		id = ulid.MustNew(now, rand.Reader)
	}
	b := make([]byte, 4, 4+ulid.EncodedSize)
	copy(b, "msg_")
	b = b[:4+ulid.EncodedSize]
	_ = id.MarshalTextTo(b[4:]) // fails only if the slice is too short
	return string(b)
}

// ValidTopic reports whether s is a topic: words of A-Za-z0-9_-, separated by dots, at most 128
// bytes.
func ValidTopic(s string) bool {
	if len(s) > maxTopic {
		return false
	}
	for {
		word, rest, more := strings.Cut(s, ".")
		if !input.IsWord(word) {
			return false
		}
		if !more {
			return true
		}
		s = rest
	}
}

// ValidTenant reports whether s is a tenant: 1 to 128 printable ASCII
// characters without spaces.
func ValidTenant(s string) bool {
	if s == "" || len(s) > maxTenant {
		return false
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// ValidLane reports whether s may be a lane: 1 to 16 of A-Za-z0-9_-. The lane of a queue may also
// have . and ~.
func ValidLane(s string) bool {
	if Lane(s).IsQueue() {
		s = strings.NewReplacer(".", "-", "~", "-").Replace(s)
	}
	return len(s) <= MaxLane && input.IsWord(s)
}

// maxQueue is the longest name of a queue, in bytes.
const maxQueue = 64

// ValidQueue reports whether s may be the name of a queue: 1 to 64 of A-Za-z0-9_.- without the
// prefix of a lane.
func ValidQueue(s string) bool {
	return len(s) <= maxQueue && lanePrefix(s) == "" && input.IsWord(strings.ReplaceAll(s, ".", "-"))
}

// checkContentType returns an error unless s is a media type that is valid in a header.
func checkContentType(s string) error {
	switch {
	case s == "application/json": // the most common type needs no parser
		return nil
	case s == "":
		return fmt.Errorf("is needed")
	case len(s) > maxContentType:
		return fmt.Errorf("must be at most %d bytes", maxContentType)
	case !printable(s):
		return fmt.Errorf("must be printable ASCII")
	}
	media, _, err := mime.ParseMediaType(s)
	if err != nil {
		return fmt.Errorf("is not a media type: %w", err)
	}
	if kind, sub, ok := strings.Cut(media, "/"); !ok || kind == "" || sub == "" {
		return fmt.Errorf("is not a media type: no type/subtype")
	}
	return nil
}

// printable reports whether s is ASCII without control characters.
func printable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// leastDigits is the least number of digits in a number that identifies a subject.
const leastDigits = 3

// SubjectToken returns the part of a subject that a search compares: 8713, #8713 and ORDER 8713
// find order_8713. It is in lower case. Other characters than letters and digits separate parts.
// The token is the last part with three or more digits, or else the last with a digit, or else
// the whole subject.
func SubjectToken(subject string) string {
	lower := strings.ToLower(subject)
	number, some := "", ""
	for part := range strings.FieldsFuncSeq(lower, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		letters, digits := 0, 0
		for _, r := range part {
			if unicode.IsDigit(r) {
				digits++
			} else {
				letters++
			}
		}
		if digits > 0 {
			some = part
		}
		if letters == 0 && digits >= leastDigits {
			number = part
		}
	}
	switch {
	case number != "":
		return number
	case some != "":
		return some
	}
	return lower
}

// lastDigits is the number of digits at the end of a token that an index finds it by.
const lastDigits = 4

// LastDigits returns the last four digits of a SubjectToken; empty: it ends with fewer.
func LastDigits(token string) string {
	if !IsLastDigits(token[max(0, len(token)-lastDigits):]) {
		return ""
	}
	return token[len(token)-lastDigits:]
}

// IsLastDigits reports whether a text finds subjects that end with it: it has four or more digits,
// and nothing else.
func IsLastDigits(s string) bool {
	return len(s) >= lastDigits && strings.Trim(s, "0123456789") == ""
}

// SubjectEnds reports whether the number of a subject, its SubjectToken, ends with one of these
// digits.
func SubjectEnds(these []string, subject string) bool {
	token := SubjectToken(subject)
	return slices.ContainsFunc(these, func(s string) bool { return strings.HasSuffix(token, s) })
}

// SubjectLike reports whether one of these finds the subject.
func SubjectLike(these []string, subject string) bool {
	token := SubjectToken(subject)
	return subject != "" && slices.ContainsFunc(these, func(s string) bool { return SubjectToken(s) == token })
}

const maxSignatureHeader = 64

// validateSecrets checks that the secrets fit the scheme, and checks the form of the
// signature.
func (e *Endpoint) validateSecrets(f *faults, prefix HeaderPrefix) {
	before := len(*f)
	f.check("$.signature_header", e.checkSignatureHeader(prefix))
	f.check("$.signature_hash", e.checkForm(e.Form.Hash != "", e.Form.CheckHash))
	f.check("$.signature_encoding", e.checkForm(e.Form.Encoding != "", e.Form.CheckEncoding))
	f.check("$.signature_prefix", e.checkForm(e.Form.Prefix != "", e.Form.CheckPrefix))
	f.check("$.signature_content", e.checkForm(e.Form.Content != "", e.Form.CheckContent))
	scheme, err := signer.ParseScheme(string(e.Signature))
	if err != nil {
		f.add("$.signature", err.Error())
		return
	}
	if len(*f) > before {
		return // a signer refuses the form too
	}
	for _, s := range e.Secrets {
		if _, err := e.NewSigner(s.Secret); err != nil {
			f.add("$.secret", "does not fit the signature "+string(scheme)+": "+err.Error())
			return
		}
	}
}

// checkForm returns an error for a field of the form if the signature has no such field.
func (e *Endpoint) checkForm(given bool, check func() error) error {
	if given && e.Signature != signer.HMAC {
		return fmt.Errorf("is only for the signature %s", signer.HMAC)
	}
	return check()
}

// checkSignatureHeader returns an error if the signature may not be in that header.
func (e *Endpoint) checkSignatureHeader(prefix HeaderPrefix) error {
	name := e.Form.Header
	switch {
	case name == "":
		return nil
	case e.Signature != signer.HMAC && e.Signature != signer.HMACHex:
		return fmt.Errorf("is only for the signatures %s and %s: the others have headers of their own", signer.HMAC, signer.HMACHex)
	case len(name) > maxSignatureHeader:
		return fmt.Errorf("has %d characters, at most %d are taken", len(name), maxSignatureHeader)
	case slices.ContainsFunc(e.Headers, func(h Header) bool { return strings.EqualFold(h.Name, name) }):
		return errors.New("is one of headers too")
	}
	return prefix.CheckName(name)
}

package dispatcher

import (
	"fmt"
	"strings"
	"time"

	"github.com/hookladder/hookladder/signer"
)

// What an endpoint may have. The contract names the first four numbers; the
// others keep an endpoint small enough to be held in memory by the thousand.
const (
	maxUID      = 128
	maxTopics   = 64
	maxMetadata = 16

	maxMetadataBytes = 4 << 10 // names and texts together
	maxDescription   = 1 << 10
	maxLaneInFlight  = 65536 // as ENDPOINT_MAX_IN_FLIGHT
)

// MaxOverlap is the longest that a rotated secret goes on signing.
const MaxOverlap = 30 * 24 * time.Hour

// Validate lists everything that is wrong with an endpoint, or nothing. Its
// secrets may be missing: they are made where it is created.
func (e *Endpoint) Validate(l Policy) []FieldError {
	var f faults
	f.check("$.uid", checkUID(e.UID))
	if e.Tenant != "" && !ValidTenant(e.Tenant) {
		f.add("$.tenant", "must be at most 128 printable ASCII characters without spaces")
	}
	if e.URL == "" {
		f.add("$.url", "is needed")
	} else {
		l.Unsigned = false // it has a secret of its own
		f.check("$.url", l.checkURL(e.URL))
	}
	e.validateTopics(&f)
	e.validateWords(&f)
	e.validateSecrets(&f)
	f.headers(e.Headers)
	if e.Timeout != 0 && (e.Timeout < minTimeout || e.Timeout > maxTimeout) {
		f.add("$.timeout", "must be 1s to 60s")
	}
	if e.MaxInFlight < 0 || e.MaxInFlight > maxLaneInFlight {
		f.add("$.max_in_flight", fmt.Sprintf("must be 1 to %d", maxLaneInFlight))
	}
	if !e.Rate.IsZero() && e.Rate.Interval() <= 0 {
		f.add("$.rate", errRate.Error())
	}
	return f
}

func (e *Endpoint) validateTopics(f *faults) {
	if len(e.Topics) > maxTopics {
		f.add("$.topics", fmt.Sprintf("has %d patterns, at most %d are taken", len(e.Topics), maxTopics))
		return
	}
	for i, pattern := range e.Topics {
		if !ValidPattern(pattern) {
			f.add(fmt.Sprintf("$.topics[%d]", i), "must be a topic, a topic whose last word is *, or *")
		}
	}
}

// validateWords checks what only people read.
func (e *Endpoint) validateWords(f *faults) {
	f.check("$.description", checkText(e.Description, maxDescription))
	if len(e.Metadata) > maxMetadata {
		f.add("$.metadata", fmt.Sprintf("has %d texts, at most %d are taken", len(e.Metadata), maxMetadata))
		return
	}
	size := 0
	for name, text := range e.Metadata {
		size += len(name) + len(text)
		if name == "" || checkText(name, maxMetadataBytes) != nil || checkText(text, maxMetadataBytes) != nil {
			f.add("$.metadata", "must be texts without control characters, with names")
		}
	}
	if size > maxMetadataBytes {
		f.add("$.metadata", fmt.Sprintf("has %d bytes, at most %d are taken", size, maxMetadataBytes))
	}
}

// validateSecrets checks that the secrets are such as the scheme signs with.
func (e *Endpoint) validateSecrets(f *faults) {
	scheme, err := signer.ParseScheme(string(e.Signature))
	if err != nil {
		f.add("$.signature", err.Error())
		return
	}
	for _, s := range e.Secrets {
		if _, err := scheme.NewSigner(s.Secret); err != nil {
			f.add("$.secret", "does not fit the signature "+string(scheme)+": "+err.Error())
			return
		}
	}
}

// ValidPattern reports whether s may stand in an endpoint's topics: a topic,
// one whose last word is * instead, or * alone.
func ValidPattern(s string) bool {
	if s == "*" {
		return true
	}
	if head, ok := strings.CutSuffix(s, ".*"); ok {
		return ValidTopic(head) && len(s) <= maxTopic
	}
	return ValidTopic(s)
}

// checkUID takes what can be told from every lane and can stand in a path.
func checkUID(s string) error {
	if s == "" {
		return nil
	}
	if len(s) > maxUID {
		return fmt.Errorf("must be at most %d characters", maxUID)
	}
	for i := range len(s) {
		if !isWordByte(s[i]) && !strings.ContainsRune(".:@", rune(s[i])) {
			return fmt.Errorf("must be of A-Z a-z 0-9 _ - . : @")
		}
	}
	if s == "." || s == ".." {
		return fmt.Errorf("must not be a step in a path")
	}
	if prefix := lanePrefix(s); prefix != "" {
		return fmt.Errorf("must not begin with %s, as the names of lanes do", prefix)
	}
	return nil
}

// ValidName reports whether s may name an endpoint: by its id, or by its uid.
func ValidName(s string) bool {
	if Lane(s).IsEndpoint() {
		return ValidLane(s)
	}
	return ValidUID(s)
}

// ValidUID reports whether s may be an endpoint's uid.
func ValidUID(s string) bool { return s != "" && checkUID(s) == nil }

func checkText(s string, most int) error {
	if len(s) > most {
		return fmt.Errorf("has %d bytes, at most %d are taken", len(s), most)
	}
	for _, r := range s {
		if r < ' ' && r != '\n' && r != '\t' || r == 0x7f || r == '\uFFFD' {
			return fmt.Errorf("must be text without control characters")
		}
	}
	return nil
}

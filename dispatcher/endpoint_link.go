package dispatcher

import (
	"fmt"
	"slices"
	"strings"
)

// A link changes the URL and the topics of an endpoint. It must not inherit settings that an
// operator made for another receiver: the headers, the private networks that may be called,
// and topics that the operator did not allow.

// HeadersHeld reports whether the endpoint's headers are not sent, because an operator set them
// for one URL, and a link has set another one.
func (e *Endpoint) HeadersHeld() bool {
	return len(e.Headers) > 0 && e.HeadersFor != "" && e.HeadersFor != e.URL
}

// Confirm makes the operator the owner of the URL and the headers, without a test.
func (e *Endpoint) Confirm() { e.Linked, e.HeadersFor, e.Unverified = false, "", false }

// NoteSetter records the owner of the URL, the headers and the topics after a change. A link
// never becomes the owner of the operator's headers or topics: only an operator's change may
// confirm.
func (e *Endpoint) NoteSetter(before *Endpoint, byLink bool) {
	moved := e.URL != before.URL
	switch {
	case !byLink && moved:
		e.Linked = false
	case byLink:
		e.Linked, e.HeadersFor, e.TopicsAllowed = before.Linked || moved, before.HeadersFor, before.TopicsAllowed
		if moved && len(e.Headers) > 0 && e.HeadersFor == "" {
			e.HeadersFor = before.URL
		}
	}
	if !e.HeadersHeld() { // also if the URL is the operator's again
		e.HeadersFor = ""
	}
	switch same := slices.Equal(e.Topics, before.Topics); {
	case same:
	case !byLink:
		e.TopicsGiven = nil
	case before.TopicsGiven == nil:
		e.TopicsGiven = append([]string{}, before.Topics...)
	}
}

// NoteCreator records whether a link created the endpoint. All topics of the tenant are then
// allowed, because no operator has set any.
func (e *Endpoint) NoteCreator(byLink bool) {
	e.Linked, e.HeadersFor, e.TopicsGiven = byLink && !e.Pull, "", nil
	e.Unverified = e.Linked
	if byLink {
		e.TopicsGiven = []string{"*"}
	}
}

// AllowedTopics returns the patterns that links may use: the operator's list, or else the topics
// that an operator set last.
func (e *Endpoint) AllowedTopics() []string {
	switch {
	case e.TopicsAllowed != nil:
		return e.TopicsAllowed
	case e.TopicsGiven != nil:
		return e.TopicsGiven
	}
	return e.Topics
}

// CheckLinkTopics returns the errors of topics that a link may not set. A link for this endpoint
// alone stays within an allowed pattern. Any link needs an allowed pattern that names
// Hookladder's own topics to use them.
func CheckLinkTopics(topics, allowed []string, single bool) []FieldError {
	var f faults
	for i, pattern := range topics {
		own := strings.HasPrefix(pattern, ownTopics)
		within := func(a string) bool {
			return MatchTopic(a, pattern) && (!own || takesTopic(a, pattern))
		}
		if (single || own) && !slices.ContainsFunc(allowed, within) {
			f.add(fmt.Sprintf("$.topics[%d]", i), "is not within the topics that the operator allows here; ask the operator")
		}
	}
	return f
}

// sameList reports whether two lists that may be left out are equal.
func sameList(a, b []string) bool { return (a == nil) == (b == nil) && slices.Equal(a, b) }

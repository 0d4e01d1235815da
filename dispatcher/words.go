package dispatcher

import "github.com/hookladder/hookladder/signer"

// A word is a member of a closed list, with a clause for people.
type word[T ~string] struct {
	word  T
	means string
}

// words is a closed list, in the order in which people read it.
type words[T ~string] []word[T]

// list returns the words alone.
func (w words[T]) list() []T {
	list := make([]T, len(w))
	for i := range w {
		list[i] = w[i].word
	}
	return list
}

// means returns the clause of a word. It is empty for a word that is not in the list.
func (w words[T]) means(of T) string {
	for i := range w {
		if w[i].word == of {
			return w[i].means
		}
	}
	return ""
}

// TakerOutcomes lists the outcomes that a taker may report.
func TakerOutcomes() []string {
	return []string{Delivered.String(), Retry.String(), Dead.String(), "extend"}
}

// StreamEnds lists the reasons why the server ends a stream of events.
func StreamEnds() []string {
	return []string{"slow", "stopping", "key", "busy"}
}

// WordLists returns all closed lists of the API by name. The tag words of package wire has
// these names, and so have the rows of the contract.
func WordLists() map[string][]string {
	return map[string][]string{
		"status":   Texts(Statuses()),
		"order":    Texts(orders),
		"reason":   Texts(DeadReasons()),
		"waiting":  Texts(Waits()),
		"outcome":  named(Verdicts()),
		"event":    Texts(Happenings()),
		"class":    Texts(Classes()),
		"why":      Texts(Lefts()),
		"state":    Texts(EndpointStates()),
		"kind":     {"push", "pull"},
		"disabled": Texts(DisabledWhys()),
		"scheme":   Texts(signer.Schemes()),

		"signature-hash":     Texts(signer.Hashes()),
		"signature-encoding": Texts(signer.Encodings()),
		"signature-content":  Texts(signer.Contents()),

		"end-status":     Texts(EndStatuses()),
		"test-outcome":   {"delivered", "failed"},
		"lane-state":     Texts(LaneStates()),
		"lane-why":       Texts(LaneWhys()),
		"lane-kind":      {"pull"},
		"job-kind":       Texts(JobKinds()),
		"job-state":      Texts(JobStates()),
		"job-failure":    Texts(jobFailures),
		"job-left":       Texts(jobLefts),
		"settle-outcome": TakerOutcomes(),
		"settle-result":  Texts(takerResults),
		"stream-end":     StreamEnds(),
		"store-mode":     {"single", "cluster", "sentinel"},
		"store-loss":     Losses(),
		"holds":          named([]Tristate{Yes, No, Unknown}),
		"notice":         Texts(Notices()),
		"audit":          AuditWords(),
	}
}

// Texts returns words as plain texts.
func Texts[T ~string](words []T) []string {
	list := make([]string, len(words))
	for i, w := range words {
		list[i] = string(w)
	}
	return list
}

// named returns the names of values.
func named[T interface{ String() string }](values []T) []string {
	list := make([]string, len(values))
	for i, v := range values {
		list[i] = v.String()
	}
	return list
}

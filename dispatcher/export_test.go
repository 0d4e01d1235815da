package dispatcher

import "errors"

// MostSuccesses bounds the texts that are remembered, KnownSuccesses counts them.
const MostSuccesses = mostSuccesses

func KnownSuccesses() int {
	successes.mu.RLock()
	defer successes.mu.RUnlock()
	return len(successes.known)
}

// PatternSteps reads a pattern past the cache and weighs it.
func PatternSteps(pattern string) (int, error) {
	if len(pattern) > maxRegexp {
		return 0, errors.New("too long")
	}
	m, err := newMatchRule(pattern)
	return m.steps, err
}

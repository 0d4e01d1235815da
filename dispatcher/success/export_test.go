package success

import "errors"

// MostTexts bounds the texts that are remembered, KnownTexts counts them.
const MostTexts = mostTexts

func KnownTexts() int {
	cache.mu.RLock()
	defer cache.mu.RUnlock()
	return len(cache.known)
}

// PatternSteps parses a pattern past the cache and weighs it.
func PatternSteps(pattern string) (int, error) {
	if len(pattern) > maxRegexp {
		return 0, errors.New("too long")
	}
	m, err := newMatchRule(pattern)
	return m.steps, err
}

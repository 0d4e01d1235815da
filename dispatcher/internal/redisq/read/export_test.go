package read

import (
	"github.com/hookladder/hookladder/dispatcher"
)

// ReadAttempts reads an entry, and answers the attempts in it.
func ReadAttempts(lines, codes, evidence string) (all []dispatcher.Attempt) {
	for _, l := range linesOf(map[string]any{"l": lines, "c": codes, "e": evidence}) {
		all = append(all, l.attempt)
	}
	return all
}

// ReadAttemptJobs reads the lines of an entry, and answers the jobs that sent them.
func ReadAttemptJobs(lines, jobs string) (all []int64) {
	for _, l := range linesOf(map[string]any{"l": lines, "j": jobs}) {
		all = append(all, l.job)
	}
	return all
}

// ParseCursor reads a cursor and writes it again.
func ParseCursor(text string) (string, error) {
	c, err := readCursor(text)
	return c.text(), err
}

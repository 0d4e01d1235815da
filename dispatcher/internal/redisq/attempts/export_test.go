package attempts

import "github.com/hookladder/hookladder/dispatcher"

// Read reads an entry, and answers the attempts in it.
func Read(lines, codes, evidence string) (all []dispatcher.Attempt) {
	for _, l := range linesOf(map[string]any{"l": lines, "c": codes, "e": evidence}) {
		all = append(all, l.attempt)
	}
	return all
}

// ReadJobs reads the lines of an entry, and answers the jobs that sent them.
func ReadJobs(lines, jobs string) (all []int64) {
	for _, l := range linesOf(map[string]any{"l": lines, "j": jobs}) {
		all = append(all, l.job)
	}
	return all
}

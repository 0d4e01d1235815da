package attempts

import "github.com/hookladder/hookladder/dispatcher"

// Read reads an entry, and answers the attempts in it.
func Read(lines, codes, evidence string) (all []dispatcher.Attempt) {
	for _, l := range linesOf(map[string]any{"l": lines, "c": codes, "e": evidence}) {
		all = append(all, l.attempt)
	}
	return all
}

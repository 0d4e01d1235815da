package dispatcher

import (
	"strings"
	"unicode"
)

// leastDigits is how many digits are a number by which people call a subject.
const leastDigits = 3

// SubjectToken is what a subject is found by, however people write it: 8713, #8713 and ORDER
// 8713 find order_8713. It is in lower case. Of the parts between what is neither letter nor
// digit, it is the last of three or more digits. Without one it is the last with a digit, and
// without that the whole subject.
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

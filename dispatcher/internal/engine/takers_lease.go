package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/hookladder/hookladder/dispatcher"
)

// leaseText is the content of a lease's text: the number of the attempt, and the token that
// distinguishes the lease from others.
type leaseText struct {
	attempt int
	token   string
}

// checkDigits is the number of digits of the check in the text: enough to detect a mistake. It
// is not a secret.
const checkDigits = 10

// text returns the name of a delivery's lease, for its owner only.
func (l leaseText) text(id dispatcher.DeliveryID, owner string) string {
	plain := strconv.Itoa(l.attempt) + "." + l.token
	return plain + "." + check(plain, id, owner)
}

// parseLease parses the text. It returns false if it names no lease of this delivery and
// owner.
func parseLease(text string, id dispatcher.DeliveryID, owner string) (l leaseText, ok bool) {
	number, rest, _ := strings.Cut(text, ".")
	token, sum, _ := strings.Cut(rest, ".")
	attempt, err := strconv.Atoi(number)
	l = leaseText{attempt: attempt, token: token}
	return l, err == nil && attempt > 0 && token != "" && sum == check(number+"."+token, id, owner)
}

func check(plain string, id dispatcher.DeliveryID, owner string) string {
	sum := sha256.Sum256([]byte(owner + " " + plain + " " + id.String()))
	return hex.EncodeToString(sum[:])[:checkDigits]
}

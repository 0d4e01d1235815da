package dispatcher

import (
	"fmt"
	"strconv"
	"strings"
)

// Durability is what an acknowledged publish has waited for. The zero value
// waits for the store's memory only.
type Durability struct {
	Fsync    bool // the disk of the store's master
	Replicas int  // so many replicas' memory
}

// ParseDurability reads none, fsync or replicas:<n> with an n from 1 to 9.
func ParseDurability(text string) (Durability, error) {
	switch text {
	case "none":
		return Durability{}, nil
	case "fsync":
		return Durability{Fsync: true}, nil
	}
	if number, ok := strings.CutPrefix(text, "replicas:"); ok {
		if n, err := strconv.Atoi(number); err == nil && n >= 1 && n <= 9 && number == strconv.Itoa(n) {
			return Durability{Replicas: n}, nil
		}
	}
	return Durability{}, fmt.Errorf("%q is not none, fsync or replicas:<1 to 9>", text)
}

// Waits reports whether a publish has to wait for more than the store's answer.
func (d Durability) Waits() bool { return d != Durability{} }

// String is what ParseDurability reads.
func (d Durability) String() string {
	switch {
	case d.Fsync:
		return "fsync"
	case d.Replicas > 0:
		return "replicas:" + strconv.Itoa(d.Replicas)
	}
	return "none"
}

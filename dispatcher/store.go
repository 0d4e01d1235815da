package dispatcher

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Tristate is a property that a store may keep to itself: managed kinds hide much
// of what a server of one's own tells.
type Tristate uint8

// The answers to a question about a store. The zero value is Unknown.
const (
	Unknown Tristate = iota
	Yes
	No
)

// String is yes, no or unknown.
func (k Tristate) String() string {
	switch k {
	case Yes:
		return "yes"
	case No:
		return "no"
	}
	return "unknown"
}

// Check is one thing that a store should be able to, or should be set to.
type Check struct {
	Name   string // stable, such as eviction
	Holds  Tristate
	Needed bool   // No is a reason not to use the store
	Detail string // in plain words: what was found, and the cure
}

// What a store forgets when the host of its master dies without warning.
const (
	LosesNothing       = "nothing"        // of what was acknowledged
	LosesLastSecond    = "last_second"    // what is not on the disk yet: appendfsync everysec
	LosesUnreplicated  = "unreplicated"   // what too few replicas have, where as many die as were waited for
	LosesSinceSnapshot = "since_snapshot" // no append-only file
	LosesEverything    = "everything"     // it keeps nothing but memory
	LosesUnknown       = "unknown"
)

// Losses lists all of them.
var Losses = []string{LosesNothing, LosesLastSecond, LosesUnreplicated, LosesSinceSnapshot, LosesEverything, LosesUnknown}

// StoreModes are the ways in which a store is set up.
var StoreModes = []string{"single", "cluster", "sentinel"}

// StoreInfo is what the store says of itself; a nil pointer means that it does not tell.
type StoreInfo struct {
	Kind       string // redis, valkey, miniredis, unknown
	Version    string
	Mode       string // one of StoreModes
	Nodes      int    // masters that hold partitions; 1 unless in a cluster
	UsedBytes  *int64 // of the fullest master
	MaxBytes   *int64 // of the same; 0: no limit
	AppendOnly *bool
	Fsync      string // appendfsync; empty: unknown
	Eviction   string // maxmemory-policy; empty: unknown

	Durability Durability // what a publish waits for
	Durable    Tristate   // whether that holds now
	Loses      string     // one of the Loses words
	Emptied    *Emptied   // what it lost, and was neither restored nor given up; nil: nothing
	Checks     []Check
}

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

// Emptied is what of a project's data a store lost, until they are restored or given up. It
// is an error, and an ErrUnavailable: what needs these data is refused.
type Emptied struct {
	Home       bool  // the endpoints, links and jobs
	Partitions []int // whose deliveries are lost
	Archived   bool  // an archive has what was kept
}

// Has reports whether a partition is among them. A nil Emptied has none.
func (e *Emptied) Has(partition int) bool {
	return e != nil && slices.Contains(e.Partitions, partition)
}

// Error says what was lost, and the cure.
func (e *Emptied) Error() string {
	return "the store lost " + e.lost() + ": " + e.Cure()
}

func (e *Emptied) lost() string {
	deliveries := fmt.Sprintf("the deliveries of %d partitions", len(e.Partitions))
	if len(e.Partitions) == 1 {
		deliveries = "the deliveries of one partition"
	}
	switch {
	case e.Home && len(e.Partitions) > 0:
		return "its endpoints and " + deliveries
	case e.Home:
		return "its endpoints"
	default:
		return deliveries
	}
}

// Cure is what a person does about it.
func (e *Emptied) Cure() string {
	if e.Archived {
		return "hookladder restore brings back what is archived, hookladder doctor --accept-loss --discard-archive gives it up"
	}
	return "there is no archive to restore it from; hookladder doctor --accept-loss gives it up, and publishing continues"
}

// Unwrap makes it an ErrUnavailable.
func (e *Emptied) Unwrap() error { return ErrUnavailable }

package conn

import (
	"context"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/seal"
)

// EncodeWhole writes a record whose body does not lie apart.
func EncodeWhole(e dispatcher.Entry, deliver time.Time) []byte {
	record, _ := EncodeRecord(e, deliver, Hiding{Token: (&Client{}).SubjectMark(e.Message.Subject)})
	return record
}

// EncodeSealed writes such a record with the values of headers sealed.
func EncodeSealed(e dispatcher.Entry, box *seal.Box) string {
	record, _ := EncodeRecord(e, time.Time{}, Hiding{Box: box})
	return string(record)
}

// PruneScript prunes the text of a script.
func PruneScript(text string) string { return prune(piecesOf(text)) }

// OpenSealed is openHeaders.
var OpenSealed = openHeaders

// NotDurable judges how many have a write.
var NotDurable = notDurable

// NodeBreaker keeps calls away from masters.
type NodeBreaker = nodeBreaker

// NewNodeBreaker makes one that has not tripped.
var NewNodeBreaker = newNodeBreaker

// Check is the error of a call to a master.
func (b *nodeBreaker) Check(addr string, durable bool) error { return b.check(addr, durable) }

// Trip trips for a master: for all calls, or for durable ones only.
func (b *nodeBreaker) Trip(addr string, weak bool, why error, probe func(ctx context.Context) bool) {
	at := tripped{addr, silentMaster}
	if weak {
		at.reason = weakMaster
	}
	b.trip(at, why, probe)
}

// Finish ends all probes.
func (b *nodeBreaker) Finish() { b.finish() }

// SetWall sets what the host's clock shows.
func (s *PartitionSet) SetWall(wall func(time.Time) time.Time) { s.wall = wall }

// Commands are those that a store needs, with their arguments, and Helpful are those that it may lack.
var (
	ProbedCommands   = names()
	RequiredCommands = required
	HelpfulCommands  = helpful
	CommandArguments = arguments
)

// Forget has the next caller of Store ask again.
func (p *Probe) Forget() { p.until = time.Time{} }

// ProbeAnswers is what a store could say of itself.
type ProbeAnswers struct {
	Info, Config []map[string]string // of each master; a nil Info is hidden
	Down         int                 // masters besides, which do not answer
	Ahead        time.Duration
	Missing      []string
	Hidden, AOF  bool // its commands; it has WAITAOF
	Waits        dispatcher.Tristate
	Scripts      dispatcher.Tristate
	Cluster      map[string]string
	Mode         Mode
	Durability   dispatcher.Durability
}

// Judge judges it.
func (t ProbeAnswers) Judge() dispatcher.StoreInfo {
	f := facts{
		able:       capability{missing: t.Missing, hidden: t.Hidden, scripts: t.Scripts, waits: t.Waits, fault: "refused"},
		durability: t.Durability, waitAOF: t.AOF, mode: t.Mode, cluster: t.Cluster, clock: true,
	}
	for i := range t.Info {
		f.nodes = append(f.nodes, node{name: string(rune('a' + i)), info: t.Info[i], config: t.Config[i], ahead: t.Ahead})
	}
	for range t.Down {
		f.nodes = append(f.nodes, node{name: "down", err: ErrReply})
	}
	return f.report()
}

// EvenPartitions chooses the number of partitions of an empty cluster.
var EvenPartitions = evenPartitions

package probe

import (
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
)

// Commands are those that a store needs, with their arguments, and Helpful are those that it may lack.
var (
	Commands  = names()
	Required  = required
	Helpful   = helpful
	Arguments = arguments
)

// Forget has the next caller of Store ask again.
func (p *Probe) Forget() { p.until = time.Time{} }

// Answers is what a store could say of itself.
type Answers struct {
	Info, Config []map[string]string // of each master; a nil Info is hidden
	Down         int                 // masters besides, which do not answer
	Ahead        time.Duration
	Missing      []string
	Hidden, AOF  bool // its commands; it has WAITAOF
	Waits        dispatcher.Tristate
	Scripts      dispatcher.Tristate
	Cluster      map[string]string
	Mode         conn.Mode
	Durability   dispatcher.Durability
}

// Judge judges it.
func (t Answers) Judge() dispatcher.StoreInfo {
	f := facts{
		able:       capability{missing: t.Missing, hidden: t.Hidden, scripts: t.Scripts, waits: t.Waits, fault: "refused"},
		durability: t.Durability, waitAOF: t.AOF, mode: t.Mode, cluster: t.Cluster, clock: true,
	}
	for i := range t.Info {
		f.nodes = append(f.nodes, node{name: string(rune('a' + i)), info: t.Info[i], config: t.Config[i], ahead: t.Ahead})
	}
	for range t.Down {
		f.nodes = append(f.nodes, node{name: "down", err: conn.ErrReply})
	}
	return f.report()
}

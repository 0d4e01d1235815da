package conn

import (
	"slices"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// clockTolerance is how far a server's clock may differ from this host's before it is
// reported. It matters only to people who compare logs.
const clockTolerance = 5 * time.Second

// facts has the results of all queries. The checks use them.
type facts struct {
	nodes      []node // at least one has responded
	able       capability
	durability dispatcher.Durability
	waitAOF    bool // a publish waits by WAITAOF
	mode       Mode
	polls      bool
	project    string
	clock      bool              // the server's clock is used
	cluster    map[string]string // from CLUSTER INFO; nil: hidden, or not a cluster
}

// report returns the results of all checks.
func (f *facts) report() dispatcher.StoreInfo {
	i := dispatcher.StoreInfo{
		Kind: "unknown", Mode: f.modeName(), Nodes: len(f.nodes), Durability: f.durability,
		AppendOnly: f.appendOnly(), Fsync: f.fsync(), Eviction: f.eviction(),
	}
	i.UsedBytes, i.MaxBytes = f.memory()
	if first := f.answered()[0].info; f.able.mini {
		i.Kind = "miniredis"
	} else if v := first["valkey_version"]; v != "" {
		i.Kind, i.Version = "valkey", v
	} else if v := first["redis_version"]; v != "" {
		i.Kind, i.Version = "redis", v
	}
	durable := f.checkDurability(i)
	i.Durable = durable.Holds
	i.Loses = f.loses(i)
	i.Checks = []dispatcher.Check{
		f.checkCommands(), checkRights(f.able.rights, f.project), f.checkScripts(), f.checkEviction(i), f.checkMemory(i), f.checkAppendOnly(i), durable, f.checkPubSub(),
	}
	if f.clock {
		i.Checks = append(i.Checks, f.checkClock())
	}
	if f.mode == ModeCluster {
		i.Checks = append(i.Checks, f.checkCluster())
	}
	return i
}

// modeName returns the mode. An unknown mode is a single server.
func (f *facts) modeName() string {
	if f.mode == "" || f.mode == ModeAuto {
		return string(ModeSingle)
	}
	return string(f.mode)
}

// answered returns the masters that responded.
func (f *facts) answered() []node {
	return slices.DeleteFunc(slices.Clone(f.nodes), func(n node) bool { return n.err != nil })
}

// worst returns the value of the masters that is first in order. It is empty if a master
// hides its value and no other has the first one.
func (f *facts) worst(order []string, value func(node) string) string {
	found, hidden := len(order), false
	for _, n := range f.answered() {
		v := value(n)
		at := slices.Index(order, v)
		switch {
		case v == "":
			hidden = true
		case at < 0:
			return v // an unknown value may be worse than all in order
		default:
			found = min(found, at)
		}
	}
	if found == len(order) || hidden && found > 0 {
		return ""
	}
	return order[found]
}

func (f *facts) appendOnly() *bool {
	on := f.worst([]string{"0", "1"}, func(n node) string { return n.info["aof_enabled"] })
	if on == "" {
		return nil
	}
	yes := on == "1"
	return &yes
}

func (f *facts) fsync() string {
	return f.worst([]string{"no", "everysec", "always"}, func(n node) string { return n.config["appendfsync"] })
}

func (f *facts) eviction() string {
	policy, hidden := "", false
	for _, n := range f.answered() {
		p := n.info["maxmemory_policy"]
		if evicts(p) {
			return p
		}
		policy, hidden = p, hidden || p == ""
	}
	if hidden {
		return ""
	}
	return policy
}

func evicts(policy string) bool { return strings.HasPrefix(policy, "allkeys-") }

// memory returns the memory and the limit of the fullest master; 0: no limit.
func (f *facts) memory() (used, limit *int64) {
	full := -1.0
	for _, n := range f.answered() {
		u, m := numberOf(n.info["used_memory"]), numberOf(n.info["maxmemory"])
		if u == nil {
			continue
		}
		share := float64(*u) / (1 << 62) // no limit: less than any share of a limit
		if m != nil && *m > 0 {
			share = float64(*u) / float64(*m)
		}
		if share > full {
			full, used, limit = share, u, m
		}
	}
	return used, limit
}

// loses returns which data are lost if a master's host dies.
func (f *facts) loses(i dispatcher.StoreInfo) string {
	switch {
	case f.able.mini:
		return dispatcher.LosesEverything
	case f.durability.Fsync && i.Durable == dispatcher.Yes:
		return dispatcher.LosesNothing
	case f.durability.Replicas > 0 && i.Durable == dispatcher.Yes:
		return dispatcher.LosesUnreplicated
	case i.AppendOnly == nil:
		return dispatcher.LosesUnknown
	case !*i.AppendOnly && slices.ContainsFunc(f.answered(), func(n node) bool { save, reported := n.config["save"]; return reported && save == "" }):
		return dispatcher.LosesEverything
	case !*i.AppendOnly:
		return dispatcher.LosesSinceSnapshot
	case i.Fsync == "always":
		return dispatcher.LosesNothing
	case i.Fsync == "everysec":
		return dispatcher.LosesLastSecond
	}
	return dispatcher.LosesUnknown // hidden, or no: the kernel decides when to write
}

package conn

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/ladder"
)

// check returns a check with its result.
func check(name string, holds dispatcher.Tristate, format string, args ...any) dispatcher.Check {
	return dispatcher.Check{Name: name, Holds: holds, Detail: fmt.Sprintf(format, args...)}
}

// needed marks a check that must hold before the store is used.
func needed(c dispatcher.Check) dispatcher.Check {
	c.Needed = true
	return c
}

func (f *facts) checkCommands() dispatcher.Check {
	const name = "commands"
	switch {
	case f.able.hidden:
		return needed(check(name, dispatcher.Unknown, "the store does not report its commands; it needs those of Redis 6.2"))
	case len(f.able.missing) > 0:
		return needed(check(name, dispatcher.No, "the store has no %s: use Redis 6.2 or later, or Valkey, with no command renamed", strings.Join(f.able.missing, ", ")))
	}
	return needed(check(name, dispatcher.Yes, "the store has all commands that are used"))
}

func (f *facts) checkScripts() dispatcher.Check {
	const name = "scripts"
	switch f.able.scripts {
	case dispatcher.Yes:
		return needed(check(name, dispatcher.Yes, "scripts run, with keys of one hash tag that they do not declare"))
	case dispatcher.No:
		return needed(check(name, dispatcher.No, "scripts that use keys of one hash tag without declaring each do not run (%s): if the store has a setting that allows undeclared keys, set it; otherwise use Redis or Valkey", f.able.fault))
	}
	if len(f.able.rights.required) > 0 {
		return needed(check(name, dispatcher.Unknown, "whether scripts run is tried when the user has all rights"))
	}
	return needed(check(name, dispatcher.Unknown, "whether scripts run could not be tried in every partition"))
}

func (f *facts) checkEviction(i dispatcher.StoreInfo) dispatcher.Check {
	const name = "eviction"
	switch {
	case i.Eviction == "" && !f.able.mini:
		return needed(check(name, dispatcher.Unknown, "the store does not report its maxmemory-policy: make sure that it is noeviction"))
	case evicts(i.Eviction):
		return needed(check(name, dispatcher.No, "maxmemory-policy is %s, so it would delete deliveries when it is full: set it to noeviction", i.Eviction))
	case i.Eviction != "" && i.Eviction != "noeviction":
		return needed(check(name, dispatcher.Yes, "maxmemory-policy is %s, which removes only keys with a time to live: of ours only the statistics over time", i.Eviction))
	}
	return needed(check(name, dispatcher.Yes, "nothing is removed when it is full"))
}

func (f *facts) checkMemory(i dispatcher.StoreInfo) dispatcher.Check {
	const name = "memory"
	switch {
	case f.able.mini:
		return check(name, dispatcher.Yes, "it is this process's memory")
	case i.UsedBytes == nil || i.MaxBytes == nil:
		return check(name, dispatcher.Unknown, "the store does not report how much memory it uses, nor its limit")
	case *i.MaxBytes == 0:
		return check(name, dispatcher.Yes, "maxmemory is not set: if the host runs out of memory, the system may kill the store; with a limit, publishing is refused with 503 and deliveries continue")
	}
	return check(name, dispatcher.Yes, "%d of %d bytes are used", *i.UsedBytes, *i.MaxBytes)
}

func (f *facts) checkAppendOnly(i dispatcher.StoreInfo) dispatcher.Check {
	const name = "append_only"
	c := check(name, dispatcher.Yes, "the store keeps an append-only file")
	for _, n := range f.answered() {
		if n.info["aof_last_write_status"] == "err" {
			return check(name, dispatcher.No, "%s can't write its append-only file: check its disk", n.name)
		}
	}
	switch {
	case f.able.mini:
		c = check(name, dispatcher.No, "the store keeps data only in memory")
	case i.AppendOnly == nil:
		c = check(name, dispatcher.Unknown, "the store does not report whether it keeps an append-only file")
	case !*i.AppendOnly:
		c = check(name, dispatcher.No, "the store keeps no append-only file: if it dies, all changes after its last snapshot are lost; set appendonly yes")
	}
	c.Needed = f.durability.Fsync
	return c
}

func (f *facts) checkDurability(i dispatcher.StoreInfo) dispatcher.Check {
	const name = "durability"
	switch {
	case f.durability.Fsync:
		return needed(f.checkFsync(name, i))
	case f.durability.Replicas > 0:
		return f.checkReplicas(name)
	}
	return check(name, dispatcher.Yes, "a publish waits for the store's memory only (DURABILITY=none)")
}

func (f *facts) checkFsync(name string, i dispatcher.StoreInfo) dispatcher.Check {
	off := i.AppendOnly != nil && !*i.AppendOnly
	switch {
	case f.able.mini:
		return check(name, dispatcher.No, "DURABILITY=fsync, but the store has no disk")
	case off:
		return check(name, dispatcher.No, "DURABILITY=fsync, but the store keeps no append-only file: set appendonly yes")
	case i.AppendOnly != nil && i.Fsync == "always":
		return check(name, dispatcher.Yes, "the store answers when the write is on its disk (appendfsync always)")
	case f.waitAOF && i.Fsync == "no":
		return check(name, dispatcher.No, "DURABILITY=fsync, but with appendfsync no the store leaves it to its system when to write: set appendfsync always, or everysec")
	case f.waitAOF && f.able.waits == dispatcher.No && i.Fsync != "":
		return check(name, dispatcher.No, "DURABILITY=fsync, but this version's WAITAOF does not wait for the disk with appendfsync %s: run CONFIG SET appendfsync always", i.Fsync)
	case f.waitAOF && f.able.waits == dispatcher.No:
		return check(name, dispatcher.Unknown, "WAITAOF answers at once and the store does not report its appendfsync: make sure that it is always")
	case f.waitAOF && i.AppendOnly == nil:
		return check(name, dispatcher.Unknown, "the store does not report whether it keeps an append-only file; each publish asks it (WAITAOF) and is 503 if it does not")
	case f.waitAOF && f.able.waits == dispatcher.Unknown:
		return check(name, dispatcher.Unknown, "whether WAITAOF waits for the disk could not be tried; each publish asks it")
	case f.waitAOF:
		return check(name, dispatcher.Yes, "a publish waits until it is on the store's disk (WAITAOF)")
	case f.able.hidden || i.AppendOnly == nil || i.Fsync == "":
		return check(name, dispatcher.Unknown, "the store does not report when it writes to its disk: make sure that it has appendonly yes and appendfsync always")
	}
	return check(name, dispatcher.No, "DURABILITY=fsync, but the store has no WAITAOF and appendfsync is %s: run CONFIG SET appendfsync always, or use Redis 7.2 or later", i.Fsync)
}

// checkReplicas counts the replicas of each master. Too few of them do not prevent a
// start, because a replica that is away for a moment would keep everything down. A
// publish returns 503 until enough replicas have it.
func (f *facts) checkReplicas(name string) dispatcher.Check {
	wanted, hidden := f.durability.Replicas, false
	for _, n := range f.answered() {
		have, reported := replicas(n.info)
		switch {
		case !reported:
			hidden = true
		case have < wanted:
			return check(name, dispatcher.No, "DURABILITY=%s, but %s has %d replicas that follow it: publishing is 503 until there are enough", f.durability, n.name, have)
		}
	}
	if hidden {
		return check(name, dispatcher.Unknown, "the store does not report how many replicas follow it; each publish asks it (WAIT) and is 503 if too few do")
	}
	return check(name, dispatcher.Yes, "a publish waits until %d replicas have it (WAIT)", wanted)
}

// replicas counts the replicas of a master from its INFO: slave0 and so on, with
// state=online.
func replicas(info map[string]string) (n int, reported bool) {
	connected, err := strconv.Atoi(info["connected_slaves"])
	if err != nil {
		return 0, false
	}
	for i := range connected {
		if strings.Contains(info[fmt.Sprintf("slave%d", i)], "state=online") {
			n++
		}
	}
	return n, true
}

func (f *facts) checkPubSub() dispatcher.Check {
	if f.polls {
		return check("pub_sub", dispatcher.Yes, "pub/sub is not used (WAKE=poll, or the store has none): instances poll every second")
	}
	return check("pub_sub", dispatcher.Yes, "instances wake each other by pub/sub")
}

func (f *facts) checkClock() dispatcher.Check {
	for _, n := range f.answered() {
		if n.ahead.Abs() > clockTolerance {
			return check("clock", dispatcher.No, "the clock of %s is %s from this host's: deliveries keep to the store's, but times in logs differ", n.name, ladder.FormatDuration(n.ahead.Round(time.Second)))
		}
	}
	return check("clock", dispatcher.Yes, "the store's clock and this host's agree")
}

// checkCluster reports faults of a cluster: partitions without a master, and masters
// without a replica.
func (f *facts) checkCluster() dispatcher.Check {
	const name = "cluster"
	for _, n := range f.nodes {
		if n.err != nil {
			return check(name, dispatcher.No, "%s does not answer: its partitions wait until it is back, or a replica takes over", n.name)
		}
	}
	if f.cluster == nil {
		return check(name, dispatcher.Unknown, "the cluster does not report its state")
	}
	if state := f.cluster["cluster_state"]; state != "ok" || f.cluster["cluster_slots_ok"] != "16384" {
		return check(name, dispatcher.No, "cluster_state is %s and %s of 16384 slots are served: partitions in the others wait", state, f.cluster["cluster_slots_ok"])
	}
	for _, n := range f.nodes {
		if have, reported := replicas(n.info); reported && have == 0 {
			return check(name, dispatcher.No, "%s has no replica: while it is down its partitions wait, and if it does not come back their data are lost", n.name)
		}
	}
	return check(name, dispatcher.Yes, "all %d masters serve their slots, and each has a replica", len(f.nodes))
}

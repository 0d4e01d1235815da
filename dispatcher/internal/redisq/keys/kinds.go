package keys

import "strings"

// Kinds are the types of the keys that are named after nothing.
var Kinds = map[string]string{
	Messages: "hash", Bodies: "hash", Staged: "zset", Held: "hash", LaneNames: "hash", Fan: "hash", Due: "zset", Marks: "hash", Progress: "hash", Done: "zset",
	Cancelled: "zset", Dead: "zset", Seen: "zset", Lanes: "zset", Parked: "zset", In: "hash",
	Lane: "hash", Limits: "hash", Known: "zset", Counts: "hash", Buried: "hash", Ends: "hash", Fenced: "zset",
	Attempts: "stream",
}

// HomeKinds are those of the project's keys.
var HomeKinds = map[string]string{Instances: "hash", About: "hash", Departed: "zset", Sealed: "hash"}

// NamedKinds are those of the keys that are named after something.
var NamedKinds = map[string]string{Ready: "list", Behind: "zset", Leases: "zset", History: "list"}

// KindOf is the type that a key of a partition must have; empty: any.
func KindOf(name string) string {
	for prefix, kind := range NamedKinds {
		if strings.HasPrefix(name, prefix) {
			return kind
		}
	}
	return Kinds[name]
}

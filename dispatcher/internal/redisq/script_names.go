package redisq

import "github.com/hookladder/hookladder/dispatcher/internal/redisq/script"

// ScriptNames are the names of the scripts that change deliveries, by their
// SHA-1. The slow log of Redis shows only that.
func ScriptNames() map[string]string {
	s := newScripts(false)
	names := map[string]string{}
	for _, sc := range []script.Script{s.schedule, s.move, s.claim, s.settle, s.reap, s.cancel, s.retry, s.lane, s.sweep, s.trim} {
		names[sc.SHA] = sc.Name
	}
	return names
}

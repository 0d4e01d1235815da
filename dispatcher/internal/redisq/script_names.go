package redisq

import "github.com/hookladder/hookladder/dispatcher/internal/redisq/script"

// ScriptNames are the words of the flow by which the scripts that change
// deliveries are called, by the SHA-1 with which Redis knows each: its slow log
// tells no more.
func ScriptNames() map[string]string {
	s := newScripts(false)
	names := map[string]string{}
	for _, sc := range []script.Script{s.schedule, s.move, s.claim, s.settle, s.reap, s.cancel, s.retry, s.lane, s.sweep, s.trim} {
		names[sc.SHA] = sc.Name
	}
	return names
}

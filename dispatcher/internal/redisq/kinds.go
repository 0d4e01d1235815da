package redisq

import (
	"context"
	"strings"

	"github.com/redis/go-redis/v9"
)

// kinds are the types of the keys that are named after nothing.
var kinds = map[string]string{
	keyMessages: "hash", keyBodies: "hash", keyStaged: "zset", keyHeld: "hash", keyLaneNames: "hash", keyFan: "hash", keyDue: "zset", keyMarks: "hash", keyProgress: "hash", keyDone: "zset",
	keyCancelled: "zset", keyDead: "zset", keySeen: "zset", keyLanes: "zset", keyParked: "zset", keyIn: "hash",
	keyLane: "hash", keyLimits: "hash", keyKnown: "zset", keyCounts: "hash", keyBuried: "hash", keyEnds: "hash", keyFenced: "zset",
	keyAttempts: "stream",
}

// kindsOfHome are those of the project's keys.
var kindsOfHome = map[string]string{keyInstances: "hash", keyAbout: "hash", keyDeparted: "zset", keySealed: "hash"}

// kindsOf are those of the keys that are named after something.
var kindsOf = map[string]string{keyReady: "list", keyBehind: "zset", keyLeases: "zset", keyHistory: "list"}

// kindOf is the type that a key of a partition must have; empty: any.
func kindOf(name string) string {
	for prefix, kind := range kindsOf {
		if strings.HasPrefix(name, prefix) {
			return kind
		}
	}
	return kinds[name]
}

// ofWrongKind are the errands that met a key of another type than ours: a hand
// wrote it. Scripts read before they change anything, so nothing was changed.
func ofWrongKind(t *trip, todo []int) (wrong []int) {
	for _, i := range todo {
		if err := t.errands[i].err; err != nil && strings.Contains(err.Error(), "WRONGTYPE") {
			wrong = append(wrong, i)
		}
	}
	return wrong
}

// mend removes the keys of another type that errands met, and makes these again:
// what such a key holds is none of ours, and with it nothing of its partition
// would go on. What it replaced, doctor brings back as far as it can be known.
func (s *Store) mend(ctx context.Context, t *trip, wrong []int) {
	removed := map[int]bool{}
	var again []int
	for _, i := range wrong {
		n := t.errands[i].partition
		if _, done := removed[n]; !done {
			removed[n] = s.removeWrong(ctx, n)
		}
		if removed[n] {
			again = append(again, i)
		}
	}
	if len(again) > 0 {
		s.carry(ctx, t, again)
	}
}

// removeWrong removes the keys of a partition, or of home, that are of another
// type, and reports whether there were any.
func (s *Store) removeWrong(ctx context.Context, partition int) bool {
	want := kindsOfHome
	if partition != home {
		want = make(map[string]string, len(kinds))
		for name, kind := range kinds {
			want[name] = kind
		}
		names, err := s.names(ctx)
		if err != nil {
			return false
		}
		for _, name := range names[1:] {
			want[keyLeases+name.(string)] = kindsOf[keyLeases]
		}
	}
	tag := s.tagOf(partition)
	types := make(map[string]*redis.StatusCmd, len(want))
	err := s.at(ctx, "read types", partition, func(p redis.Pipeliner) {
		for name := range want {
			types[name] = p.Type(ctx, tag+name)
		}
	})
	any := false
	for name, kind := range want {
		if is := valueOf(types[name]); err == nil && is != "" && is != "none" && is != kind {
			any = true
			s.log.Error("key removed: it was of another type, so it held nothing of ours; run doctor --fix",
				"key", tag+name, "type", is, "want", kind)
			if err := s.at(ctx, "remove "+tag+name, partition, func(p redis.Pipeliner) { p.Unlink(ctx, tag+name) }); err != nil {
				s.log.Error("key not removed", "key", tag+name, "err", err)
			}
		}
	}
	return any
}

package redisq

import (
	"context"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

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
	want := keys.HomeKinds
	if partition != home {
		want = make(map[string]string, len(keys.Kinds))
		for name, kind := range keys.Kinds {
			want[name] = kind
		}
		names, err := s.names(ctx)
		if err != nil {
			return false
		}
		for _, name := range names[1:] {
			want[keys.Leases+name.(string)] = keys.NamedKinds[keys.Leases]
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

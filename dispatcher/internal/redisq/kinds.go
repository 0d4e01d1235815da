package redisq

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// removeWrong removes the keys of a partition, or of conn.Home, that are of another
// type, and reports whether there were any.
func (s *Store) removeWrong(ctx context.Context, partition int) bool {
	want := keys.HomeKinds
	if partition != conn.Home {
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
	tag := s.conn.Tag(partition)
	types := make(map[string]*redis.StatusCmd, len(want))
	err := s.conn.At(ctx, "read types", partition, func(p redis.Pipeliner) {
		for name := range want {
			types[name] = p.Type(ctx, tag+name)
		}
	})
	any := false
	for name, kind := range want {
		if is := conn.Value(types[name]); err == nil && is != "" && is != "none" && is != kind {
			any = true
			s.log.Error("key removed: it was of another type, so it held nothing of ours; run doctor --fix",
				"key", tag+name, "type", is, "want", kind)
			if err := s.conn.At(ctx, "remove "+tag+name, partition, func(p redis.Pipeliner) { p.Unlink(ctx, tag+name) }); err != nil {
				s.log.Error("key not removed", "key", tag+name, "err", err)
			}
		}
	}
	return any
}

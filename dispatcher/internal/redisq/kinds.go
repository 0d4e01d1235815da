package redisq

import (
	"context"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// replaceable are the keys of home that come again by themselves.
var replaceable = []string{keys.Instances, keys.About, keys.Departed, keys.Sealed, keys.Audit}

// typesOf are the types of the keys of a partition, or of conn.Home, that removeWrong
// looks at, by their names.
func (s *Store) typesOf(ctx context.Context, partition int) (map[string]string, error) {
	want := map[string]string{}
	if partition == conn.Home {
		for _, k := range keys.HomeKinds {
			if slices.Contains(replaceable, k.Name) {
				want[k.Name] = k.Type
			}
		}
		return want, nil
	}
	names, err := s.names(ctx)
	if err != nil {
		return nil, err
	}
	for _, k := range keys.Kinds {
		switch {
		case !k.Named():
			want[k.Name] = k.Type
		case k.Name == keys.Leases:
			for _, name := range names[1:] {
				want[k.Name+name.(string)] = k.Type
			}
		}
	}
	return want, nil
}

// removeWrong removes the keys of a partition, or of conn.Home, that are of another
// type, and reports whether there were any.
func (s *Store) removeWrong(ctx context.Context, partition int) bool {
	want, err := s.typesOf(ctx, partition)
	if err != nil {
		return false
	}
	tag := s.conn.Tag(partition)
	types := make(map[string]*redis.StatusCmd, len(want))
	err = s.conn.At(ctx, "read types", partition, func(p redis.Pipeliner) {
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

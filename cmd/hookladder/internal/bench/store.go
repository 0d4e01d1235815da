package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/hookladder/hookladder/deploy/kit"
)

// mostMasters is the number of masters of the largest cluster.
const mostMasters = 3

// storeOptions describe a store. By default it is a single server that writes to disk
// every second.
type storeOptions struct {
	appendfsync string // everysec (default) or always
	masters     int    // of a cluster without replicas; 0: a single server
}

// store is a real redis-server, or a cluster of them.
type store struct {
	url   string // in the format of REDIS_URL
	nodes []*kit.Redis
	asked [mostMasters]atomic.Int64 // queries of the bench to each server, which are excluded from the counts
}

// store starts a store. It runs until its stop, or until the end of the lab.
func (l *lab) store(ctx context.Context, o storeOptions) (*store, error) {
	st := &store{}
	l.own(st.stop)
	cluster := o.masters > 0
	// No automatic rewrite of the file, because its fork would affect one
	// measurement and not another.
	settings := []string{"auto-aof-rewrite-percentage 0"}
	if o.appendfsync != "" {
		settings = append(settings, "appendfsync "+o.appendfsync)
	}
	for range max(o.masters, 1) {
		dir, err := os.MkdirTemp(l.dir, "redis")
		if err != nil {
			return nil, fmt.Errorf("start redis-server: %w", err)
		}
		r, err := kit.StartRedis(ctx, kit.RedisOptions{
			Program: l.o.RedisServer, Dir: dir, Settings: settings, Cluster: cluster,
			Start: func(c kit.Command) (*kit.Process, error) { return l.start(ctx, c) },
		})
		if errors.Is(err, kit.ErrNoServer) {
			return nil, fmt.Errorf("%w, or name it with --redis-server", err)
		}
		if err != nil {
			return nil, err
		}
		r.Process.Guard(l.fault)
		st.nodes = append(st.nodes, r)
	}
	st.url = kit.URLOf(st.nodes)
	if !cluster {
		return st, nil
	}
	if err := kit.Join(ctx, st.nodes, o.masters); err != nil {
		return nil, err
	}
	return st, kit.WaitOK(ctx, st.nodes)
}

// stop kills the servers and removes their files.
func (st *store) stop() error {
	var errs []error
	for _, n := range st.nodes {
		n.Close()
		errs = append(errs, os.RemoveAll(n.Dir))
	}
	return errors.Join(errs...)
}

// sentOnly are commands that no script can run, so a client sent each of them. The
// heartbeat every 2 s and the subscription are too few to count.
var sentOnly = []string{
	"eval", "eval_ro", "evalsha", "evalsha_ro", "fcall", "fcall_ro",
	"script", "wait", "waitaof", "multi", "exec", "subscribe", "ping",
}

// cpu returns the CPU time of its servers so far, in microseconds.
func (st *store) cpu(ctx context.Context) (micros float64, err error) {
	for i := range st.nodes {
		text, err := st.info(ctx, i, "cpu")
		if err != nil {
			return 0, err
		}
		for _, name := range []string{"used_cpu_sys", "used_cpu_user"} {
			seconds, err := field(text, name)
			if err != nil {
				return 0, err
			}
			micros += seconds * 1e6
		}
	}
	return micros, nil
}

// commands returns the number of commands that its servers have run so far. Commands
// in scripts count, but the bench's own queries do not.
func (st *store) commands(ctx context.Context) (total float64, err error) {
	for i := range st.nodes {
		before := st.asked[i].Load() // the query below is not counted yet
		count, err := st.number(ctx, i, "stats", "total_commands_processed")
		if err != nil {
			return 0, err
		}
		total += count - float64(before)
	}
	return total, nil
}

// memory returns the memory of its servers now, in bytes.
func (st *store) memory(ctx context.Context) (bytes float64, err error) {
	for i := range st.nodes {
		used, err := st.number(ctx, i, "memory", "used_memory")
		if err != nil {
			return 0, err
		}
		bytes += used
	}
	return bytes, nil
}

// calls returns the number of commands that clients have sent so far. A script counts
// as one.
func (st *store) calls(ctx context.Context) (total float64, err error) {
	for i := range st.nodes {
		text, err := st.info(ctx, i, "commandstats")
		if err != nil {
			return 0, err
		}
		total += callsIn(text)
	}
	return total, nil
}

// callsIn counts the calls in the text of INFO commandstats:
//
//	cmdstat_evalsha:calls=12,usec=3456,usec_per_call=288.00
//	cmdstat_script|load:calls=1,usec=...
func callsIn(text string) (total float64) {
	for line := range strings.Lines(text) {
		name, rest, _ := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		name, _, _ = strings.Cut(name, "|")
		count, _, _ := strings.Cut(rest, ",")
		for _, sent := range sentOnly {
			if name == sent {
				n, _ := strconv.ParseFloat(count, 64) // a text that is no number counts as 0
				total += n
			}
		}
	}
	return total
}

// number returns one field of a server's INFO as a number.
func (st *store) number(ctx context.Context, i int, section, name string) (float64, error) {
	text, err := st.info(ctx, i, section)
	if err != nil {
		return 0, err
	}
	return field(text, name)
}

// info returns a section of a server's INFO.
func (st *store) info(ctx context.Context, i int, section string) (string, error) {
	st.asked[i].Add(1)
	text, err := st.nodes[i].Client.Info(ctx, section).Result()
	if err != nil {
		return "", fmt.Errorf("ask redis-server: %w", err)
	}
	return text, nil
}

// field returns one number of an INFO text.
func field(text, name string) (float64, error) {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return 0, fmt.Errorf("redis-server does not report its %s", name)
}

// versionIn returns the server's name and version from an INFO server text.
func versionIn(text string) string {
	name, version := "Redis", ""
	for line := range strings.Lines(text) {
		field, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch field {
		case "valkey_version": // Valkey also reports the version of the Redis that it replaces
			name, version = "Valkey", value
		case "redis_version":
			if version == "" {
				version = value
			}
		}
	}
	return name + " " + version
}

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/hookladder/hookladder/deploy/kit"
)

// store is a real redis-server, or a cluster of them.
type store struct {
	url   string // in the format of REDIS_URL
	nodes []*kit.Redis
}

// store starts a store of one server, which writes its file to disk every second, or
// whenever appendfsync says so. It runs until its stop, or until the end of the lab.
func (l *lab) store(ctx context.Context, appendfsync string) (*store, error) {
	return l.servers(ctx, 1, appendfsync)
}

// cluster starts a cluster of so many masters without replicas, or a plain server for one.
func (l *lab) cluster(ctx context.Context, masters int) (*store, error) {
	st, err := l.servers(ctx, masters, "")
	if err != nil || masters == 1 {
		return st, err
	}
	if err := kit.Join(ctx, st.nodes, masters); err != nil {
		return nil, err
	}
	return st, kit.WaitOK(ctx, st.nodes)
}

// servers starts the servers of a store. More than one are nodes of a cluster that is
// not made yet.
func (l *lab) servers(ctx context.Context, n int, appendfsync string) (*store, error) {
	st := &store{}
	l.own(st.stop)
	for range n {
		r, err := l.server(ctx, appendfsync, n > 1)
		if err != nil {
			return nil, err
		}
		st.nodes = append(st.nodes, r)
	}
	st.url = kit.URLOf(st.nodes)
	return st, nil
}

func (l *lab) server(ctx context.Context, appendfsync string, cluster bool) (*kit.Redis, error) {
	dir, err := os.MkdirTemp(l.dir, "redis")
	if err != nil {
		return nil, fmt.Errorf("start redis-server: %w", err)
	}
	// No automatic rewrite of the file, because its fork would affect one
	// measurement and not another.
	settings := []string{"auto-aof-rewrite-percentage 0"}
	if appendfsync != "" {
		settings = append(settings, "appendfsync "+appendfsync)
	}
	r, err := kit.StartRedis(ctx, kit.RedisOptions{
		Program: l.o.RedisServer, Dir: dir, Settings: settings, Cluster: cluster,
		Start: func(c kit.Command) (*kit.Process, error) { return l.start(ctx, c) },
	})
	if errors.Is(err, kit.ErrNoServer) {
		return nil, fmt.Errorf("%w, or name it with -redis-server", err)
	}
	if err != nil {
		return nil, err
	}
	r.Process.Guard(l.fault)
	return r, nil
}

// stop kills the servers and removes their files.
func (st *store) stop() error {
	var errs []error
	for _, r := range st.nodes {
		r.Close()
		errs = append(errs, os.RemoveAll(r.Dir))
	}
	return errors.Join(errs...)
}

// sentOnly are commands that no script can run, so a client sent each of them. The
// heartbeat every 2 s and the subscription are too few to count.
var sentOnly = []string{
	"eval", "eval_ro", "evalsha", "evalsha_ro", "fcall", "fcall_ro",
	"script", "wait", "waitaof", "multi", "exec", "subscribe", "ping",
}

// cpu returns the CPU time of all servers so far, in microseconds.
func (st *store) cpu(ctx context.Context) (micros float64, err error) {
	return st.sum(ctx, "cpu", func(text string) (micros float64, err error) {
		for _, name := range []string{"used_cpu_sys", "used_cpu_user"} {
			seconds, err := field(text, name)
			if err != nil {
				return 0, err
			}
			micros += seconds * 1e6
		}
		return micros, nil
	})
}

// memory returns the memory of all servers now, in bytes.
func (st *store) memory(ctx context.Context) (bytes float64, err error) {
	return st.sum(ctx, "memory", func(text string) (float64, error) { return field(text, "used_memory") })
}

// calls returns the number of commands that clients have sent so far. A script counts
// as one.
func (st *store) calls(ctx context.Context) (total float64, err error) {
	return st.sum(ctx, "commandstats", func(text string) (float64, error) { return callsIn(text), nil })
}

// sum adds a value of a section of INFO over all servers.
func (st *store) sum(ctx context.Context, section string, value func(text string) (float64, error)) (total float64, err error) {
	for _, r := range st.nodes {
		text, err := r.Client.Info(ctx, section).Result()
		if err != nil {
			return 0, fmt.Errorf("ask redis-server: %w", err)
		}
		n, err := value(text)
		if err != nil {
			return 0, err
		}
		total += n
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

// field returns one number of an INFO text.
func field(text, name string) (float64, error) {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return 0, fmt.Errorf("redis-server does not report its %s", name)
}

// serverIn returns the server's name and version from an INFO server text.
func serverIn(text string) string {
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

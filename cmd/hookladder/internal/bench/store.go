package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"
)

// masters of a cluster: the fewest that one may have.
const masters = 3

// slots is how many a cluster has.
const slots = 16384

// storeOptions say what store is wanted. The zero value is a single server that
// writes to disk each second.
type storeOptions struct {
	appendfsync string // everysec (default) or always
	cluster     bool   // three masters without replicas
}

// store is a real redis-server, or a cluster of them.
type store struct {
	url    string // as REDIS_URL has it
	client redis.UniversalClient
	nodes  []*redis.Client // to each server

	processes []*process
	dirs      []string
	asked     [masters]atomic.Int64 // what was sent here to ask each server, which is no one's work
}

// store starts one. It lasts until its stop, or the lab's.
func (l *lab) store(ctx context.Context, o storeOptions) (*store, error) {
	st := &store{}
	l.own(st.stop)
	servers := 1
	if o.cluster {
		servers = masters
	}
	for range servers {
		if err := l.server(ctx, st, o); err != nil {
			return nil, err
		}
	}
	addr := st.nodes[0].Options().Addr
	st.url = "redis://" + addr
	if !o.cluster {
		st.client = st.nodes[0]
		return st, nil
	}
	if err := st.join(ctx); err != nil {
		return nil, err
	}
	var all []string
	for i, n := range st.nodes {
		all = append(all, n.Options().Addr)
		if i > 0 {
			st.url += string("?&"[min(i-1, 1)]) + "addr=" + n.Options().Addr
		}
	}
	st.client = redis.NewClusterClient(&redis.ClusterOptions{Addrs: all})
	return st, nil
}

// server starts one redis-server of a store.
func (l *lab) server(ctx context.Context, st *store, o storeOptions) error {
	program, err := exec.LookPath(l.o.RedisServer)
	if err != nil {
		return fmt.Errorf("there is no %s: install it (apt-get install redis-server, brew install redis), or name it with --redis-server: %w", l.o.RedisServer, err)
	}
	dir, err := os.MkdirTemp(l.dir, "redis")
	if err != nil {
		return fmt.Errorf("start redis-server: %w", err)
	}
	st.dirs = append(st.dirs, dir)
	// Between asking for a free port and the server's own bind another process
	// may take it, so some tries are made.
	for range 5 {
		var p *process
		var client *redis.Client
		if p, client, err = l.runServer(ctx, program, dir, o); err == nil {
			p.guard(l.fault)
			st.processes, st.nodes = append(st.processes, p), append(st.nodes, client)
			return nil
		}
		if ctx.Err() != nil {
			break
		}
	}
	return err
}

// runServer starts a server and waits until it answers.
func (l *lab) runServer(ctx context.Context, program, dir string, o storeOptions) (*process, *redis.Client, error) {
	ports, err := freePorts(2)
	if err != nil {
		return nil, nil, fmt.Errorf("start redis-server: %w", err)
	}
	fsync := o.appendfsync
	if fsync == "" {
		fsync = "everysec"
	}
	args := []string{
		"--port", strconv.Itoa(ports[0]), "--bind", "127.0.0.1", "--dir", dir, "--daemonize", "no",
		"--save", "", "--appendonly", "yes", "--appendfsync", fsync, "--maxmemory-policy", "noeviction",
		// A rewrite of the file forks in the midst of one measurement and not of another.
		"--auto-aof-rewrite-percentage", "0",
	}
	if o.cluster {
		args = append(args, "--cluster-enabled", "yes", "--cluster-config-file", filepath.Join(dir, "nodes.conf"),
			"--cluster-port", strconv.Itoa(ports[1]))
	}
	p, err := l.spawn(ctx, "redis-server", program, args, nil)
	if err != nil {
		return nil, nil, err
	}
	client := redis.NewClient(&redis.Options{
		Addr: "127.0.0.1:" + strconv.Itoa(ports[0]), MaxRetries: -1, DisableIdentity: true, ContextTimeoutEnabled: true,
	})
	if err := awaitServer(ctx, p, client); err != nil {
		p.kill()
		_ = client.Close()
		return nil, nil, err
	}
	return p, client, nil
}

// awaitServer returns when it is that process which answers.
func awaitServer(ctx context.Context, p *process, client *redis.Client) error {
	return until(ctx, "redis-server answers", func() error {
		select {
		case <-p.ended:
			return final{p.death()}
		default:
		}
		text, err := client.Info(ctx, "server").Result()
		if err != nil {
			return err
		}
		pid, err := field(text, "process_id")
		if err != nil {
			return err
		}
		if int(pid) != p.cmd.Process.Pid {
			return final{fmt.Errorf("another server has %s", client.Options().Addr)}
		}
		return nil
	})
}

// freePorts are ports that nothing listens on.
func freePorts(n int) (ports []int, err error) {
	for range n {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer ln.Close() //nolint:errcheck // it was only held
		ports = append(ports, ln.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// join makes a cluster of the servers, with all slots spread evenly.
func (st *store) join(ctx context.Context) error {
	for i, n := range st.nodes {
		// Epochs of their own, given before they meet, spare the nodes the agreement on who goes first.
		err := n.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err()
		if err == nil {
			err = n.ClusterAddSlotsRange(ctx, i*slots/masters, (i+1)*slots/masters-1).Err()
		}
		if err == nil && i > 0 {
			err = st.meet(ctx, n)
		}
		if err != nil {
			return fmt.Errorf("make a cluster: %w", err)
		}
	}
	var g errgroup.Group
	for _, n := range st.nodes {
		g.Go(func() error {
			return until(ctx, "the cluster is whole", func() error {
				info, err := n.ClusterInfo(ctx).Result()
				if err == nil && !(strings.Contains(info, "cluster_state:ok") && strings.Contains(info, fmt.Sprint("cluster_known_nodes:", masters))) {
					err = errors.New("its nodes do not agree")
				}
				return err
			})
		})
	}
	return g.Wait()
}

// meet makes the first node and n know each other.
func (st *store) meet(ctx context.Context, n *redis.Client) error {
	bus, err := n.ConfigGet(ctx, "cluster-port").Result()
	if err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(n.Options().Addr)
	if err != nil {
		return err
	}
	return st.nodes[0].Do(ctx, "CLUSTER", "MEET", host, port, bus["cluster-port"]).Err()
}

// stop ends the servers and removes their files, which nobody needs.
func (st *store) stop() error {
	if st.client != nil {
		_ = st.client.Close()
	}
	for i, p := range st.processes {
		p.kill()
		_ = st.nodes[i].Close()
	}
	var errs []error
	for _, dir := range st.dirs {
		errs = append(errs, os.RemoveAll(dir))
	}
	return errors.Join(errs...)
}

// until tries until ok has no error, and gives up when that is final or it took
// too long.
func until(ctx context.Context, what string, ok func() error) error {
	ctx, cancel := context.WithTimeout(ctx, startMost)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ok()
		var last final
		if err == nil || errors.As(err, &last) {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("wait until %s: %w: %w", what, context.Cause(ctx), err)
		}
	}
}

// final is an error that another try won't cure.
type final struct{ error }

func (f final) Unwrap() error { return f.error }

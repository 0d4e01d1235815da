package kit

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

	"github.com/redis/go-redis/v9"
)

// RedisOptions describe a redis-server to start.
type RedisOptions struct {
	Program  string                          // name or path; default: redis-server
	Dir      string                          // for its files
	Settings []string                        // lines of redis.conf; they override the defaults
	Bare     bool                            // without the defaults
	Args     []string                        // after the file's name
	Env      []string                        // all of its environment
	Cluster  bool                            // a node of a cluster
	TLS      *RedisTLS                       // also accept TLS, on a port of its own; nil: no TLS
	Start    func(Command) (*Process, error) // default: the function Start
}

// RedisTLS has the files of a server with TLS. Its own connections to other servers use
// TLS, too.
type RedisTLS struct{ Cert, Key, CA string }

// usual are the default settings. The server appends every change to a file, evicts
// no key and writes no snapshots. Without the last setting each replica waits 5 s for
// other replicas that may connect.
var usual = []string{
	`save ""`, "appendonly yes", "appendfsync everysec", "maxmemory-policy noeviction", "repl-diskless-sync-delay 0",
}

// Redis is a redis-server process on a free loopback port.
type Redis struct {
	RedisOptions
	Port    int
	Bus     int           // the port of the cluster bus; 0: not a node of a cluster
	TLSPort int           // the port with TLS; 0: no TLS
	Client  *redis.Client // makes no retries
	Process *Process      // nil before the first start
}

// StartRedis starts a server and waits until it is ready.
func StartRedis(ctx context.Context, o RedisOptions) (r *Redis, err error) {
	if o.Program == "" {
		o.Program = "redis-server"
	}
	if o.Start == nil {
		o.Start = Start
	}
	path, err := exec.LookPath(o.Program)
	if err != nil {
		return nil, fmt.Errorf("there is no %s: %w", o.Program, ErrNoServer)
	}
	o.Program = path
	// Another process may take the free port before the server does, so a few
	// retries follow.
	for range 5 {
		r = &Redis{RedisOptions: o}
		if err = r.begin(ctx); err == nil {
			return r, nil
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, err
}

// begin chooses ports and starts the process.
func (r *Redis) begin(ctx context.Context) (err error) {
	if r.Port, err = FreePort(); err != nil {
		return err
	}
	if r.Cluster {
		if r.Bus, err = FreePort(); err != nil {
			return err
		}
	}
	if r.TLS != nil {
		if r.TLSPort, err = FreePort(); err != nil {
			return err
		}
	}
	if err := os.WriteFile(r.file(), []byte(strings.Join(r.config(), "\n")+"\n"), 0o600); err != nil {
		return fmt.Errorf("start redis-server: %w", err)
	}
	r.Client = redis.NewClient(&redis.Options{
		Addr: r.Addr(), MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true, DisableIdentity: true,
		ReadTimeout: Patience, DialTimeout: Patience, // the timeout of the context is shorter
		// After as many failed dials in a row the client stops to dial for a
		// second. It would then not notice a restart of the server in time.
		PoolSize: 4096,
	})
	if err := r.Run(ctx); err != nil {
		_ = r.Client.Close()
		return err
	}
	return nil
}

func (r *Redis) file() string { return filepath.Join(r.Dir, "redis.conf") }

func (r *Redis) config() []string {
	lines := []string{"port " + strconv.Itoa(r.Port), "bind 127.0.0.1", "dir " + r.Dir, "daemonize no"}
	if r.Cluster {
		lines = append(lines, "cluster-enabled yes", "cluster-config-file nodes.conf", "cluster-port "+strconv.Itoa(r.Bus))
	}
	if r.TLS != nil {
		lines = append(lines, "tls-port "+strconv.Itoa(r.TLSPort), "tls-cert-file "+r.TLS.Cert, "tls-key-file "+r.TLS.Key,
			"tls-ca-cert-file "+r.TLS.CA, "tls-replication yes", "tls-auth-clients no")
	}
	if !r.Bare {
		lines = append(lines, usual...)
	}
	return append(lines, r.Settings...)
}

// Run starts the process on its old port and files, and waits until it is ready.
func (r *Redis) Run(ctx context.Context) (err error) {
	if err := r.removeTail(ctx); err != nil {
		return err
	}
	r.Process, err = r.Start(Command{Name: "redis-server", Path: r.Program, Args: append([]string{r.file()}, r.Args...), Env: r.Env})
	if err != nil {
		return err
	}
	if err := Until(ctx, "redis-server answers", func() error { return r.answers(ctx) }); err != nil {
		r.Process.Kill()
		return err
	}
	return nil
}

// removeTail removes an incomplete change at the end of the append-only file. Redis removes
// only its last command, and makes the commands before it at a later start
// (deploy/docs/operate.md, What a 202 promises).
func (r *Redis) removeTail(ctx context.Context) error {
	manifest := filepath.Join(r.Dir, "appendonlydir", "appendonly.aof.manifest")
	if _, err := os.Stat(manifest); err != nil {
		return nil // it has no file yet
	}
	check := exec.CommandContext(ctx, r.Program, "--fix", manifest)
	check.Args[0] = "redis-check-aof" // by this name the server's program checks a file
	check.Stdin = strings.NewReader("y\n")
	if out, err := check.CombinedOutput(); err != nil {
		return fmt.Errorf("redis-check-aof --fix: %w: %s", err, out)
	}
	return nil
}

// answers returns nil if this process is ready and has loaded its file. It checks the
// process, because another server may have taken the port at the same time.
func (r *Redis) answers(ctx context.Context) error {
	if r.Process.Gone() {
		return Final{r.Process.Death()}
	}
	conn, err := net.DialTimeout("tcp", r.Addr(), Patience) // the client would log each dial that fails
	if err != nil {
		return err
	}
	_ = conn.Close()
	if err := r.Client.Ping(ctx).Err(); err != nil {
		return err
	}
	pid, err := r.Info(ctx, "server", "process_id")
	if err == nil && pid != strconv.Itoa(r.Process.Pid()) {
		err = Final{fmt.Errorf("another server has %s", r.Addr())}
	}
	return err
}

// URL returns its address in the format of REDIS_URL.
func (r *Redis) URL() string { return "redis://" + r.Addr() + "/0" }

// LinkPort returns the port that replicas and sentinels connect to.
func (r *Redis) LinkPort() int {
	if r.TLS != nil {
		return r.TLSPort
	}
	return r.Port
}

// Addr returns its address as host:port.
func (r *Redis) Addr() string { return Loopback(r.Port) }

// Close kills the server for good.
func (r *Redis) Close() {
	r.Process.Kill()
	_ = r.Client.Close()
}

// Info returns one field of INFO, or an empty text if the field is missing.
func (r *Redis) Info(ctx context.Context, section, field string) (string, error) {
	text, err := r.Client.Info(ctx, section).Result()
	if err != nil {
		return "", fmt.Errorf("INFO at %s: %w", r.Addr(), err)
	}
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.TrimSpace(value), nil
		}
	}
	return "", nil
}

// URLOf returns one URL for several servers in the format of REDIS_URL. The first
// server is the host, and the others are in addr.
func URLOf(servers []*Redis) string {
	url := servers[0].URL()
	for i, s := range servers[1:] {
		separator := "&"
		if i == 0 {
			separator = "?"
		}
		url += separator + "addr=" + s.Addr()
	}
	return url
}

// Slots is the number of slots of a cluster.
const Slots = 16384

// Join makes a cluster of servers. It spreads all slots evenly over the first ones,
// its masters. It returns when all nodes know each other.
func Join(ctx context.Context, servers []*Redis, masters int) error {
	for i, s := range servers {
		// Each node gets an epoch of its own before they meet. The nodes then
		// need no agreement about their order.
		errs := []error{s.Client.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err()}
		if i < masters {
			errs = append(errs, s.Client.ClusterAddSlotsRange(ctx, i*Slots/masters, (i+1)*Slots/masters-1).Err())
		}
		if i > 0 {
			errs = append(errs, servers[0].Client.Do(ctx, "CLUSTER", "MEET", "127.0.0.1", s.Port, s.Bus).Err())
		}
		if err := errors.Join(errs...); err != nil {
			return fmt.Errorf("make a cluster: %w", err)
		}
	}
	return Until(ctx, "all nodes know each other", func() error {
		for _, s := range servers {
			// The list also has nodes that have only begun the handshake.
			text, err := s.Client.ClusterNodes(ctx).Result()
			if err != nil {
				return err
			}
			if known := strings.Count(text, "\n") - strings.Count(text, "handshake"); known != len(servers) {
				return fmt.Errorf("%s knows %d nodes", s.Addr(), known)
			}
		}
		return nil
	})
}

// WaitOK polls until each of the servers reports that its cluster is in order.
func WaitOK(ctx context.Context, servers []*Redis) error {
	return Until(ctx, "the cluster is in order", func() error {
		for _, s := range servers {
			text, err := s.Client.ClusterInfo(ctx).Result()
			if err != nil || !strings.Contains(text, "cluster_state:ok") {
				return fmt.Errorf("%s: %.40s %w", s.Addr(), text, errors.Join(err))
			}
		}
		return nil
	})
}

// ErrNoServer reports that a program is not installed.
var ErrNoServer = errors.New("install it (apt-get install redis-server, brew install redis)")

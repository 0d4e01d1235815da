// Package app joins the parts of Hookladder into a process: a store in Redis,
// the engine, the client that calls receivers, and the HTTP API.
package app

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/callers"
	"github.com/hookladder/hookladder/dispatcher/internal/console"
	"github.com/hookladder/hookladder/dispatcher/internal/egress"
	"github.com/hookladder/hookladder/dispatcher/internal/engine"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/apikey"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/seal"
)

// Keys are the keys with which the API may be called.
type Keys = apikey.Keys

// ParseKeys reads keys as API_KEYS has them: key:scope+scope[:name], with
// commas between.
func ParseKeys(text string) (Keys, error) { return apikey.Parse(text) }

// Seal hides the endpoints' secrets and header values in the store.
type Seal = seal.Box

// EngineOptions say how deliveries are made.
type EngineOptions = engine.Options

// ParseEncryptionKeys reads keys as ENCRYPTION_KEY has them: the base64 of 32
// bytes each, with white space between two. The first seals, all of them open.
func ParseEncryptionKeys(text string) (*Seal, error) { return seal.ParseKeys(text) }

// ParseProxy reads the URL of a proxy as EGRESS_PROXY has it. Its errors do not
// repeat the text, which may hold a password.
func ParseProxy(text string) (*url.URL, error) { return egress.ParseProxy(text) }

// LoadRoots reads what Options.CAFile names, to find out whether it can be used.
func LoadRoots(file string) (*x509.CertPool, error) { return egress.LoadRoots(file) }

// LoadCertificate reads what Options.CertFile and KeyFile name.
func LoadCertificate(certFile, keyFile string) ([]tls.Certificate, error) {
	return egress.LoadCertificate(certFile, keyFile)
}

// ConsoleOptions are what people who look in with a browser are shown.
type ConsoleOptions struct {
	Off       bool     // there are no pages, and no links to them
	PublicURL *url.URL // how people reach the API from outside; nil: it is not known
	// AsListening takes the address of the API's listener for a PublicURL that is not known.
	AsListening bool
	Name        string // on the pages of links, in place of our own; empty: none
	Logo        string // https:// or data:image/png; empty: none
	Color       string // #rrggbb; empty: our own

	Settings []Setting // of this process, for the page that lists them
}

// Setting is a setting as people may see it, without its secret parts.
type Setting = console.Setting

// Options are the settings of a process. Run refuses those that make no sense.
type Options struct {
	Listen string // host:port of the API; empty: none, it only dispatches
	Keys   Keys   // none: the API answers only this host, and only on a loopback address

	MaxConnections int            // most connections of the API; 0: as the file descriptors allow
	Proxies        []netip.Prefix // networks of proxies whose X-Forwarded-For names the address of a caller
	MemoryLimit    int64          // bytes that the process tries to stay within; 0: none

	MetricsListen string // host:port of a server for /metrics, /healthz and /readyz, which need no key; empty: none

	RedisURL    string                // needed, unless InMemory or DataDir is set
	RedisMode   string                // auto, single, cluster or sentinel; empty: auto
	RedisMaster string                // name of the master that sentinels watch
	RedisCAFile string                // certificates trusted for rediss:// besides the system's; empty: none
	DataDir     string                // of a redis-server that Run starts for itself; empty: none
	InMemory    bool                  // a Redis inside the process, which forgets everything when Run returns
	Durability  dispatcher.Durability // when a publish counts as stored
	Poll        bool                  // neither pub/sub nor blocking commands are used
	StoreWait   time.Duration         // for how long Run waits for a store that does not answer yet

	Project         string // prefix of all keys
	Partitions      int    // 0: as the store has them
	LaneMaxInFlight int    // most deliveries of one destination in flight
	MaxWaiting      int    // most deliveries that may wait for one destination; 0: no limit
	Seal            *Seal  // nil: secrets and header values are stored in plain text

	BreakerFailures int           // failures in a row that open the breaker of a destination; 0: none do
	BreakerWait     time.Duration // how long it is open at first

	OpsURL string // where notices for the operator go; empty: nowhere

	Console ConsoleOptions

	Archive   ArchiveOptions
	OutboxURL string // of a PostgreSQL with an outbox, from which Run relays; empty: there is none

	QuickRetries int            // repeats within an attempt, of connection faults before any answer
	AllowNets    []netip.Prefix // networks that may be called besides the public ones
	LinkNets     []netip.Prefix // these networks, if a link set the URL
	HTTPSOnly    bool
	Proxy        *url.URL // of ParseProxy: all calls go through it; nil: none does
	CAFile       string   // certificates trusted besides the system's; empty: none
	CertFile     string   // the client certificate for receivers; empty: none
	KeyFile      string   // its key
	MaxBody      int      // bytes of a message's body

	Engine  EngineOptions // but for Instance, Endpoints and Log, which Run sets
	Version string
	Log     *slog.Logger

	Delay     time.Duration   // how long Run announces its stop before it begins to stop
	SkipDelay <-chan struct{} // closed: the delay is over; nil: it never is before its time

	Renew <-chan Renewal // replaces keys and secrets; nil: none comes

	Ready func(addr string) // called when requests are served, with the API's address; nil: it is not

	stopping *atomic.Bool // of Run; true: it is not ready any more, and its responses close their connections
	waiting  int          // of Run; connections of the API that may wait for events

	once func(context.Context, *process) // runs in place of serving; the process ends after it; nil: it serves
}

// Run runs a process until ctx ends. Then it announces its stop for as long as Delay says,
// and stops in the order that flow describes. At last it closes the store, and its server if that is our own.
func Run(ctx context.Context, o Options) (err error) {
	if err := o.Check(); err != nil {
		return err
	}
	o.stopping = new(atomic.Bool)
	share, err := o.budget(fileLimit())
	if err != nil {
		return err
	}
	ln, metricsLn, err := listenBoth(ctx, &o)
	if err != nil {
		return err
	}
	defer closeListeners(ln, metricsLn) // they are closed already where they were served
	store, closeStore, err := openStore(ctx, o)
	if err != nil && ctx.Err() != nil {
		o.Log.Info("stopped before it began", "err", err)
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeStore()) }()
	info, err := inspected(ctx, store, o)
	if err != nil {
		return err
	}
	p, err := newProcess(store, share, o)
	if err != nil {
		return err
	}
	defer p.close()
	p.info = info
	if err := p.engine.ReadClock(ctx); err != nil {
		return err
	}
	p.figures.Watch(p.engine)
	o.waiting = share.accepted / 2
	api, err := newAPI(p, o)
	if err != nil {
		return err
	}
	visitors := callers.New(share.accepted, o.Proxies, o.Log)
	p.figures.WatchConnections(visitors)
	f := flow{
		process: p, o: o, api: api, ln: guarded(ln, visitors),
		figures: newMetricsServer(p, o), figuresLn: guarded(metricsLn, callers.New(figuresConnections, nil, o.Log)),
		renew: renewer{keyring: p.keyring, engine: p.engine, store: store, log: o.Log},
	}
	return f.run(ctx)
}

// inspected describes a store that this process can work with.
func inspected(ctx context.Context, store *redisq.Store, o Options) (info dispatcher.StoreInfo, err error) {
	if err := checkSealed(ctx, store, o); err != nil {
		return info, err
	}
	if info, err = store.Store(ctx); err != nil {
		return info, fmt.Errorf("open store: %w", err)
	}
	return info, nil
}

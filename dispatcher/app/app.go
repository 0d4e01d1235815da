// Package app builds a process from the parts of Hookladder: a store in Redis, the engine, the
// client that calls receivers, and the HTTP API.
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

	"go.opentelemetry.io/otel/trace"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/callers"
	"github.com/hookladder/hookladder/dispatcher/internal/console"
	"github.com/hookladder/hookladder/dispatcher/internal/egress"
	"github.com/hookladder/hookladder/dispatcher/internal/engine"
	"github.com/hookladder/hookladder/dispatcher/internal/input"
	"github.com/hookladder/hookladder/dispatcher/internal/observe"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/seal"
)

// Keys are the keys of the API.
type Keys = callers.APIKeys

// ParseKeys parses keys in the format of API_KEYS: key:scope+scope[:name], separated by
// commas.
func ParseKeys(text string) (Keys, error) { return callers.ParseAPIKeys(text) }

// Seal encrypts the endpoints' secrets and header values in the store.
type Seal = seal.Box

// Log is a queue of log lines, so that nothing waits for the reader of the log.
type Log = observe.Log

// NewLog returns a Log in front of a handler.
func NewLog(to slog.Handler) *Log { return observe.NewLog(to) }

// EngineOptions configure the engine.
type EngineOptions = engine.Options

// ParseEncryptionKeys parses keys in the format of ENCRYPTION_KEY: the base64 of 32 bytes
// each, separated by white space. The first key encrypts, and all keys decrypt.
func ParseEncryptionKeys(text string) (*Seal, error) { return seal.ParseKeys(text) }

// ParseProxy parses the URL of a proxy in the format of EGRESS_PROXY. Its errors do not
// include the text, because it may have a password.
func ParseProxy(text string) (*url.URL, error) { return egress.ParseProxy(text) }

// LoadRoots loads the file of Options.CAFile or RedisCAFile, to check it.
func LoadRoots(file string) (*x509.CertPool, error) { return input.LoadRoots(file) }

// LoadCertificate loads the files of Options.CertFile and KeyFile, or of another client.
func LoadCertificate(certFile, keyFile string) ([]tls.Certificate, error) {
	return input.LoadCertificate(certFile, keyFile)
}

// ConsoleOptions configure the pages for people.
type ConsoleOptions struct {
	Off       bool     // there are no pages, and no links to them
	PublicURL *url.URL // the API's URL for people outside; nil: unknown
	// AsListening uses the address of the API's listener if PublicURL is unknown.
	AsListening bool
	Name        string // on the pages of links, instead of our own; empty: none
	Logo        string // https:// or data:image/png; empty: none
	Color       string // #rrggbb; empty: our default

	Settings []Setting // of this process, for the page of settings
}

// Net is a network that may be called, or one port of it.
type Net = egress.Net

// Setting is a setting for people to see, without its secret parts.
type Setting = console.Setting

// Options are the settings of a process. Run returns an error for invalid ones.
type Options struct {
	Listen string // host:port of the API; empty: there is no API, and the process only delivers
	Keys   Keys   // none: the API accepts only requests of this host, on a loopback address

	MaxConnections int            // maximum number of connections of the API; 0: as the file descriptors allow
	Proxies        []netip.Prefix // networks of proxies whose X-Forwarded-For names the address of a caller
	MemoryLimit    int64          // soft limit for the memory of the process, in bytes; 0: none

	MetricsListen string // host:port of a server for /metrics, /healthz and /readyz, which need no key; empty: none

	RedisURL    string                // required, unless InMemory or DataDir is set
	RedisMode   string                // auto, single, cluster or sentinel; empty: auto
	RedisMaster string                // name of the master that sentinels watch
	RedisCAFile string                // certificates trusted for rediss:// in addition to the system's; empty: none
	DataDir     string                // of a redis-server that Run starts; empty: none
	InMemory    bool                  // a Redis inside the process, which loses everything when Run returns
	Durability  dispatcher.Durability // the condition on which a publish is stored
	Poll        bool                  // neither pub/sub nor blocking commands are used
	StoreWait   time.Duration         // timeout for a store that does not respond at the start

	Project         string // prefix of all keys
	Partitions      int    // 0: the store's number
	LaneMaxInFlight int    // maximum number of deliveries of one destination in flight
	MaxWaiting      int    // maximum number of waiting deliveries for one destination; 0: no limit
	Seal            *Seal  // nil: secrets and header values are stored in plain text

	BreakerFailures int           // number of failures in a row that opens the breaker of a destination; 0: no breaker
	BreakerWait     time.Duration // how long the breaker is open at first

	OpsURL string // URL of notices for the operator; empty: none

	Console ConsoleOptions

	Archive   ArchiveOptions
	OutboxURL string // of a PostgreSQL with an outbox, from which Run relays; empty: none

	QuickRetries int   // retries within an attempt, after connection faults before any response
	AllowNets    []Net // networks that may be called in addition to the public ones, but never Listen and MetricsListen
	LinkNets     []Net // networks that may be called if a link set the URL
	HTTPSOnly    bool
	Proxy        *url.URL // from ParseProxy: all calls use it; nil: none
	CAFile       string   // certificates trusted in addition to the system's; empty: none
	CertFile     string   // the client certificate for receivers; empty: none
	KeyFile      string   // its key
	MaxBody      int      // bytes of a message's body

	Traces        trace.TracerProvider // gets the spans of the process; its caller flushes it after Run; nil: nothing is traced
	TracesDropped func() int64         // number of spans that Traces has lost; nil: there is no metric of them

	Engine  EngineOptions // without Instance, Endpoints and Log: Run sets them
	Version string
	Log     *slog.Logger

	LogDropped func() int64 // number of lines that Log has lost; nil: there is no metric of them
	Parts      *Parts       // gets the names of the running parts; nil: nobody asks

	Delay     time.Duration   // how long Run waits between the announcement of its stop and the stop
	SkipDelay <-chan struct{} // closed: the delay is over; nil: it is never shortened

	Renew <-chan Renewal // replaces keys and secrets; nil: nothing does

	// Ready is called with the API's address as soon as requests are served; nil: not called.
	// alive returns an error if the process is stuck.
	Ready func(addr string, alive func() error)

	own      *egress.Listeners  // of Run; its listeners
	passed   *dispatcher.Passed // of Run; URLs that may be called, as long as the listeners are the same
	stopping *atomic.Bool       // of Run; true: it is not ready any more, and its responses close their connections
	waiting  int                // of Run; limit of the API's connections that wait for events

	once func(context.Context, *process) // runs instead of the server, and then the process ends; nil: it serves
}

// Run runs a process until ctx ends. Then it announces its stop, waits for Delay, and stops in
// the order of flow. Finally it closes the store, and its server if Run started it.
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
	o.own, o.passed = listening(ln, metricsLn), new(dispatcher.Passed)
	visitors := callers.New(share.accepted, o.Proxies, o.Log)
	apiPort, figuresPort := openPort(ln, visitors, o), openPort(metricsLn, callers.New(figuresConnections, nil, o.Log), o)
	defer apiPort.close()
	defer figuresPort.close()
	store, closeStore, err := openStore(ctx, o)
	if err != nil && ctx.Err() != nil {
		o.Log.Info("stopped before it began", "err", err)
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.Parts.run("store", closeStore)) }()
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
	p.figures.WatchConnections(visitors)
	f := flow{
		process: p, o: o, api: api, apiPort: apiPort, figures: newMetrics(p, o), figuresPort: figuresPort,
		renew: renewer{keyring: p.keyring, engine: p.engine, store: store, reloads: p.figures.WatchReloads(), log: o.Log},
	}
	return f.run(ctx)
}

// inspected returns the state of the store. It returns an error if this process can't use the
// store.
func inspected(ctx context.Context, store *redisq.Store, o Options) (info dispatcher.StoreInfo, err error) {
	if err := checkSealed(ctx, store, o); err != nil {
		return info, err
	}
	if info, err = store.Store(ctx); err != nil {
		return info, fmt.Errorf("open store: %w", err)
	}
	return info, nil
}

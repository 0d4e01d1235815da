// Package app joins the parts of Hookladder into a process: a store in Redis,
// the engine, the client that calls receivers, and the HTTP API.
package app

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"time"

	"github.com/oklog/ulid/v2"
	"golang.org/x/sync/errgroup"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/egress"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
)

// Keys are those who may call the API.
type Keys = httpapi.Keys

// ParseKeys reads keys as API_KEYS has them: key:scope+scope[:name], with
// commas between.
func ParseKeys(text string) (Keys, error) { return httpapi.ParseKeys(text) }

// Options say what a process does. Run refuses those that make no sense.
type Options struct {
	Listen string // host:port of the API; empty: none, it only dispatches
	Keys   Keys   // none: the API answers only this host, and only on a loopback address

	RedisURL   string // needed, but InMemory
	InMemory   bool   // a Redis inside the process, which forgets everything when Run returns
	Project    string // prefix of all keys
	Partitions int    // 0: what the store says
	LaneMax    int    // most deliveries of one destination in flight

	QuickRetries int            // repeats within an attempt, of connection faults before any answer
	AllowNets    []netip.Prefix // networks that may be called besides the public ones
	HTTPSOnly    bool
	MaxBody      int // bytes of a message's body

	Engine  dispatcher.Options // but for Instance, UserAgent and Log, which Run sets
	Version string
	Log     *slog.Logger

	Ready func(addr string) // called when requests are served, with the API's address; nil: nobody asks
}

// Run runs a process until ctx ends and what is under way came to its end:
// first open requests are answered, then attempts have Engine.Grace to finish
// and the rest is handed back, and at last the store is closed.
func Run(ctx context.Context, o Options) (err error) {
	if err := o.Check(); err != nil {
		return err
	}
	ln, err := listen(ctx, o.Listen)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil && ln != nil {
			_ = ln.Close() // closed already where it was served
		}
	}()
	store, closeStore, err := openStore(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeStore()) }()

	guard := egress.NewGuard(o.AllowNets)
	engine, err := newEngine(store, guard, o)
	if err != nil {
		return err
	}
	api, err := newAPI(engine, guard, o)
	if err != nil {
		return err
	}
	return flow{engine: engine, api: api, ln: ln, o: o, partitions: store.Partitions()}.run(ctx)
}

func newEngine(store *redisq.Store, guard *egress.Guard, o Options) (*dispatcher.Dispatcher, error) {
	sender := egress.New(egress.Options{
		Guard:          guard,
		HTTPSOnly:      o.HTTPSOnly,
		QuickRetries:   o.QuickRetries,
		MaxIdlePerHost: o.LaneMax,
	})
	e := o.Engine
	e.Instance = newInstance()
	e.UserAgent = "Hookladder/" + o.Version
	e.Log = o.Log
	return dispatcher.New(store, sender, e)
}

// newInstance makes a name that no process had before, and that tells a person
// where to look.
func newInstance() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "unknown"
	}
	return host + "-" + ulid.MustNew(ulid.Now(), rand.Reader).String()
}

// flow is the running process.
type flow struct {
	engine     *dispatcher.Dispatcher
	api        *http.Server
	ln         net.Listener
	o          Options
	partitions int
}

// answerGrace is how long open requests may take to be answered once the
// process is to stop. A publish takes milliseconds; what is slower than this
// waits for a store that does not answer.
const answerGrace = 5 * time.Second

// run runs API and engine. The engine goes on until the last request was
// answered: a publish that was read is still accepted, which is its work.
func (f flow) run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	working, stopWork := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWork()
	g.Go(func() error {
		if err := f.engine.Run(working); err != nil {
			return fmt.Errorf("dispatch: %w", err)
		}
		return nil
	})
	g.Go(func() error {
		defer stopWork()
		return f.serve(ctx)
	})
	err := g.Wait()
	f.o.Log.Info("stopped")
	return err
}

package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/admin"
)

// flow runs the process and stops it in this order:
//
//	ctx ends            /readyz returns 503, each response closes its connection, event streams and waiting takes end; everything else continues
//	the delay is over   the engine claims nothing more, and jobs are given up; publishes and the outbox's open rows are still stored
//	attempts ended      or their grace is over, and the others were given back: the listener closes
//	requests answered   the last publishes are stored, the last outcomes recorded, the instance signs off, and its counts are added
//
// During the delay, load balancers see the 503 and send their requests elsewhere. Idle
// connections stay open until it is over, because a balancer may send a request on one just
// as it closes, and that request would be lost. Every step has a timeout: Options.Delay,
// Engine.Grace, answerGrace, and the engine's own timeout for a store that does not respond.
type flow struct {
	process     *process
	o           Options
	api         http.Handler
	apiPort     *port // nil: it only dispatches
	figures     http.Handler
	figuresPort *port // nil: only the API has metrics
	renew       renewer
}

// answerGrace is the timeout of open requests during the stop. A publish takes milliseconds. A
// slower one waits for a store that does not respond.
const answerGrace = 5 * time.Second

// run runs API and engine. The engine stops after the last response, because it must store the
// last messages.
func (f flow) run(ctx context.Context) error {
	leaving, leave := context.WithCancel(ctx)
	defer leave()
	g, failed := errgroup.WithContext(context.WithoutCancel(ctx))
	defer context.AfterFunc(failed, leave)() // a part that fails ends all others
	ctx, stop := context.WithCancel(failed)
	defer stop()
	run := func(name string, part func() error) {
		g.Go(func() error { return f.o.Parts.run(name, part) })
	}
	run("delay", func() error {
		defer stop()
		f.delay(leaving, failed)
		return nil
	})
	if f.o.once != nil {
		run("tick", func() error {
			defer leave()
			f.o.once(leaving, f.process)
			return nil
		})
	}
	working, stopWork := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWork()
	counting, stopCounting := context.WithCancel(context.WithoutCancel(ctx))
	relayed := make(chan struct{})
	run("engine", func() error {
		defer stopCounting() // after the last outcome
		if err := f.process.engine.Run(working); err != nil {
			return fmt.Errorf("dispatch: %w", err)
		}
		return nil
	})
	run("requests", func() error {
		defer stopWork()
		defer func() { <-relayed }() // its messages are stored like published ones
		defer leave()
		return f.serve(ctx)
	})
	run("outbox", func() error {
		defer close(relayed)
		return f.process.relay.Run(ctx)
	})
	run("figures", func() error { return f.process.gauge.Run(counting) })
	run("audit", func() error { return f.process.store.Audit().Run(working) })
	run("repair", func() error {
		return admin.KeepMended(working, f.process.store, redisq.InstanceName(), f.o.Log)
	})
	run("jobs", func() error { return f.process.jobs.Run(ctx) }) // other instances take over its jobs
	run("notices", func() error { return f.process.notices.Run(working) })
	if f.process.archiver != nil {
		run("archive", func() error { return f.process.archiver.Run(counting) }) // the last outcomes are archived too
	}
	run("tail", func() error { return f.process.tail.Run(leaving) })     // its followers connect to other instances
	run("takers", func() error { return f.process.takers.Run(leaving) }) // waiting callers get their response
	run("reloads", func() error {
		f.renew.run(working, f.o.Renew)
		return nil
	})
	if f.figuresPort != nil {
		run("metrics", func() error { return f.serveFigures(working) })
	}
	err := g.Wait()
	f.o.Log.Info("stopped")
	return err
}

// delay waits until the process begins to stop, and then for the time that load balancers
// need. It does not wait without an API, or after a part failed.
func (f flow) delay(leaving, failed context.Context) {
	<-leaving.Done()
	wait := f.o.Delay
	if f.apiPort == nil || failed.Err() != nil {
		wait = 0
	}
	f.o.stopping.Store(true)
	f.o.Log.Info("stopping", "delay_s", wait.Seconds(), "grace_s", f.o.Engine.Grace.Seconds())
	over := time.NewTimer(wait)
	defer over.Stop()
	select {
	case <-over.C:
	case <-f.o.SkipDelay:
	case <-failed.Done():
	}
}

// serve serves the API until ctx ends, the attempts have ended, and open requests have their
// responses. Without an address it only waits.
func (f flow) serve(ctx context.Context) error {
	var ended chan struct{}
	if f.apiPort != nil {
		f.apiPort.handle(f.api)
		ended = f.apiPort.ended
	}
	if f.figuresPort != nil {
		f.figuresPort.handle(f.figures)
	}
	f.logStart()
	select {
	case <-ended:
		return fmt.Errorf("serve api: %w", f.apiPort.err)
	case <-ctx.Done():
	}
	f.process.engine.Drain(context.WithoutCancel(ctx)) // it has its own timeout
	if f.apiPort == nil {
		return nil
	}
	err := f.shutDown(ctx)
	if <-ended; !errors.Is(f.apiPort.err, http.ErrServerClosed) {
		err = errors.Join(err, f.apiPort.err)
	}
	return err
}

// serveFigures serves the metrics until the work has ended, so that a scraper reads the last
// values.
func (f flow) serveFigures(ctx context.Context) error {
	select {
	case <-f.figuresPort.ended:
		return fmt.Errorf("serve metrics: %w", f.figuresPort.err)
	case <-ctx.Done():
		f.figuresPort.close()
		return nil
	}
}

// logStart logs the start.
func (f flow) logStart() {
	addr := "off"
	if f.apiPort != nil {
		addr = f.apiPort.addr.String()
	}
	figures := "" // with the API
	if f.figuresPort != nil {
		figures = f.figuresPort.addr.String()
	}
	f.o.Log.Info("started", "listen", addr, "metrics", figures, "project", f.o.Project, "partitions", f.process.store.Partitions(),
		"permits", f.o.Engine.MaxInFlight, "store", f.process.info.Kind, "mode", f.process.info.Mode,
		"durability", f.o.Durability.String(), "loses", f.process.info.Loses, "version", f.o.Version)
	if f.o.Ready != nil {
		f.o.Ready(addr, f.process.engine.Alive)
	}
}

// shutDown accepts no more requests and waits for the responses of the open ones.
func (f flow) shutDown(ctx context.Context) error {
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerGrace)
	defer cancel()
	if err := f.apiPort.Shutdown(patience); err != nil {
		f.o.Log.Warn("open requests were cut", "err", err)
		return f.apiPort.Close()
	}
	return nil
}

package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/egress"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi"
)

func newAPI(engine *dispatcher.Dispatcher, guard *egress.Guard, o Options) (*http.Server, error) {
	handler, err := httpapi.New(engine, httpapi.Options{
		Keys: o.Keys,
		Limits: dispatcher.Limits{
			MaxBody:   o.MaxBody,
			Unsigned:  len(o.Engine.Secrets) == 0,
			HTTPSOnly: o.HTTPSOnly,
			CheckURL:  guard.URL,
		},
		Version: o.Version,
		Log:     o.Log,
	})
	if err != nil {
		return nil, err
	}
	return httpapi.Server(handler), nil
}

// listen takes the API's address before anything else is begun: that it is
// taken is the likeliest thing to go wrong.
func listen(ctx context.Context, addr string) (net.Listener, error) {
	if addr == "" {
		return nil, nil
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("serve api: %w", err)
	}
	return ln, nil
}

// serve serves the API until ctx ends, and then until open requests are
// answered. Without an address it only waits.
func (f flow) serve(ctx context.Context) error {
	addr := "off"
	if f.ln != nil {
		addr = f.ln.Addr().String()
	}
	f.o.Log.Info("started", "listen", addr, "project", f.o.Project, "partitions", f.partitions,
		"permits", f.o.Engine.MaxInFlight, "version", f.o.Version)
	if f.o.Ready != nil {
		f.o.Ready(addr)
	}
	if f.ln == nil {
		<-ctx.Done()
		f.o.Log.Info("stopping")
		return nil
	}
	ended := make(chan error, 1)
	go func() { ended <- f.api.Serve(f.ln) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve api: %w", err)
	case <-ctx.Done():
	}
	f.o.Log.Info("stopping")
	err := f.shutDown(ctx)
	if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// shutDown takes no more requests and lets the open ones be answered.
func (f flow) shutDown(ctx context.Context) error {
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerGrace)
	defer cancel()
	if err := f.api.Shutdown(patience); err != nil {
		f.o.Log.Warn("open requests were cut", "err", err)
		return f.api.Close()
	}
	return nil
}

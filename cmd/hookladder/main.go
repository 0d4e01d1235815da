// Command hookladder delivers notifications as signed HTTP callbacks: the
// dispatcher itself, a playground, and the tools to talk to it.
package main

import (
	"context"
	"io"
	"log"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	// net/http prints what a receiver sent unasked through the global logger, and
	// that may echo a signature. Our own log is not this one.
	log.SetOutput(io.Discard)

	// The first signal asks to stop, which takes as long as attempts under way
	// may take; the second finds Go's own handler again and ends the process.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, stage{
		args:    os.Args[1:],
		environ: os.Environ(),
		in:      os.Stdin,
		out:     os.Stdout,
		err:     os.Stderr,
	}))
}

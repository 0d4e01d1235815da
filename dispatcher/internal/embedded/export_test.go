package embedded

import "log/slog"

// WithSettings adds arguments to the server's, for a test.
func (o Options) WithSettings(settings ...string) Options {
	o.settings = settings
	return o
}

// Hear gives lines to what takes a server's output, in the pieces given.
func Hear(log *slog.Logger, pieces ...string) (tail string, damaged bool) {
	o := &output{log: log}
	for _, p := range pieces {
		_, _ = o.Write([]byte(p)) // it takes everything
	}
	return o.tail(), o.damaged()
}

// What the tests of this package look at from inside.
var Memory = memory

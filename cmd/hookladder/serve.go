package main

import (
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/hookladder/hookladder/dispatcher/app"
)

func newServe(s stage) *cobra.Command {
	return &cobra.Command{
		Use:   "serve",
		Short: "Take messages and deliver them, with Redis as the store",
		Long: `Takes messages over HTTP, keeps them in Redis and delivers them. All settings come
from the environment; hookladder config shows them. REDIS_URL is needed, since
what was acknowledged must outlive the process.

SIGTERM or Ctrl-C stops it in order: open requests are answered, attempts under
way may finish for SHUTDOWN_GRACE, the rest goes back to the queue. A second
signal ends it at once; what it held is then taken over by another instance, or
by itself restarted.`,
		Example: `  REDIS_URL=redis://127.0.0.1:6379 SIGNING_SECRET=whsec_... hookladder serve
  PORT=8080 API_KEYS_FILE=/run/secrets/keys REDIS_URL=rediss://... hookladder serve
  LISTEN=off REDIS_URL=... hookladder serve         # dispatches only
  MAX_IN_FLIGHT=0 REDIS_URL=... hookladder serve    # accepts only`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			from := surroundings{environ: s.vars()}
			read, found, err := readSettings(from)
			if err != nil {
				return usageError{err}
			}
			if read.RedisURL == "" {
				return usagef("REDIS_URL is not set: name the Redis that keeps the messages, such as REDIS_URL=redis://127.0.0.1:6379; hookladder dev needs none and forgets everything")
			}
			o := options(read, found)
			o.Log = newLog(read, found, cmd.ErrOrStderr())
			if err := o.Check(); err != nil {
				return usageError{err}
			}
			for _, w := range nearNames(from.environ) {
				o.Log.Warn(w)
			}
			if len(read.SigningSecret) == 0 {
				o.Log.Warn("SIGNING_SECRET is not set, so no bare URL can be published: no callback is ever unsigned")
			}
			collectLess(from.environ)
			return elsewhere(app.Run(cmd.Context(), o), "LISTEN or PORT")
		},
	}
}

// gcPercent trades memory for time: 36 MiB instead of 26 in measurements, and
// about a tenth more deliveries a second; beyond it nothing was gained.
const gcPercent = 400

// collectLess has the garbage collector run more rarely, unless the operator
// decided that.
func collectLess(vars map[string]string) {
	if vars["GOGC"] == "" {
		debug.SetGCPercent(gcPercent)
	}
}

package main

import (
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/spf13/cobra"

	"github.com/hookladder/hookladder/dispatcher/app"
)

// storeWait is for how long serve waits for its store at the start: they are
// often started together, and Redis reads its data first.
const storeWait = 30 * time.Second

func newServe(s stage) *cobra.Command {
	return &cobra.Command{
		Use:   "serve",
		Short: "Take messages and deliver them, with Redis as the store",
		Long: `Takes messages over HTTP, keeps them in Redis and delivers them. All settings come
from the environment; hookladder config shows them. REDIS_URL is needed, or
DATA_DIR for a redis-server of its own, since what was acknowledged must outlive
the process. A Redis that does not answer yet is waited for, for 30 seconds; then
the exit code is 4.

SIGTERM or Ctrl-C stops it in order: /readyz answers 503 and nothing more is
taken from the queue; attempts under way may finish for SHUTDOWN_GRACE, the rest
goes back; open requests are answered, and the instance signs off. What is
published meanwhile is kept, and delivered by another instance or the next
start. A second signal ends it at once; what it held is then taken over by
another instance, or by itself restarted.

SIGHUP has the files of keys read anew, and all of them used, or none where one
is wrong, which the log tells: API_KEYS_FILE, SIGNING_SECRET_FILE, and
ENCRYPTION_KEY_FILE where it holds all keys that it held. The rest needs a restart.`,
		Example: `  REDIS_URL=redis://127.0.0.1:6379 SIGNING_SECRET=whsec_... hookladder serve
  DATA_DIR=./data SIGNING_SECRET=whsec_... hookladder serve
  PORT=8080 API_KEYS_FILE=/run/secrets/keys REDIS_URL=rediss://... hookladder serve
  LISTEN=off REDIS_URL=... hookladder serve         # dispatches only
  MAX_IN_FLIGHT=0 REDIS_URL=... hookladder serve    # accepts only`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return serve(cmd, s) },
	}
}

func serve(cmd *cobra.Command, s stage) error {
	from := sources{environ: s.vars()}
	read, found, err := readSettings(from)
	if err != nil {
		return usageError{err}
	}
	if read.RedisURL == "" && read.DataDir == "" {
		return usagef("neither REDIS_URL nor DATA_DIR is set: name a Redis that keeps the messages, such as REDIS_URL=redis://127.0.0.1:6379, or a folder for one of its own, such as DATA_DIR=./data; hookladder dev needs neither and forgets everything")
	}
	o := options(read, found)
	o.StoreWait = storeWait
	o.Log = newLog(read, found, cmd.ErrOrStderr())
	if err := o.Check(); err != nil {
		return usageError{err}
	}
	o.Renew = newRenewing(from, found, o.Log).listen(cmd.Context())
	for _, w := range nearNames(from.environ) {
		o.Log.Warn(w)
	}
	if len(read.SigningSecret) == 0 {
		o.Log.Warn("SIGNING_SECRET is not set, so no bare URL can be published: no callback is ever unsigned")
	}
	collectLess(from.environ)
	o.MemoryLimit = limitMemory(from.environ, memlimit.FromCgroup, read.DataDir != "")
	addresses := "LISTEN or PORT"
	if o.MetricsListen != "" {
		addresses = "LISTEN, PORT or METRICS_LISTEN"
	}
	return elsewhere(app.Run(cmd.Context(), o), addresses)
}

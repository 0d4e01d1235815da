package main

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/hookladder/hookladder/dispatcher/app"
)

// renewable are the settings whose files are read again at SIGHUP. Others in
// files, REDIS_URL and certificates, are read at the start only.
var renewable = []string{"API_KEYS", "SIGNING_SECRET", "ENCRYPTION_KEY"}

// renewing reads the files of keys anew.
type renewing struct {
	environ map[string]string // of the renewable settings that a file holds
	used    map[string][sha256.Size]byte
	log     *slog.Logger
}

// newRenewing remembers what was read at the start.
func newRenewing(from sources, found []foundSetting, log *slog.Logger) *renewing {
	r := &renewing{environ: map[string]string{}, log: log}
	for _, name := range renewable {
		if file := from.environ[name+"_FILE"]; file != "" {
			r.environ[name+"_FILE"] = file
		}
	}
	r.used = r.sums(found)
	return r
}

// listen reads the files at each SIGHUP until ctx ends. From now on that signal
// does not end the process.
func (r *renewing) listen(ctx context.Context) <-chan app.Renewal {
	signals, renewals := make(chan os.Signal, 1), make(chan app.Renewal)
	signal.Notify(signals, syscall.SIGHUP)
	go func() {
		defer signal.Stop(signals)
		for {
			select {
			case <-ctx.Done():
				return
			case <-signals:
				r.renew(ctx, renewals)
			}
		}
	}()
	return renewals
}

// renew hands on what the files hold now. If one of them is wrong, no key changes.
func (r *renewing) renew(ctx context.Context, renewals chan<- app.Renewal) {
	if len(r.environ) == 0 {
		r.log.Info("SIGHUP: no file of keys is named, so nothing is read anew", "settings", fileNames())
		return
	}
	read, found, err := readSettings(sources{environ: r.environ})
	if err != nil {
		r.stay(err)
		return
	}
	next := r.sums(found)
	var changed []string
	for _, name := range renewable {
		if next[name] != r.used[name] {
			changed = append(changed, name)
		}
	}
	renewal := app.Renewal{Keys: read.APIKeys, Secrets: read.SigningSecret, Seal: read.EncryptionKey.box, Done: make(chan error, 1)}
	select {
	case <-ctx.Done():
		return
	case renewals <- renewal: // a process that waits for its store takes none
	}
	if err := <-renewal.Done; err != nil {
		r.stay(err)
		return
	}
	r.used = next
	r.log.Info("SIGHUP: files of keys read anew", "changed", changed)
}

func (r *renewing) stay(err error) {
	r.log.Error("SIGHUP: the files of keys can't be used, so the keys stay as they were", "err", err)
}

// sums tell whether a value changed, without keeping it.
func (r *renewing) sums(found []foundSetting) map[string][sha256.Size]byte {
	sums := map[string][sha256.Size]byte{}
	for _, c := range found {
		if r.environ[c.Name+"_FILE"] != "" {
			sums[c.Name] = sha256.Sum256([]byte(c.Value))
		}
	}
	return sums
}

func fileNames() (names []string) {
	for _, name := range renewable {
		names = append(names, name+"_FILE")
	}
	return names
}

package kit

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/signer"
)

// Instance is a hookladder serve process.
type Instance struct {
	*Process
	*client.Client        // to its API
	URL            string // of its API, or of where it tells its health when it has none
	started        map[string]any
}

// Environ is the environment of an instance: a free port, a secret, and
// receivers on this host. Of a setting that is given twice the last one counts.
func Environ(redisURL string, secret signer.Secret, more ...string) []string {
	return append([]string{
		"REDIS_URL=" + redisURL, "LISTEN=127.0.0.1:0", "LOG_FORMAT=json", "SIGNING_SECRET=" + secret.Reveal(),
		"ALLOW_NETS=127.0.0.0/8", "LINK_ALLOW_NETS=127.0.0.0/8", NoExitSleep,
	}, more...)
}

// NoExitSleep has a process that was built with the race detector end at once.
// It would otherwise sleep for a second, in case another thread finds a race.
const NoExitSleep = "GORACE=atexit_sleep_ms=0"

// Once has a client make each call once: a test says itself what it calls again, and a
// slow machine is no lost answer.
var Once = client.WithRepeats(client.Repeats{Tries: 1, Try: time.Minute})

// Serve waits until a process that was started as hookladder serve takes calls.
func Serve(ctx context.Context, p *Process) (*Instance, error) {
	line, err := p.Line(ctx, `"msg":"started"`)
	if err != nil {
		return nil, err
	}
	i := &Instance{Process: p}
	if err := json.Unmarshal([]byte(line), &i.started); err != nil {
		return nil, fmt.Errorf("%s does not tell where it listens: %s", p.Name, line)
	}
	addr := i.Started("listen")
	if addr == "" || addr == "off" {
		addr = i.Started("metrics")
	}
	if addr == "" {
		return nil, fmt.Errorf("%s does not tell where it listens: %s", p.Name, line)
	}
	i.URL = "http://" + addr
	if i.Client, err = client.New(i.URL, "", Once); err != nil {
		return nil, fmt.Errorf("call %s: %w", p.Name, err)
	}
	return i, nil
}

// WaitReady waits until it is ready for work.
func (i *Instance) WaitReady(ctx context.Context) error {
	return Until(ctx, i.Name+" is ready", func() error {
		if i.Gone() {
			return Final{i.Death()}
		}
		_, err := i.Ready(ctx)
		return err
	})
}

// Started is the text of a field in the line with which it started.
func (i *Instance) Started(field string) string {
	text, _ := i.started[field].(string)
	return text
}

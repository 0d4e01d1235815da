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
	*client.Client        // calls its API
	URL            string // of its API, or of its metrics and health if it has no API
	started        map[string]any
}

// Environ returns the environment of an instance: a free port, a secret, and
// receivers on this host. If a setting is given twice, the last one counts.
func Environ(redisURL string, secret signer.Secret, more ...string) []string {
	return append([]string{
		"REDIS_URL=" + redisURL, "LISTEN=127.0.0.1:0", "LOG_FORMAT=json", "SIGNING_SECRET=" + secret.Reveal(),
		"ALLOW_NETS=127.0.0.0/8", "LINK_ALLOW_NETS=127.0.0.0/8", NoExitSleep,
	}, more...)
}

// NoExitSleep makes a process that was built with the race detector exit at once. By
// default such a process sleeps for a second, in case another thread finds a race.
const NoExitSleep = "GORACE=atexit_sleep_ms=0"

// Once disables the client's retries, because a test retries by itself. Its timeout
// of a minute is enough for a slow machine.
var Once = client.WithRepeats(client.Repeats{Tries: 1, Try: time.Minute})

// Serve waits until a hookladder serve process accepts calls.
func Serve(ctx context.Context, p *Process) (*Instance, error) {
	line, err := p.Line(ctx, `"msg":"started"`)
	if err != nil {
		return nil, err
	}
	i := &Instance{Process: p}
	if err := json.Unmarshal([]byte(line), &i.started); err != nil {
		return nil, fmt.Errorf("%s does not log its address: %s", p.Name, line)
	}
	addr := i.Started("listen")
	if addr == "" || addr == "off" {
		addr = i.Started("metrics")
	}
	if addr == "" {
		return nil, fmt.Errorf("%s does not log its address: %s", p.Name, line)
	}
	i.URL = "http://" + addr
	if i.Client, err = client.New(i.URL, "", Once); err != nil {
		return nil, fmt.Errorf("call %s: %w", p.Name, err)
	}
	return i, nil
}

// WaitReady waits until the instance reports that it is ready.
func (i *Instance) WaitReady(ctx context.Context) error {
	return Until(ctx, i.Name+" is ready", func() error {
		if i.Gone() {
			return Final{i.Death()}
		}
		_, err := i.Ready(ctx)
		return err
	})
}

// Started returns a text field of the log line that the instance wrote at its start.
func (i *Instance) Started(field string) string {
	text, _ := i.started[field].(string)
	return text
}

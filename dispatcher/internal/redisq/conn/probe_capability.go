package conn

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
)

// capability has the features that a store supports. It does not change while the store runs.
type capability struct {
	mini    bool                // it is miniredis in this process
	hidden  bool                // it does not report its commands
	missing []string            // of the required commands
	scripts dispatcher.Tristate // with undeclared keys
	fault   string              // the error of a script; empty: scripts run
	open    bool                // a partition could not be queried: query again later
	rights  rights
	waits   dispatcher.Tristate // WAITAOF works if appendfsync is not always; Unknown: not tried
}

// queryCapability queries the capability of the store once.
func (p *Probe) queryCapability(ctx context.Context) (*capability, error) {
	a := &capability{}
	if err := p.queryCommands(ctx, a); err != nil {
		return nil, err
	}
	if !a.mini {
		a.rights = queryRights(ctx, p.conn)
	}
	if len(a.rights.required) == 0 {
		p.tryScript(ctx, a)
	}
	return a, nil
}

// queryCommands queries the commands by name, because a version number proves nothing.
func (p *Probe) queryCommands(ctx context.Context, a *capability) error {
	args := []any{"command", "info"}
	for _, name := range names() {
		args = append(args, name)
	}
	known := map[string]bool{}
	var reply *redis.Cmd
	err := p.conn.At(ctx, "probe commands", Home, func(p redis.Pipeliner) { reply = p.Do(ctx, args...) })
	lines, _ := Value(reply).([]any)
	switch {
	case away(err):
		return err
	case err != nil:
		a.hidden = true
		return nil
	}
	for _, line := range lines {
		if fields, ok := line.([]any); ok && len(fields) > 0 {
			name, _ := fields[0].(string)
			known[strings.ToUpper(name)] = true
		}
	}
	if len(lines) > len(args)-2 { // miniredis always returns its whole table, but it lacks some of its commands
		a.mini = true
		return nil
	}
	for _, name := range names() {
		if !known[name] {
			a.missing = append(a.missing, name)
		}
	}
	return nil
}

// away reports whether a store did not respond. A refusal for lack of a right is a response.
func away(err error) bool { return errors.Is(err, dispatcher.ErrUnavailable) && !Forbidden(err) }

// tryScript runs a typical script in each partition. A partition that can't be reached
// leaves the result unknown, unless the script fails in another one.
func (p *Probe) tryScript(ctx context.Context, a *capability) {
	for _, r := range p.conn.Send(ctx, Batch{Script: p.script, Calls: p.conn.Everywhere([]any{probeValue})}) {
		r.Hint()
		switch {
		case away(r.Err), errors.Is(r.Err, dispatcher.ErrFull):
			a.open = true
		case r.Err != nil:
			a.scripts, a.fault = dispatcher.No, r.Err.Error()
			return
		case r.Text() != probeValue:
			a.scripts, a.fault = dispatcher.No, "a key that was just written can't be read"
			return
		case a.scripts == dispatcher.Unknown:
			a.scripts = dispatcher.Yes
		}
	}
	if a.open {
		a.scripts = dispatcher.Unknown
	}
}

const probeValue = "probe"

// A server that writes to its disk once a second can't do so three times within truthful.
// The time counts from the first response, because a slow disk may delay it and the next
// one comes soon after.
const (
	waitTries = 3
	truthful  = 700 * time.Millisecond
)

// tryWaitAOF finds out whether WAITAOF waits for a disk that is written once a second.
// Some versions of Redis and Valkey respond before the write, and a version number proves
// nothing.
func (p *Probe) tryWaitAOF(ctx context.Context) dispatcher.Tristate {
	var began time.Time
	for i := range waitTries {
		if i == 1 {
			began = time.Now()
		}
		r := p.conn.Send(ctx, Batch{Script: p.script, Durable: true, Calls: []Call{{Args: []any{probeValue}}}})[0]
		if r.Err != nil || r.Weak != nil {
			return dispatcher.Unknown
		}
		if i > 0 && time.Since(began) > truthful {
			return dispatcher.Yes
		}
	}
	return dispatcher.No
}

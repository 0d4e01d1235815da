package app

import (
	"errors"
	"fmt"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/callers"
	"github.com/hookladder/hookladder/dispatcher/internal/postgres"
)

// Check returns an error if a process can't run with these options.
func (o Options) Check() error {
	if o.Log == nil {
		return errors.New("no logger")
	}
	switch stores := count(o.RedisURL != "", o.DataDir != "", o.InMemory); {
	case stores == 0:
		return errors.New("no store: neither REDIS_URL nor DATA_DIR is set")
	case stores > 1:
		return errors.New("more than one store: REDIS_URL, DATA_DIR and memory exclude each other")
	}
	if err := o.checkOps(); err != nil {
		return err
	}
	if o.OutboxURL != "" {
		if _, err := postgres.NewOutbox(o.OutboxURL, o.MaxBody); err != nil {
			return fmt.Errorf("OUTBOX_URL: %w", err)
		}
	}
	if o.Listen == "" {
		if o.Engine.MaxInFlight == 0 {
			return errors.New("it would do nothing: LISTEN=off takes no messages, MAX_IN_FLIGHT=0 delivers none")
		}
		return nil
	}
	if o.Keys.Empty() && !callers.IsLoopback(o.Listen) {
		return fmt.Errorf("%s can be reached from outside this host, and there is no key: set API_KEYS=%s:admin (a fresh key), or listen on 127.0.0.1",
			o.Listen, callers.NewAPIKey())
	}
	if u := o.Console.PublicURL; u != nil && o.Keys.Empty() && !callers.IsLoopback(u.Host) {
		return fmt.Errorf("PUBLIC_URL leads here from %s, and there is no key, so all who come from there would be the operator: set API_KEYS=%s:admin (a fresh key)",
			u.Hostname(), callers.NewAPIKey())
	}
	return nil
}

// checkOps returns an error if notices can't be sent to OpsURL, by the rules for a caller's
// message.
func (o Options) checkOps() error {
	if o.OpsURL == "" {
		return nil
	}
	m := dispatcher.Message{ID: "ops", Topic: "ops", URL: o.OpsURL, ContentType: "application/json"}
	faults := m.Validate(dispatcher.Policy{
		Unsigned: len(o.Engine.Secrets) == 0, HTTPSOnly: o.HTTPSOnly, CheckURL: o.guard().URL,
	})
	if len(faults) > 0 {
		return fmt.Errorf("OPS_URL: %s", faults[0].Detail)
	}
	return nil
}

func count(given ...bool) (n int) {
	for _, g := range given {
		if g {
			n++
		}
	}
	return n
}

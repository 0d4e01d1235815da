package chaos_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/hookladder/hookladder/deploy/kit"
)

// operator runs the commands that a person would.
type operator struct {
	h     *history
	fleet *fleet
	url   string // of the store, past all that is broken on the way
	say   func(format string, a ...any)
}

// run runs a command of the program with the settings of its instances.
func (o *operator) run(ctx context.Context, args ...string) (out string, err error) {
	ctx, cancel := context.WithTimeout(ctx, kit.Patience)
	defer cancel()
	command := exec.CommandContext(ctx, o.fleet.binary, args...)
	command.Env = append([]string{"REDIS_URL=" + o.url, "PATH=" + os.Getenv("PATH"), kit.NoExitSleep}, o.fleet.env...)
	text, err := command.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, text)
	}
	return string(text), err
}

// until runs a command until it succeeds: stores come and go meanwhile.
func (o *operator) until(ctx context.Context, args ...string) (out string, err error) {
	err = kit.Until(ctx, "hookladder "+strings.Join(args, " "), func() (err error) {
		if out, err = o.run(ctx, args...); err != nil {
			kit.Rest(ctx, 300*time.Millisecond)
		}
		return err
	})
	return out, err
}

// restoreTail puts back what the store lost of its last second, as the instances' logs ask
// for. The archive may be behind at first.
func (o *operator) restoreTail(ctx context.Context) error {
	return kit.Until(ctx, "what the store lost last is put back", func() error {
		out, err := o.until(ctx, "restore", "--into-running")
		if err != nil {
			return kit.Stop(err)
		}
		if strings.Contains(out, "the archive is behind") {
			kit.Rest(ctx, 300*time.Millisecond)
			return fmt.Errorf("not yet: %s", out)
		}
		o.say("%s", out)
		return nil
	})
}

// tailLost reports whether any instance asked for that.
func (h *history) tailLost() (lost bool) {
	h.with(func() {
		for _, n := range h.notes {
			lost = lost || n.text == tailGone
		}
	})
	return lost
}

package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/hookladder/hookladder/deploy/kit"
)

// emptied is the fault of a store that was emptied under load, until it was restored or its
// loss was accepted.
const emptied = "redis emptied"

// loss is what an emptied store lost for good: what was accepted and recorded in its time. With an
// archive that is what was not archived yet, as restore itself reports it.
type loss struct {
	span
	reported bool            // an instance said so in its metrics
	words    string          // of the command that ended it
	gap      time.Time       // the archive lacks what was cut before, as restore itself reports it; zero: nothing was
	kept     map[string]bool // the messages in parts of the store that were not emptied
}

// losing empties the store.
type losing struct {
	*trouble
	store    backend
	operator *operator
	watcher  *watcher
	load     *load
	archives bool
}

// empty empties the store, waits until the instances report that, and does what their log asks for.
func (b *losing) empty(ctx context.Context, random *rand.Rand) {
	ctx = context.WithoutCancel(ctx) // a run ends with a store that is whole
	defer b.begins(emptied, "")()
	l := &loss{}
	var err error
	if l.to, l.kept, err = b.store.empty(ctx, random); err != nil {
		b.say("not emptied: %v", err)
		return
	}
	l.reported = b.watcher.awaitEmptied(ctx) == nil
	kit.Rest(ctx, between(random, 0, 3*time.Second))
	end := b.accept
	if b.archives {
		end = b.restore
	}
	if err := end(ctx, l); err != nil {
		b.fleet.t.Error(err)
	}
	b.say("%s", l.words)
	b.h.with(func() { b.h.losses = append(b.h.losses, l) })
}

// archiveEnd is where restore says how far the archive goes.
var archiveEnd = regexp.MustCompile(`the archive ends at (\S+ \S+ UTC)`)

// archiveGap is where restore says until when lines were cut that no comparison made good.
var archiveGap = regexp.MustCompile(`messages from before (\S+ \S+ UTC) may be missing`)

// restoreTime is how restore writes a time.
const restoreTime = "2006-01-02 15:04:05.000 MST"

func (b *losing) restore(ctx context.Context, l *loss) (err error) {
	if l.words, err = b.operator.until(ctx, "restore"); err != nil {
		return err
	}
	if strings.Contains(l.words, "there is nothing to restore") {
		return nil // an earlier call did it, whose last answer was lost: what it reported is not known
	}
	if strings.Contains(l.words, "nothing was ever archived") {
		l.from = time.Unix(0, 0) // everything until the loss is lost
		return nil
	}
	found := archiveEnd.FindStringSubmatch(l.words)
	if found == nil {
		return fmt.Errorf("restore does not say where the archive ends: %s", l.words)
	}
	gap := archiveGap.FindStringSubmatch(l.words)
	switch {
	case gap == nil && strings.Contains(l.words, "ARCHIVE_BACKLOG"):
		return fmt.Errorf("restore does not say until when the log was cut: %s", l.words)
	case gap != nil:
		if l.gap, err = time.Parse(restoreTime, gap[1]); err != nil {
			return err
		}
	}
	l.from, err = time.Parse(restoreTime, found[1])
	return err
}

// accept accepts the loss. If the endpoints are lost too, they are registered again. Of a cluster, one
// master has them.
func (b *losing) accept(ctx context.Context, l *loss) (err error) {
	now := time.Now()
	if l.words, err = b.operator.until(ctx, "doctor", "--accept-loss", "--yes"); err != nil {
		return err
	}
	b.say("the loss was accepted after %s", time.Since(now))
	if !strings.Contains(l.words, "the store lost its endpoints") {
		return nil
	}
	b.h.with(func() {
		for place, spans := range b.h.existed {
			spans[len(spans)-1].to = l.to
			b.h.existed[place] = spans
		}
		for _, e := range b.h.owned {
			e.unsure = true
			if e.exists.to.IsZero() {
				e.exists.to = l.to
			}
		}
	})
	return b.load.register(ctx)
}

// covers reports whether something of a message that happened in a time may be lost with it. What lies in
// other parts of the store may not.
func (l *loss) covers(m *message, from, to time.Time) bool {
	return l.touches(from, to) && !l.keeps(m)
}

func (l *loss) keeps(m *message) bool { return len(m.places) == 1 && l.kept[m.id] }

// cutBefore reports whether a time lies before a loss, and the log of it was cut and not made good until
// the loss. Restore has to report that.
func (j *judge) cutBefore(l *loss, from, to time.Time) bool {
	return !l.gap.IsZero() && !from.After(l.gap.Add(time.Second)) && j.cut(from, to)
}

// lostWith reports whether something of a message that happened in a time was lost with an emptied store.
func (j *judge) lostWith(m *message, from, to time.Time) bool {
	return slices.ContainsFunc(j.h.losses, func(l *loss) bool { return l.covers(m, from, to) || !l.keeps(m) && j.cutBefore(l, from, to) })
}

// cutEarlier reports whether a message that was accepted at a time was lost with the log of an earlier call, which got no answer. That
// call may have stored the message, and then the accepted one only found it.
func (j *judge) cutEarlier(m *message, earlier []try, acceptedAt time.Time) bool {
	i := slices.IndexFunc(earlier, func(t try) bool { return t.acceptance == nothing })
	return i >= 0 && slices.ContainsFunc(j.h.losses, func(l *loss) bool {
		return l.to.After(acceptedAt) && !l.keeps(m) && j.cutBefore(l, earlier[i].began, acceptedAt)
	})
}

// unreported is a loss that no instance reported.
const unreported = "a loss that was not reported"

func (j *judge) losses() {
	for _, l := range j.h.losses {
		if !l.reported {
			j.complain(unreported, "the store", "it was emptied at %s", l.to.Format("15:04:05.000"))
		}
		if l.from.After(l.to) {
			j.complain(unreported, "the archive", "it ends at %s, behind the loss at %s", l.from.Format("15:04:05.000"), l.to.Format("15:04:05.000"))
		}
	}
}

// emptiedWithin bounds how long it takes until an instance reports an emptied store: a beat, and
// whatever else is broken.
const emptiedWithin = time.Minute

// awaitEmptied waits until an instance reports that.
func (w *watcher) awaitEmptied(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, emptiedWithin)
	defer cancel()
	random := rand.New(rand.NewPCG(1, 4))
	return kit.Until(ctx, "an instance reports the loss", func() error {
		p := w.fleet.any(random)
		if p == nil {
			return errors.New("no instance takes calls")
		}
		is, err := metrics(ctx, p)
		if err == nil && is["hookladder_store_emptied"] != 1 {
			err = fmt.Errorf("%s has no hookladder_store_emptied 1", p.name)
		}
		if err != nil {
			kit.Rest(ctx, 100*time.Millisecond)
		}
		return err
	})
}

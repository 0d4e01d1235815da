package notices

import (
	"context"
	"errors"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/outage"
)

// droppedEvery is how often it is logged that notices are dropped.
const droppedEvery = time.Minute

// Run publishes what it is told of, until ctx ends. While the store does not answer that
// waits, and a full store has it dropped: notices must not take what is left for messages.
func (n *Notices) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for failures := 0; ctx.Err() == nil; {
		n.warn(time.Now(), false)
		if i, wait := n.next(ctx); i == nil {
			if wait >= 0 {
				timer.Reset(wait)
			}
			select {
			case <-ctx.Done():
			case <-n.wake:
			case <-timer.C:
			}
			continue
		} else if n.publish(ctx, i) {
			failures = 0
			n.rest()
			continue
		} else {
			n.putBack(i)
			n.rest()
		}
		failures++
		outage.Pause(ctx, failures)
	}
	n.mu.Lock()
	n.dropped += len(n.pending)
	n.mu.Unlock()
	n.warn(time.Now(), true)
	return nil
}

// next answers what is to be told now; nil: nothing is for so long, or, with wait < 0,
// until there are news.
func (n *Notices) next(ctx context.Context) (i *item, wait time.Duration) {
	if i = n.take(); i != nil {
		return i, 0
	}
	now := time.Now()
	news, wait, ok := n.takeDeaths(now)
	if ok {
		return &item{News: news}, 0
	}
	if n.ops == "" || n.o.Store == nil {
		return nil, wait
	}
	left := n.watch(ctx, now)
	if wait < 0 || left < wait {
		wait = left
	}
	return nil, wait
}

// warn logs how many notices were dropped, if any, and if it was not logged just now.
func (n *Notices) warn(now time.Time, last bool) {
	if !last && now.Sub(n.warned) < droppedEvery {
		return
	}
	n.mu.Lock()
	dropped := n.dropped
	n.dropped = 0
	n.mu.Unlock()
	if dropped > 0 {
		n.warned = now
		n.o.Log.Warn("notices were not sent: too many wait, or the store is full, or this instance stops", "notices", dropped)
	}
}

// publish publishes news, and reports false where that has to be tried again.
func (n *Notices) publish(ctx context.Context, i *item) bool {
	ctx, cancel := outage.Within(ctx)
	defer cancel()
	if !i.made {
		err := n.settleKey(ctx, i)
		if err == nil {
			i.batch, err = n.messages(ctx, &i.News)
		}
		if err != nil {
			return !n.again(i, err)
		}
		i.made = true
	}
	if len(i.batch) == 0 {
		return true
	}
	out, err := n.o.Publish(ctx, i.batch)
	if err != nil {
		return !n.again(i, err)
	}
	var left []*dispatcher.Message
	var mine bool // at least one was not another instance's
	for k := range out {
		switch err := out[k].Err; {
		case err == nil && out[k].Result == dispatcher.LaneFull, errors.Is(err, dispatcher.ErrFull):
			n.drop(i, 1)
			mine = true
		case err == nil:
			mine = mine || out[k].Result != dispatcher.Conflict
		case errors.Is(err, dispatcher.ErrNotDurable):
			mine = true // it is stored
		case outage.Passes(err):
			left = append(left, i.batch[k])
			mine = true
		case !errors.Is(err, dispatcher.ErrNoEndpoint): // that was deleted meanwhile
			n.drop(i, 1)
		}
	}
	if i.Notice == dispatcher.NoticeDead && !mine {
		n.recount(i.News)
	}
	i.batch = left
	return len(left) == 0
}

// again reports whether what failed for this reason is to be tried again. Else it is
// dropped.
func (n *Notices) again(i *item, err error) bool {
	if outage.Passes(err) && !errors.Is(err, dispatcher.ErrFull) || errors.Is(err, dispatcher.ErrListing) {
		return true
	}
	n.o.Log.Warn("notice not sent", "topic", string(i.Notice), "lane", string(i.Lane), "err", err)
	n.drop(i, 1)
	return false
}

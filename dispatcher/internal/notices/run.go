package notices

import (
	"context"
	"errors"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/outage"
)

// droppedEvery is the interval of the log of dropped notices.
const droppedEvery = time.Minute

// Run publishes news until ctx ends. While the store is down, news wait. If the store is full,
// they are dropped, because notices must not take the memory of messages.
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
	n.countDropped(len(n.pending))
	n.mu.Unlock()
	n.warn(time.Now(), true)
	return nil
}

// next returns the next item. If there is none it returns nil and the wait until the next
// one; wait < 0 means until there are news.
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

// countDropped counts notices that are not sent. The caller must have locked mu.
func (n *Notices) countDropped(notices int) {
	n.dropped += notices
	n.unsent += int64(notices)
}

// Unsent returns the number of notices that were not sent.
func (n *Notices) Unsent() int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.unsent
}

// warn logs the number of dropped notices, at most once in droppedEvery.
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

// publish publishes news. It returns false if a retry is needed.
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
	var mine bool // this instance stored at least one
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
		case !errors.Is(err, dispatcher.ErrNoEndpoint): // it was deleted in the meantime
			n.drop(i, 1)
		}
	}
	if i.Notice == dispatcher.NoticeDead && !mine {
		n.recount(i.News)
	}
	i.batch = left
	return len(left) == 0
}

// again reports whether an error needs a retry. If not, it drops the notice.
func (n *Notices) again(i *item, err error) bool {
	if outage.Passes(err) && !errors.Is(err, dispatcher.ErrFull) || errors.Is(err, dispatcher.ErrListing) {
		return true
	}
	n.o.Log.Warn("notice not sent", "topic", string(i.Notice), "lane", string(i.Lane), "err", err)
	n.drop(i, 1)
	return false
}

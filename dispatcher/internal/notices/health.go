package notices

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/outage"
)

// The reasons for an unhealthy store that this package detects. The engine reports the others
// when it detects them.
const (
	reasonNotDurable = "not_durable" // DURABILITY is not met
	reasonUnfit      = "unfit"       // it lacks a required feature
)

const (
	summaryEvery = time.Hour // as in dispatcher.Summary
	// apart is the largest difference between the times at which two instances see the same
	// problem. A second report within it is dropped.
	apart = time.Minute
)

// ailment is a current problem of the store or of this host's network.
type ailment struct {
	dispatcher.News
	hours int // full hours that were reported
}

// changed updates the state of the store or of this host's network. It sets the key of the
// news and reports whether the state changed. The caller holds mu.
func (n *Notices) changed(news *dispatcher.News) bool {
	if n.ops == "" {
		return false
	}
	t, bad := n.ailments[news.Reason]
	if bad == ails(news.Notice) {
		return false
	}
	if bad {
		news.Since = t.Since
		delete(n.ailments, news.Reason)
	} else {
		n.ailments[news.Reason] = ailment{News: *news}
	}
	news.Key = ailmentKey(news, 0)
	return true
}

// ailmentKey returns a key from the minute in which the problem began.
func ailmentKey(news *dispatcher.News, earlier int64) string {
	return strings.ReplaceAll(news.Reason, "_", "-") + "_" + strconv.FormatInt(news.Since.UnixMilli()/apart.Milliseconds()-earlier, 10)
}

// ails reports whether a notice is about a problem.
func ails(n dispatcher.Notice) bool {
	return n == dispatcher.NoticeUnhealthy || n == dispatcher.NoticeEgressDown
}

// ofHealth reports whether a notice is about the health of the store or of this host's
// network.
func ofHealth(n dispatcher.Notice) bool {
	return ails(n) || n == dispatcher.NoticeHealthy || n == dispatcher.NoticeEgressUp
}

// settleKey uses the key of another instance that saw the same problem in the minute
// before. If both publish at the same moment, the problem is reported twice.
func (n *Notices) settleKey(ctx context.Context, i *item) error {
	key := ailmentKey(&i.News, 0)
	rest, of := strings.CutPrefix(i.Key, key)
	if !ofHealth(i.Notice) || !of {
		return nil
	}
	before := ailmentKey(&i.News, 1)
	known, err := n.o.Known(ctx, []string{dispatcher.NoticeUnhealthy.ID(before, n.mark)})
	if err == nil && known[0] {
		i.Key = before + rest
	}
	return err
}

// watch polls the store, and reports once an hour which problems remain. It returns the
// wait before the next poll.
func (n *Notices) watch(ctx context.Context, now time.Time) (wait time.Duration) {
	if n.polled.IsZero() || now.Sub(n.polled) >= n.o.PollEvery {
		n.polled = now
		n.poll(ctx)
	}
	n.summarize()
	return max(n.o.PollEvery-time.Since(n.polled), 0)
}

func (n *Notices) poll(ctx context.Context) {
	ctx, cancel := outage.Within(ctx)
	defer cancel()
	info, err := n.o.Store(ctx)
	if err != nil {
		return // the engine reports that
	}
	var lacks []string
	for _, c := range info.Checks {
		if c.Needed && c.Holds == dispatcher.No {
			lacks = append(lacks, c.Detail)
		}
	}
	n.Notify(n.healthNews(reasonNotDurable, info.Durable == dispatcher.No, ""))
	n.Notify(n.healthNews(reasonUnfit, len(lacks) > 0, strings.Join(lacks, "; ")))
}

// healthNews returns the news that the store is unhealthy for a reason, or is not.
func (n *Notices) healthNews(reason string, bad bool, detail string) dispatcher.News {
	at := n.o.Now().Truncate(time.Millisecond)
	news := dispatcher.News{Notice: dispatcher.NoticeHealthy, At: at, Reason: reason}
	if bad {
		news.Notice, news.Since, news.Detail = dispatcher.NoticeUnhealthy, at, detail
	}
	return news
}

// summarize reports each problem again for each full hour that it lasts, except one that is
// not published yet.
func (n *Notices) summarize() {
	now := n.o.Now().Truncate(time.Millisecond)
	n.mu.Lock()
	defer n.mu.Unlock()
	for reason, t := range n.ailments {
		hours := int(now.Sub(t.Since) / summaryEvery)
		if hours <= t.hours {
			continue
		}
		t.hours = hours
		n.ailments[reason] = t
		news := t.News
		news.At = now
		news.Key = ailmentKey(&news, 0) + "_" + strconv.Itoa(hours)
		n.add(news)
	}
}

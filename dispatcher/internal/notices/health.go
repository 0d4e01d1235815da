package notices

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/outage"
)

// The reasons for which a store is unhealthy that are found here. The engine tells of the
// others, since it meets them.
const (
	reasonNotDurable = "not_durable" // DURABILITY does not hold
	reasonUnfit      = "unfit"       // it lacks something that is needed
)

const (
	summaryEvery = time.Hour // as dispatcher.Summary has it
	// apart is how far apart two instances may meet the same fault. What begins within it
	// is told once.
	apart = time.Minute
)

// ailment is what makes the store, or our own network, unhealthy now.
type ailment struct {
	dispatcher.News
	hours int // of it that were told
}

// changed notes how the store or our own network is, gives the news their key, and reports whether they are
// any. mu is held.
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

// ailmentKey is made of the minute in which it began.
func ailmentKey(news *dispatcher.News, earlier int64) string {
	return strings.ReplaceAll(news.Reason, "_", "-") + "_" + strconv.FormatInt(news.Since.UnixMilli()/apart.Milliseconds()-earlier, 10)
}

// ails reports whether a notice says that something is unhealthy.
func ails(n dispatcher.Notice) bool {
	return n == dispatcher.NoticeUnhealthy || n == dispatcher.NoticeEgressDown
}

// ofHealth reports whether a notice says how the store or our own network is.
func ofHealth(n dispatcher.Notice) bool {
	return ails(n) || n == dispatcher.NoticeHealthy || n == dispatcher.NoticeEgressUp
}

// settleKey gives news of health the key that another instance has, if that met the same
// fault in the minute before. Where both tell at the same moment it is told twice.
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

// watch asks the store how it is, and tells once an hour what still ails it. It answers
// when that is to be done again.
func (n *Notices) watch(ctx context.Context, now time.Time) (wait time.Duration) {
	if n.asked.IsZero() || now.Sub(n.asked) >= n.o.PollEvery {
		n.asked = now
		n.ask(ctx)
	}
	n.summarize()
	return max(n.o.PollEvery-time.Since(n.asked), 0)
}

func (n *Notices) ask(ctx context.Context) {
	ctx, cancel := outage.Within(ctx)
	defer cancel()
	info, err := n.o.Store(ctx)
	if err != nil {
		return // the engine tells of that
	}
	var lacks []string
	for _, c := range info.Checks {
		if c.Needed && c.Holds == dispatcher.No {
			lacks = append(lacks, c.Detail)
		}
	}
	n.Tell(n.stands(reasonNotDurable, info.Durable == dispatcher.No, ""))
	n.Tell(n.stands(reasonUnfit, len(lacks) > 0, strings.Join(lacks, "; ")))
}

// stands are the news that the store is unhealthy for a reason, or is not so.
func (n *Notices) stands(reason string, bad bool, detail string) dispatcher.News {
	at := n.o.Now().Truncate(time.Millisecond)
	news := dispatcher.News{Notice: dispatcher.NoticeHealthy, At: at, Reason: reason}
	if bad {
		news.Notice, news.Since, news.Detail = dispatcher.NoticeUnhealthy, at, detail
	}
	return news
}

// summarize tells of each ailment once more for each full hour that it lasts, but for one
// that could not be told yet.
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

// Package notices publishes notices about deaths, failing endpoints and problems: to the
// operator at OPS_URL, and to endpoints of tenants that subscribe to our topics. A notice
// is a normal message: it is published through the engine, signed, retried and listed.
//
// The flow:
//   - The engine, the jobs and the archiver call Notify, which never blocks. Pending news are
//     bounded.
//   - Run publishes them (run.go). message.go makes the messages, deaths.go merges the
//     deaths of a lane, and health.go polls the store.
//
// The id of a notice is made from facts. So if several instances report the same, or one
// retries after a lost response, the store keeps one message.
package notices

import (
	"context"
	"log/slog"
	"net/url"
	"sync"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/wait"
)

// Options are the dependencies of Notices. Fields without a comment are required.
type Options struct {
	URL       string // the operator's URL; empty: none
	Publish   func(ctx context.Context, batch []*dispatcher.Message) ([]dispatcher.Published, error)
	Lanes     func(ctx context.Context, lanes []dispatcher.Lane) ([]dispatcher.LaneState, error) // the lanes that exist
	Listeners func(ctx context.Context, tenant, topic string) ([]*dispatcher.Endpoint, error)    // the endpoints of a tenant that subscribe to a topic
	Known     func(ctx context.Context, ids []string) ([]bool, error)                            // which messages exist
	Store     func(ctx context.Context) (dispatcher.StoreInfo, error)                            // the store's own facts; nil: it is not polled
	Now       func() time.Time                                                                   // the queue's clock
	PollEvery time.Duration                                                                      // the interval between two polls of the store
	Log       *slog.Logger
}

// Limits of the pending news and of the memory of published ones. Each lane that opens,
// fails or is disabled is one of them. A thousand at once is a problem of this host or its
// network, not of the receivers.
const (
	pendingMost  = 1000
	pendingBytes = 512 << 10
	detailMost   = 512    // bytes of a detail
	knownMost    = 10_000 // above it some news are published again, and the store refuses them as duplicates
)

// Notices publishes the news that it gets.
type Notices struct {
	o     Options
	owner *url.URL        // parsed Options.URL; nil: none
	ops   dispatcher.Lane // its lane; empty: none
	mark  string          // of its URL, for ids

	mu       sync.Mutex // guards the fields below
	pending  []*item
	bytes    int
	known    map[fact]bool // pending or published
	deaths   map[dispatcher.Lane]*laneDeaths
	ailments map[string]ailment // of the store, by reason
	dropped  int                // since the last log line about them
	unsent   int64              // all dropped ones
	works    bool               // publishing news now

	wake wait.Signal

	polled time.Time // when the store was polled; used by Run
	warned time.Time // when dropped notices were logged; used by Run
}

// item is pending news.
type item struct {
	dispatcher.News
	fact  fact
	made  bool                  // batch is set
	batch []*dispatcher.Message // messages that are not published yet
}

// fact identifies news.
type fact struct {
	notice dispatcher.Notice
	lane   dispatcher.Lane
	key    string
}

func factOf(n *dispatcher.News) fact { return fact{n.Notice, n.Lane, n.Key} }

// New returns Notices. Run publishes them.
func New(o Options) (*Notices, error) {
	n := &Notices{
		o: o, known: map[fact]bool{}, deaths: map[dispatcher.Lane]*laneDeaths{}, ailments: map[string]ailment{}, wake: wait.NewSignal(),
	}
	if o.URL == "" {
		return n, nil
	}
	u, err := dispatcher.ParseURL(o.URL)
	if err != nil {
		return nil, err
	}
	n.owner, n.ops, n.mark = u, dispatcher.URLLane(u, ""), hashed(o.URL)
	return n, nil
}

// Notify queues news. It does not block.
func (n *Notices) Notify(news dispatcher.News) {
	if news.Lane != "" && news.Lane == n.ops {
		return // otherwise a failing OPS_URL would get notices about itself
	}
	if len(news.Detail) > detailMost {
		news.Detail = news.Detail[:detailMost]
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case news.Notice == dispatcher.NoticeDead:
		n.count(news, 1)
		return
	case ofHealth(news.Notice) && !n.changed(&news):
		return
	}
	n.add(news)
}

// add queues news, unless they are known. The caller holds mu.
func (n *Notices) add(news dispatcher.News) {
	f := factOf(&news)
	if n.known[f] {
		return
	}
	size := sizeOf(&news)
	if len(n.pending) >= pendingMost || n.bytes+size > pendingBytes {
		n.countDropped(1)
		return
	}
	if len(n.known) >= knownMost {
		clear(n.known)
	}
	n.known[f] = true
	n.pending = append(n.pending, &item{News: news, fact: f})
	n.bytes += size
	n.wake.Set()
}

// sizeOf estimates the memory of news.
func sizeOf(n *dispatcher.News) int {
	const alone = 300 // its fields, and its entry in known
	return alone + len(n.Key) + len(n.Reason) + len(n.Detail)
}

// take returns the next pending news, or nil.
func (n *Notices) take() *item {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.pending) == 0 {
		return nil
	}
	next := n.pending[0]
	n.works = true
	n.pending[0], n.pending = nil, n.pending[1:]
	n.bytes -= sizeOf(&next.News)
	return next
}

// Busy reports whether there is news to publish now.
func (n *Notices) Busy() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, d := range n.deaths {
		if d.news.Count > 0 && !d.next.After(time.Now()) {
			return true
		}
	}
	return n.works || len(n.pending) > 0
}

// rest records that the taken item was published or put back.
func (n *Notices) rest() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.works = false
}

// putBack queues an item for a retry after all others, because only some lanes may be out
// of reach.
func (n *Notices) putBack(i *item) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pending = append(n.pending, i)
	n.bytes += sizeOf(&i.News)
}

// drop counts messages that are not published. The same news may be reported again.
func (n *Notices) drop(i *item, messages int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.known, i.fact)
	n.countDropped(messages)
}

// Package notices tells what happened: operators at OPS_URL, and tenants at those of their
// endpoints that name our topics. A notice is a message as any other, published through
// the engine: it is signed, repeated and found in lists.
//
// Its id is made of facts. So where several instances tell the same, or one does so
// again since an answer was lost, the store keeps it once.
//
// What is to be told waits here, bounded, and never holds up what happens. run.go
// publishes it, message.go says where it goes and what it says, deaths.go counts
// deliveries that died, and health.go watches the store.
package notices

import (
	"context"
	"log/slog"
	"net/url"
	"sync"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// Options say with what Notices work. Every field without a remark is needed.
type Options struct {
	URL       string // where the operator is told; empty: nowhere
	Publish   func(ctx context.Context, batch []*dispatcher.Message) ([]dispatcher.Published, error)
	Lanes     func(ctx context.Context, lanes []dispatcher.Lane) ([]dispatcher.LaneState, error) // those that exist
	Listeners func(ctx context.Context, tenant, topic string) ([]*dispatcher.Endpoint, error)    // the endpoints of a tenant that take a topic
	Known     func(ctx context.Context, ids []string) ([]bool, error)                            // which messages are known
	Store     func(ctx context.Context) (dispatcher.StoreInfo, error)                            // what the store says of itself; nil: it is not watched
	Now       func() time.Time                                                                   // by the queue's clock
	PollEvery time.Duration                                                                      // how often the store is asked
	Log       *slog.Logger
}

// What waits to be told, and what was, is bounded. Each lane that opens, fails or is
// disabled is one; a thousand at once is a fault of ours or of the network, not of theirs.
const (
	pendingMost  = 1000
	pendingBytes = 512 << 10
	detailMost   = 512    // bytes of a detail
	toldMost     = 10_000 // beyond it some is published again, which the store refuses
)

// Notices tells what it is told of.
type Notices struct {
	o     Options
	owner *url.URL        // of Options.URL; nil: there is none
	ops   dispatcher.Lane // its lane; empty: there is none
	mark  string          // of its URL, for ids

	mu       sync.Mutex // guards what follows
	pending  []*item
	bytes    int
	told     map[fact]bool // pending, or published
	deaths   map[dispatcher.Lane]*laneDeaths
	ailments map[string]ailment // of the store, by reason
	dropped  int
	works    bool // at news that were taken

	wake chan struct{} // 1 deep

	asked  time.Time // when the store was asked last; of Run
	warned time.Time // when it was last logged that notices were dropped; of Run
}

// item is news on their way.
type item struct {
	dispatcher.News
	fact  fact
	made  bool                  // batch is
	batch []*dispatcher.Message // that are to be published still
}

// fact tells news from each other.
type fact struct {
	notice dispatcher.Notice
	lane   dispatcher.Lane
	key    string
}

func factOf(n *dispatcher.News) fact { return fact{n.Notice, n.Lane, n.Key} }

// New makes Notices. Run publishes them.
func New(o Options) (*Notices, error) {
	n := &Notices{
		o: o, told: map[fact]bool{}, deaths: map[dispatcher.Lane]*laneDeaths{}, ailments: map[string]ailment{}, wake: make(chan struct{}, 1),
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

// Tell takes in what happened. It does not block.
func (n *Notices) Tell(news dispatcher.News) {
	if news.Lane != "" && news.Lane == n.ops {
		return // else an OPS_URL that fails would be told of itself
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

// add has Run publish news, unless it was told. mu is held.
func (n *Notices) add(news dispatcher.News) {
	f := factOf(&news)
	if n.told[f] {
		return
	}
	size := sizeOf(&news)
	if len(n.pending) >= pendingMost || n.bytes+size > pendingBytes {
		n.dropped++
		return
	}
	if len(n.told) >= toldMost {
		clear(n.told)
	}
	n.told[f] = true
	n.pending = append(n.pending, &item{News: news, fact: f})
	n.bytes += size
	n.signal()
}

// sizeOf is about how much memory news take.
func sizeOf(n *dispatcher.News) int {
	const alone = 300 // its fields, and its place in told
	return alone + len(n.Key) + len(n.Reason) + len(n.Detail)
}

// take answers what is to be told next; nil: nothing is.
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

// Busy reports whether there is something to tell now.
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

// rest notes that what was taken was told, or put back.
func (n *Notices) rest() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.works = false
}

// putBack has an item wait for another try, behind all others: only some lanes may be out
// of reach.
func (n *Notices) putBack(i *item) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pending = append(n.pending, i)
	n.bytes += sizeOf(&i.News)
}

// drop counts messages that are not published. What they tell may be told again.
func (n *Notices) drop(i *item, messages int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.told, i.fact)
	n.dropped += messages
}

// signal wakes Run.
func (n *Notices) signal() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

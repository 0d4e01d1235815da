package observe

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// GaugeStore stores the counts of all instances.
type GaugeStore interface {
	// Add adds counts of an instance, oldest first. It returns the counts that failed; they
	// must be added again before newer ones.
	Add(ctx context.Context, instance string, counts []dispatcher.MinuteCount) (left []dispatcher.MinuteCount, err error)
	// Minutes reads the minutes with events, oldest first.
	Minutes(ctx context.Context, since, until time.Time) ([]dispatcher.Minute, error)
	// Bars reads the bars of lanes with events, oldest first.
	Bars(ctx context.Context, lanes []dispatcher.Lane, since time.Time) (map[dispatcher.Lane][]dispatcher.Bar, error)
	// Since returns when the figures of a lane began; zero if unknown.
	Since(lane dispatcher.Lane) time.Time
}

// GaugeOptions are the options of a Gauge.
type GaugeOptions struct {
	Instance string // unique over all time, and constant
	Now      func() time.Time
	Log      *slog.Logger
}

const (
	// maxLanes is the number of lanes with their own bar in one minute of one instance. The
	// store has the same limit for half an hour. Each takes 200 bytes here.
	maxLanes = 2000
	// maxWaiting is how many minutes are kept while the store is down. Few events happen
	// then.
	maxWaiting = 60
)

// Gauge counts events. Its methods may be called from several goroutines.
type Gauge struct {
	store   GaugeStore
	options GaugeOptions
	present present

	mu      sync.Mutex // guards the fields below
	at      time.Time  // the present minute; zero before Run
	number  int64      // of the last count
	waiting []dispatcher.MinuteCount
	version int // changes when an Add begins and when it ends

	failing bool // used by Run: the last Add failed
	dropped int  // used by Run: dropped minutes
}

// NewGauge returns a Gauge.
func NewGauge(s GaugeStore, o GaugeOptions) *Gauge {
	g := &Gauge{store: s, options: o}
	for i := range g.present.stripes {
		g.present.stripes[i].at = map[dispatcher.Lane]int{}
	}
	return g
}

// present has the counts of the present minute.
type present struct {
	accepted atomic.Int64
	dead     atomic.Int64
	lanes    atomic.Int64 // with their own bar
	stripes  [stripes]stripe
}

// stripes reduces lock contention: each lane belongs to one stripe, and counting an attempt
// takes less than 100 ns.
const stripes = 16

// stripe counts the attempts of some lanes.
type stripe struct {
	mu     sync.Mutex // guards the fields below
	minute dispatcher.Minute
	at     map[dispatcher.Lane]int // index of a lane in list
	list   []dispatcher.LaneBar
	_      [64]byte // keeps two stripes out of one cache line
}

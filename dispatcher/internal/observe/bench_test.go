package observe_test

import (
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/observe"
)

// The costs that the package's comment names.
func BenchmarkAttempted(b *testing.B) {
	for _, lanes := range []int{1, 100} {
		b.Run(fmt.Sprintf("lanes=%d", lanes), func(b *testing.B) {
			b.ReportAllocs()
			g := observe.NewGauge(&shelf{}, observe.GaugeOptions{Instance: "one", Now: time.Now, Log: slog.New(slog.DiscardHandler)})
			events := make([]dispatcher.Attempted, lanes)
			for i := range events {
				events[i] = dispatcher.Attempted{
					ID:      dispatcher.DeliveryID{Lane: dispatcher.Lane(fmt.Sprintf("ep_01k9abcdefg%02d", i)), Message: "m"},
					Attempt: dispatcher.Attempt{Number: 1, Verdict: dispatcher.Delivered, Duration: 20 * time.Millisecond}, Late: time.Millisecond,
				}
			}
			var next atomic.Int64
			b.RunParallel(func(p *testing.PB) {
				for i := int(next.Add(17)); p.Next(); i++ {
					g.Attempted(events[i%lanes])
				}
			})
		})
	}
}

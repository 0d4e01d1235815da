package audit

import (
	"context"
	"time"
)

// SetClock has the log read another clock.
func (l *Log) SetClock(now func() time.Time) { l.now = now }

// Count ends the minutes that are over.
func (l *Log) Count(ctx context.Context) { l.count(ctx, minute) }

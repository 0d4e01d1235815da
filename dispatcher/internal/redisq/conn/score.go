package conn

import (
	"math"
	"strconv"
	"time"
)

// ScoreText is a score as Redis reads it.
func ScoreText(score float64) string {
	switch {
	case math.IsInf(score, 1):
		return "+inf"
	case math.IsInf(score, -1):
		return "-inf"
	}
	return strconv.FormatFloat(score, 'f', -1, 64)
}

// MillisUp rounds a wait up to whole ms, so that no attempt is early.
func MillisUp(d time.Duration) int64 {
	return int64((max(d, 0) + time.Millisecond - 1) / time.Millisecond)
}

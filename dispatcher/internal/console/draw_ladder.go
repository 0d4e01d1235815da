package console

import (
	"fmt"
	"html/template"
	"math"
	"strings"
	"time"
)

// Knob is the symbol at a rung of a ladder.
type Knob string

// The knobs.
const (
	Ground    Knob = "ground"    // the acceptance of the message
	Failed    Knob = "failed"    // an attempt that was or will be retried
	Delivered Knob = "delivered" // a successful attempt
	Dead      Knob = "dead"      // the end of a delivery that is not attempted again
	Cancelled Knob = "cancelled" // the end of a cancelled delivery
	Next      Knob = "next"      // the next attempt, or one in flight
	Left      Knob = "left"      // an attempt that may follow it
	Bare      Knob = "bare"      // a note between two rungs
)

// least is the smallest height of a row, which has room for a line of text.
const least = 28

// WaitHeight returns the height of a row in pixels, from the wait below its rung. It grows with
// the logarithm: 15 s are 28, 3 min 37, 30 min 47, 15 h 63.
func WaitHeight(wait time.Duration) int {
	return max(least, int(math.Round(13+10.5*math.Log10(1+max(wait, 0).Seconds()))))
}

// knobs are the shapes, centered at 20, 10.
var knobs = map[Knob]string{
	Ground:    `<path class="k-ground" d="M2 10h36"/>`,
	Failed:    `<path class="k-failed" d="M7 10h26"/><circle class="k-failed k-hole" cx="20" cy="10" r="6.5"/><path class="k-failed k-thin" d="M17.7 7.7l4.6 4.6M22.3 7.7l-4.6 4.6"/>`,
	Delivered: `<path class="k-delivered" d="M7 10h26"/><circle class="k-delivered k-full" cx="20" cy="10" r="8"/><path class="k-mark" d="M16.6 10.3l2.3 2.3 4.5-5"/>`,
	Dead:      `<path class="k-dead" d="M7 10h26"/><rect class="k-dead k-full" x="12" y="2" width="16" height="16" rx="3.5"/><path class="k-mark" d="M17 7l6 6M23 7l-6 6"/>`,
	Cancelled: `<path class="k-cancelled" d="M7 10h26"/><circle class="k-cancelled k-hole" cx="20" cy="10" r="6.5"/><path class="k-cancelled k-thin" d="M15.8 14.2l8.4-8.4"/>`,
	Next:      `<path class="k-next" d="M7 10h26"/><circle class="k-next k-hole" cx="20" cy="10" r="7"/><circle class="k-next k-core" cx="20" cy="10" r="2.6"/>`,
	Left:      `<path class="k-left" d="M8 10h24"/>`,
	Bare:      ``,
}

// Rung draws a rung with its symbol, as high as the wait below it. The rails belong to the
// row, because they grow when a part of the row is opened.
func Rung(k Knob, wait time.Duration) template.HTML {
	height := WaitHeight(wait)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="knob" width="40" height="%d" viewBox="0 0 40 %d" aria-hidden="true">%s</svg>`, height, height, knobs[k])
	return svg(&b)
}

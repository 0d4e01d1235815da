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

const (
	meterWidth, meterHeight = 60.0, 16.0
	mostBars                = 20
)

// LadderPosition is a delivery's position on its ladder.
type LadderPosition struct {
	Waits []time.Duration // of the present ladder
	Spent int             // the number of used waits
	Last  Knob            // the result of the last attempt, or Next
}

// LadderMeter draws a position for a row of a list: a bar for each attempt, whose height is the
// logarithm of the wait before it. Attempts that will not be made have no bar. A delivery
// that succeeded at once has no bars.
func LadderMeter(p LadderPosition) template.HTML {
	if p.Last != Next && p.Spent == 0 {
		return ""
	}
	spent := min(max(p.Spent, 0), len(p.Waits))
	bars := spent + 1
	if p.Last == Next {
		bars = len(p.Waits) + 1
	}
	longest := math.Log1p(time.Hour.Seconds())
	for _, wait := range p.Waits {
		longest = max(longest, math.Log1p(wait.Seconds()))
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="meter" width="60" height="16" viewBox="0 0 60 16" role="img" aria-label="Attempt %d of %d">`, spent+1, len(p.Waits)+1)
	step := min(6, meterWidth/float64(min(bars, mostBars)))
	for i := range min(bars, mostBars) {
		height := 3.5
		if i > 0 {
			height = 4 + (meterHeight-4)*math.Log1p(p.Waits[i-1].Seconds())/longest
		}
		x, wide := float64(i)*step, step-2
		switch {
		case i < spent:
			fmt.Fprintf(&b, `<rect class="m-failed" x="%s" y="%s" width="%s" height="%s"/>`, number(x), number(meterHeight-height), number(wide), number(height))
		case i == spent && p.Last == Next:
			fmt.Fprintf(&b, `<rect class="m-next" x="%s" y="%s" width="%s" height="%s"/>`, number(x+.5), number(meterHeight-height+.5), number(wide-1), number(height-1))
		case i == spent:
			fmt.Fprintf(&b, `<rect class="m-%s" x="%s" y="%s" width="%s" height="%s"/>`, p.Last, number(x), number(meterHeight-height), number(wide), number(height))
		default:
			fmt.Fprintf(&b, `<rect class="m-left" x="%s" y="%s" width="%s" height="%s"/>`, number(x), number(meterHeight-height), number(wide), number(height))
		}
	}
	b.WriteString("</svg>")
	return svg(&b)
}

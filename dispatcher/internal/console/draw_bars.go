package console

import (
	"fmt"
	"html/template"
	"slices"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

const (
	barsWidth, barsHeight = 118, 26
	wideWidth, wideHeight = 960, 66
)

// slot is one bar: one or several half hours.
type slot struct {
	at                time.Time
	delivered, failed int64
}

// slots sums the last day into n slots of the same length, oldest first. Missing half hours
// count as zero.
func slots(list []dispatcher.Bar, until time.Time, n int) []slot {
	each := time.Duration(dispatcher.KeptBars/n) * dispatcher.HalfHour
	begin := until.Truncate(dispatcher.HalfHour).Add(dispatcher.HalfHour - time.Duration(n)*each)
	out := make([]slot, n)
	for i := range out {
		out[i].at = begin.Add(time.Duration(i) * each)
	}
	for _, bar := range list {
		if i := int(bar.At.Sub(begin) / each); !bar.At.Before(begin) && i < n {
			out[i].delivered += bar.Delivered
			out[i].failed += bar.Failed.Total()
		}
	}
	return out
}

// heights returns the heights of a slot's two parts. Any failure is visible, even if it is
// a small share.
func (s slot) heights(most int64, height float64) (failed, delivered float64) {
	scale := func(n int64) float64 {
		if n == 0 || most == 0 {
			return 0
		}
		return max(1.5, float64(n)/float64(most)*height)
	}
	failed = scale(s.failed)
	return failed, min(scale(s.delivered), height-failed)
}

// Bars draws the last day of one lane for a row of a list: 24 bars, each with the failed
// part below the delivered one.
func Bars(list []dispatcher.Bar, until time.Time) template.HTML {
	return bars(slots(list, until, 24), barsWidth, barsHeight, `<svg class="bars" width="118" height="26" viewBox="0 0 118 26" role="img"`, false)
}

// WideBars draws the half hours of the last day of one lane, in full width. Each bar shows
// its numbers under the pointer. The bars begin before the first attempt that is known, at most four hours.
func WideBars(list []dispatcher.Bar, until time.Time) template.HTML {
	all := slots(list, until, dispatcher.KeptBars)
	first := max(slices.IndexFunc(all, func(s slot) bool { return s.delivered+s.failed > 0 }), 0)
	shown := all[first/fourHours*fourHours:]
	axis := `<div class="bars-axis">`
	for quarter := 4; quarter > 0; quarter-- {
		axis += fmt.Sprintf("<span>−%d h</span>", len(shown)*quarter/8)
	}
	return bars(shown, wideWidth, wideHeight,
		`<svg class="bars wide" width="100%" height="66" viewBox="0 0 960 66" preserveAspectRatio="none" role="img"`, true) + template.HTML(axis+"<span>now</span></div>") //nolint:gosec // numbers only
}

// fourHours is so many half hours. The axis has four parts, each of whole hours.
const fourHours = 8

func bars(list []slot, width, height float64, open string, labelled bool) template.HTML {
	var most, delivered, failed int64
	for _, s := range list {
		most = max(most, s.delivered+s.failed)
		delivered, failed = delivered+s.delivered, failed+s.failed
	}
	var ok, bad, titles, b strings.Builder
	step := width / float64(len(list))
	for i, s := range list {
		x, wide := float64(i)*step, step-1
		below, above := s.heights(most, height)
		if above > 0 {
			column(&ok, x, height-below-above, wide, above)
		}
		if below > 0 {
			column(&bad, x, height-below, wide, below)
		}
		if labelled {
			fmt.Fprintf(&titles, `<rect class="b-hit" x="%s" y="0" width="%s" height="%s"><title>%s–%s: %s, %s</title></rect>`, number(x), number(step), number(height),
				chartClock(s.at, false), chartClock(s.at.Add(dispatcher.HalfHour), false), many(s.delivered, "delivered"), many(s.failed, "failed"))
		}
	}
	fmt.Fprintf(&b, `%s aria-label="The last 24 hours: %s, %s">`, open, many(delivered, "delivered"), many(failed, "failed"))
	fmt.Fprintf(&b, `<path class="b-base" d="M0 %s.5h%sv.5h-%sz"/>`, number(height-1), number(width), number(width))
	fmt.Fprintf(&b, `<path class="b-ok" d="%s"/><path class="b-fail" d="%s"/>`, ok.String(), bad.String())
	b.WriteString(titles.String())
	b.WriteString("</svg>")
	return svg(&b)
}

// StackPart is one part of a Stack.
type StackPart struct {
	Class string // a CSS class of the console, such as a status
	N     int64
}

// Stack draws a bar of parts in full width. A part that is not zero is visible.
func Stack(parts ...StackPart) template.HTML {
	const width, height, gap, least = 1000.0, 10.0, 4.0, 6.0
	var total int64
	seen := 0
	for _, p := range parts {
		if total += p.N; p.N > 0 {
			seen++
		}
	}
	if total == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString(`<svg class="stack-bar" width="100%" height="10" viewBox="0 0 1000 10" preserveAspectRatio="none" aria-hidden="true">`)
	room, x := width-gap*float64(max(seen-1, 0))-least*float64(seen), 0.0
	for _, p := range parts {
		if p.N <= 0 {
			continue
		}
		wide := least + room*float64(p.N)/float64(total)
		fmt.Fprintf(&b, `<path class="f-%s" d="`, template.HTMLEscapeString(p.Class))
		column(&b, x, 0, wide, height)
		b.WriteString(`"/>`)
		x += wide + gap
	}
	b.WriteString("</svg>")
	return svg(&b)
}

// ProgressBar draws the done and the failed share of a whole.
func ProgressBar(done, failed, whole int) template.HTML {
	const width = 1000.0
	var b strings.Builder
	b.WriteString(`<svg class="stack-bar" width="100%" height="10" viewBox="0 0 1000 10" preserveAspectRatio="none" aria-hidden="true"><path class="f-rest" d="M0 0h1000v10h-1000z"/>`)
	if whole = max(whole, done+failed); whole > 0 {
		of := func(n int) float64 { return width * float64(n) / float64(whole) }
		b.WriteString(`<path class="f-done" d="`)
		column(&b, 0, 0, of(done), 10)
		b.WriteString(`"/><path class="f-dead" d="`)
		column(&b, of(done), 0, of(failed), 10)
		b.WriteString(`"/>`)
	}
	b.WriteString("</svg>")
	return svg(&b)
}

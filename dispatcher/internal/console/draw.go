package console

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// svg returns the picture as HTML.
func svg(b *strings.Builder) template.HTML {
	return template.HTML(b.String()) //nolint:gosec // numbers and constant words only
}

// number formats a coordinate with one decimal.
func number(x float64) string {
	return strconv.FormatFloat(math.Round(x*10)/10, 'f', -1, 64)
}

// column adds the path of a bar, from its upper left corner, width and height.
func column(b *strings.Builder, x, y, width, height float64) {
	fmt.Fprintf(b, "M%s %sh%sv%sh-%sz", number(x), number(y), number(width), number(height), number(width))
}

// many returns a number of things in words.
func many(n int64, what string) string { return fmt.Sprintf("%d %s", n, what) }

// chartClock formats a time of day, with the date if the picture has several days.
func chartClock(t time.Time, days bool) string {
	if days {
		return t.UTC().Format("Mon 15:04")
	}
	return t.UTC().Format("15:04")
}

// point has the rates of one part of the chart, per second.
type point struct{ accepted, delivered, failed float64 }

// steps returns the length of the chart's parts and the distance of its grid lines.
func steps(length time.Duration) (each, grid time.Duration) {
	switch {
	case length <= time.Hour:
		return time.Minute, 10 * time.Minute
	case length <= 3*time.Hour:
		return time.Minute, 30 * time.Minute
	case length <= 24*time.Hour:
		return 5 * time.Minute, 4 * time.Hour
	}
	return 15 * time.Minute, 12 * time.Hour
}

// chartHeight is the height of the plot, in pixels and units.
const chartHeight = 200.0

// flat is how many times the others accepted messages may be before they get an axis of their
// own, because the others would be lines at the bottom.
const flat = 4

// Chart draws the rates of accepted, delivered and failed messages in the time before
// until. Far more accepted ones have their own axis, at the right. A script reads the values from data-points and shows them at the pointer. A screen
// reader gets a sentence.
func Chart(minutes []dispatcher.Minute, until time.Time, length time.Duration) template.HTML {
	each, grid := steps(length)
	list := points(minutes, until, length, each)
	most, most2 := 0.0, 0.0
	for _, p := range list {
		most, most2 = max(most, p.delivered, p.failed), max(most2, p.accepted)
	}
	apart := most > 0 && most2 > flat*most
	if !apart {
		most = max(most, most2)
	}
	top, line := scale(most)
	top2, class := top, "chart"
	if apart {
		top2, class = round(most2*line/top)*top/line, "chart two"
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<div class="%s" data-from="%d" data-step="%d" data-points="`, class, until.Add(-length).UnixMilli(), each.Milliseconds())
	for i, p := range list {
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%s,%s,%s", rate(p.accepted), rate(p.delivered), rate(p.failed))
	}
	b.WriteString(`"><svg class="chart-y" width="44" height="224" aria-hidden="true">`)
	for y := 0.0; y <= top*1.001; y += line {
		fmt.Fprintf(&b, `<text x="38" y="%s" text-anchor="end">%s</text>`, number(at(y, top)+8), label(y))
	}
	fmt.Fprintf(&b, `</svg><svg class="chart-plot" width="100%%" height="224" role="img" aria-label="%s">`, template.HTMLEscapeString(summary(minutes, until, length)))
	b.WriteString(`<svg x="0" y="4" width="100%" height="200" viewBox="0 0 1000 200" preserveAspectRatio="none">`)
	for y := 0.0; y <= top*1.001; y += line {
		fmt.Fprintf(&b, `<path class="c-grid" d="M0 %sh1000"/>`, number(at(y, top)))
	}
	curve(&b, "c-accepted", list, top2, func(p point) float64 { return p.accepted })
	curve(&b, "c-delivered", list, top, func(p point) float64 { return p.delivered })
	curve(&b, "c-failed", list, top, func(p point) float64 { return p.failed })
	b.WriteString(`</svg><line class="c-cursor" visibility="hidden" y1="4" y2="204"/>`)
	from := until.Add(-length)
	for t := from.Truncate(grid).Add(grid); t.Before(until); t = t.Add(grid) {
		if share := 100 * float64(t.Sub(from)) / float64(length); share > 2 && share < 98 {
			fmt.Fprintf(&b, `<text x="%s%%" y="221" text-anchor="middle">%s</text>`, number(share), chartClock(t, length > 24*time.Hour))
		}
	}
	b.WriteString("</svg>")
	if apart {
		b.WriteString(`<svg class="chart-y right" width="44" height="224" aria-hidden="true">`)
		for y := 0.0; y <= top*1.001; y += line {
			fmt.Fprintf(&b, `<text x="6" y="%s">%s</text>`, number(at(y, top)+8), label(y*top2/top))
		}
		b.WriteString(`</svg><p class="hint">What was accepted is drawn by the axis at the right.</p>`)
	}
	b.WriteString("</div>")
	return svg(&b)
}

// points sums minutes into parts of the same length. Missing minutes count as zero.
func points(minutes []dispatcher.Minute, until time.Time, length, each time.Duration) []point {
	list := make([]point, length/each)
	from := until.Add(-length)
	for _, m := range minutes {
		i := int(m.At.Sub(from) / each)
		if m.At.Before(from) || i >= len(list) {
			continue
		}
		list[i].accepted += float64(m.Accepted) / each.Seconds()
		list[i].delivered += float64(m.Delivered) / each.Seconds()
		list[i].failed += float64(m.Failed) / each.Seconds()
	}
	return list
}

// scale returns the top of an axis for values up to most and the distance of its lines: three to
// five lines with round numbers.
func scale(most float64) (top, line float64) {
	if most == 0 {
		return 1, 0.5
	}
	line = math.Pow(10, math.Floor(math.Log10(most)))
	for _, part := range []float64{0.2, 0.5, 1, 2, 5} {
		if most/(line*part) <= 4 {
			line *= part
			break
		}
	}
	return math.Ceil(most/line-1e-9) * line, line
}

// round returns the least round number that is not less than x.
func round(x float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(x)))
	for _, part := range []float64{1, 2, 2.5, 5} {
		if x <= power*part*(1+1e-9) {
			return power * part
		}
	}
	return 10 * power
}

// at returns the y coordinate of a value.
func at(value, top float64) float64 { return chartHeight - chartHeight*value/top }

func curve(b *strings.Builder, class string, list []point, top float64, of func(point) float64) {
	fmt.Fprintf(b, `<path class="%s" d="`, class)
	for i, p := range list {
		if i > 0 && i+1 < len(list) && of(p) == of(list[i-1]) && of(p) == of(list[i+1]) {
			continue // the line is straight here
		}
		letter := "L"
		if i == 0 {
			letter = "M"
		}
		fmt.Fprintf(b, "%s%s %s", letter, number((float64(i)+.5)*1000/float64(len(list))), number(at(of(p), top)))
	}
	b.WriteString(`"/>`)
}

// rate formats a rate with few digits.
func rate(x float64) string {
	switch {
	case x == 0:
		return "0"
	case x < 0.1:
		return fmt.Sprintf("%.3f", x)
	case x < 10:
		return fmt.Sprintf("%.2f", x)
	}
	return fmt.Sprintf("%.1f", x)
}

// label formats a round number of the axis.
func label(x float64) string {
	if x >= 1000 {
		return fmt.Sprintf("%gk", math.Round(x/100)/10)
	}
	return fmt.Sprintf("%.3g", x)
}

// lengthText returns the length of a chart in hours, or in minutes.
func lengthText(length time.Duration) string {
	if length%time.Hour == 0 {
		return manyThings(int(length.Hours()), "hour")
	}
	return manyThings(int(length.Minutes()), "minute")
}

// summary describes a chart in a sentence.
func summary(minutes []dispatcher.Minute, until time.Time, length time.Duration) string {
	var sum, most dispatcher.Minute
	for _, m := range minutes {
		if m.At.Before(until.Add(-length)) || !m.At.Before(until) {
			continue
		}
		sum.Accepted, sum.Delivered, sum.Failed = sum.Accepted+m.Accepted, sum.Delivered+m.Delivered, sum.Failed+m.Failed
		if m.Accepted > most.Accepted {
			most = m
		}
	}
	text := fmt.Sprintf("In %s until %s UTC %s, %s, %s", lengthText(length), chartClock(until, true),
		many(sum.Accepted, "were accepted"), many(sum.Delivered, "delivered"), many(sum.Failed, "attempts failed"))
	if most.Accepted > 0 {
		text += fmt.Sprintf(". The busiest minute was %s with %s", chartClock(most.At, true), many(most.Accepted, "accepted"))
	}
	return text
}

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

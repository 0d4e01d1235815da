package console

import (
	"fmt"
	"html/template"
	"math"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

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

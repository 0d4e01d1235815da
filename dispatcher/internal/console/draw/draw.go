// Package draw makes the pictures of the console's pages: bars, a chart, a meter and the
// parts of a ladder. They are SVG of numbers and our own words: no text from outside is
// ever in them. Their colours come from classes, since a page allows no style of its own.
package draw

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
	"time"
)

// svg is the picture that was built.
func svg(b *strings.Builder) template.HTML {
	return template.HTML(b.String()) //nolint:gosec // made of numbers and our own words alone
}

// number is a coordinate, to a tenth.
func number(x float64) string {
	return strconv.FormatFloat(math.Round(x*10)/10, 'f', -1, 64)
}

// column is a path of a bar: its left upper corner, its width and its height.
func column(b *strings.Builder, x, y, width, height float64) {
	fmt.Fprintf(b, "M%s %sh%sv%sh-%sz", number(x), number(y), number(width), number(height), number(width))
}

// many is a number of things in words.
func many(n int64, what string) string { return fmt.Sprintf("%d %s", n, what) }

// clock is a time of the day, and of which day where a picture has several.
func clock(t time.Time, days bool) string {
	if days {
		return t.UTC().Format("Mon 15:04")
	}
	return t.UTC().Format("15:04")
}

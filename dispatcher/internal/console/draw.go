package console

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
	"time"
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

package console

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/dustin/go-humanize"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/ladder"
)

// functions are the functions of templates.
func functions(now func() time.Time) template.FuncMap {
	return template.FuncMap{
		"rel":       func(t any) template.HTML { return relative(now(), asTime(t)) },
		"clock":     func(t any) string { return clock(now(), asTime(t)) },
		"date":      func(t any) template.HTML { return dated(asTime(t)) },
		"utc":       func(t any) string { return asTime(t).UTC().Format(dateForm) },
		"iso":       func(t any) string { return asTime(t).UTC().Format(time.RFC3339Nano) },
		"since":     func(t any) string { return span(now().Sub(asTime(t))) },
		"span":      func(d any) string { return span(asDuration(d)) },
		"millis":    millis,
		"count":     count,
		"size":      func(n any) string { return size(asCount(n)) },
		"visible":   visible,
		"path":      url.PathEscape,
		"word":      func(s string) string { return strings.ReplaceAll(s, "_", " ") },
		"stateWord": func(state string) string { return cmp.Or(stateWords[state], strings.ReplaceAll(state, "_", " ")) },
		"dict":      dict,
		"hostOf":    hostOf,
		"pathOf":    pathOf,
		"add":       func(a, b int) int { return a + b },
		"hasTime":   func(t any) bool { return !asTime(t).IsZero() },
		"contains":  strings.Contains,
		"capital":   capital,
		"lower":     strings.ToLower,
		"what":      func(n int) string { return map[bool]string{true: "this delivery", false: "all deliveries"}[n == 1] },
		"due":       func(t any) template.HTML { return due(now(), asTime(t)) },

		"bars":     func(list []dispatcher.Bar) template.HTML { return Bars(list, now()) },
		"wideBars": func(list []dispatcher.Bar) template.HTML { return WideBars(list, now()) },
		"checkIcon": func(holds string) string {
			return map[string]string{"yes": "ok", "no": "failing"}[holds] + map[string]string{"unknown": "ready"}[holds]
		},
		"future":      func(t any) bool { return asTime(t).After(now()) },
		"stamp":       func(t any) string { return asTime(t).UTC().Format("2006-01-02T15:04:05.000Z07:00") }, // in the format of the API
		"millisClock": func(t any) string { return asTime(t).UTC().Format("15:04:05.000") },
		"outcomeWord": func(outcome string) string { return cmp.Or(outcomeWords[outcome][0], outcome) },
		"outcomeIcon": func(outcome string) string { return cmp.Or(outcomeWords[outcome][1], "ready") },

		"shownState": shownState,
		"messageOf":  messageOf,
		"firstLine":  firstLine,
		"shortened":  shortened,
	}
}

// stateWords are the states whose own word says little.
var stateWords = map[string]string{"open": "stopped calling"}

// messageOf returns the message of a delivery's id.
func messageOf(delivery string) string {
	_, message, _ := strings.Cut(delivery, ":")
	return message
}

// outcomeWords are the results of an attempt in words, and their icons.
var outcomeWords = map[string][2]string{
	"delivered": {"delivered", "delivered"}, "retry": {"failed, goes on", "retrying"}, "dead": {"dead", "dead"},
	"back": {"given back", "ready"}, "cancelled": {"cancelled", "cancelled"},
}

// asTime converts the times of package wire too.
func asTime(t any) time.Time {
	switch t := t.(type) {
	case time.Time:
		return t
	case wire.Time:
		return t.Time
	case *wire.Time:
		if t != nil {
			return t.Time
		}
	}
	return time.Time{}
}

func asDuration(d any) time.Duration {
	switch d := d.(type) {
	case time.Duration:
		return d
	case wire.Duration:
		return time.Duration(d)
	}
	return 0
}

func asCount(n any) int64 {
	switch n := n.(type) {
	case int:
		return int64(n)
	case int64:
		return n
	case *int64:
		if n != nil {
			return *n
		}
	}
	return 0
}

// dateForm is a time in full, in UTC.
const dateForm = "2006-01-02 15:04:05.000 MST"

// dated returns a time in full. The script shows it in the reader's zone, unless the reader chose UTC.
func dated(t time.Time) template.HTML {
	//nolint:gosec // numbers only
	return template.HTML(fmt.Sprintf(`<time datetime="%s" data-at>%s</time>`, t.UTC().Format(time.RFC3339Nano), t.UTC().Format(dateForm)))
}

// relative formats a time as "3m ago" or "in 8m". A script updates it.
func relative(now, t time.Time) template.HTML {
	if t.IsZero() {
		return "–"
	}
	text := "now"
	switch d := t.Sub(now); {
	case d >= time.Second:
		text = "in " + span(d)
	case d <= -time.Second:
		text = span(-d) + " ago"
	}
	//nolint:gosec // numbers only
	return template.HTML(fmt.Sprintf(`<time datetime="%s" title="%s" data-rel>%s</time>`,
		t.UTC().Format(time.RFC3339Nano), t.UTC().Format("2006-01-02 15:04:05 MST"), text))
}

// due formats a due time, and says so if it has passed.
func due(now, t time.Time) template.HTML {
	text := string(relative(now, t))
	if !t.IsZero() && now.Sub(t) >= time.Second {
		text = strings.Replace(text, "data-rel>", "data-rel data-due>due ", 1)
	} else {
		text = strings.Replace(text, "data-rel>", "data-rel data-due>", 1)
	}
	return template.HTML(text) //nolint:gosec // numbers only
}

// clock formats the time of day, with the date if it is another day.
func clock(now, t time.Time) string {
	now, t = now.UTC(), t.UTC()
	d := t.Sub(now)
	switch {
	case t.IsZero():
		return "–"
	case now.YearDay() == t.YearDay() && now.Year() == t.Year():
		return t.Format("15:04:05")
	case d > -6*24*time.Hour && d < 6*24*time.Hour:
		return t.Format("Mon 15:04")
	}
	return t.Format("2 Jan 2006 15:04")
}

// span formats a duration in its two largest units: 1d12h.
func span(d time.Duration) string {
	d = d.Abs()
	to := time.Millisecond
	switch {
	case d >= 24*time.Hour:
		to = time.Hour
	case d >= time.Hour:
		to = time.Minute
	case d >= time.Second:
		to = time.Second
	}
	if d > 0 {
		d = max(d.Truncate(to), time.Millisecond)
	}
	return ladder.FormatDuration(d)
}

// millis formats a duration in ms.
func millis(ms int64) string {
	switch {
	case ms < 1000:
		return fmt.Sprintf("%d ms", ms)
	case ms < 60_000:
		return fmt.Sprintf("%.1f s", float64(ms)/1000)
	}
	return span(time.Duration(ms) * time.Millisecond)
}

// count formats a number with commas between thousands.
func count(n any) string {
	text := fmt.Sprint(n)
	number, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return text
	}
	return strings.Replace(humanize.Comma(number), "-", "−", 1)
}

// size formats a number of bytes.
func size(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	exp := min(int(math.Log(float64(n))/math.Log(1024)), 4)
	return fmt.Sprintf("%.2f %ciB", float64(n)/math.Pow(1024, float64(exp)), "KMGT"[exp-1])
}

// percent formats a share. It never rounds to 0 % or 100 %.
func percent(part, whole int64) string {
	switch p := float64(part) / float64(whole) * 100; {
	case whole == 0:
		return "–"
	case part == whole || part == 0:
		return fmt.Sprintf("%.0f %%", p)
	case p >= 99.99:
		return "> 99.99 %"
	case p >= 99:
		return fmt.Sprintf("%.2f %%", math.Floor(p*100)/100)
	case p < 0.1:
		return "< 0.1 %"
	default:
		return fmt.Sprintf("%.1f %%", p)
	}
}

// visible replaces characters that could reverse a text or hide a part of it.
func visible(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\n', r == '\t':
			b.WriteRune(r)
		case r < ' ', r >= 0x7f && r < 0xa0, r >= 0x200b && r <= 0x200f, r >= 0x2028 && r <= 0x202e, r >= 0x2060 && r <= 0x2069, r == 0xfeff:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// dict makes a map from names and values, for a template that calls another one.
func dict(pairs ...any) (map[string]any, error) {
	if len(pairs)%2 != 0 {
		return nil, fmt.Errorf("dict: %d values", len(pairs))
	}
	m := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		name, ok := pairs[i].(string)
		if !ok {
			return nil, fmt.Errorf("dict: %v is not a name", pairs[i])
		}
		m[name] = pairs[i+1]
	}
	return m, nil
}

// hostOf and pathOf return the parts of a URL by which people recognize a receiver.
func hostOf(text string) string {
	if u, err := url.Parse(text); err == nil && u.Host != "" {
		return u.Host
	}
	return text
}

func pathOf(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return ""
	}
	return u.RequestURI()
}

// capital returns a text with its first letter in upper case.
func capital(s string) string {
	first, size := utf8.DecodeRuneInString(s)
	if s == "" {
		return ""
	}
	return string(unicode.ToUpper(first)) + s[size:]
}

// whole parses a number parameter; 0 if it is invalid.
func whole(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return n
}

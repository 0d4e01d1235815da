package browsertest

import (
	"bytes"
	"compress/gzip"
	"context"
	_ "embed" // for the checker
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// axe-core, of Deque, is under the Mozilla Public License 2.0, which the head of its
// file names.
//
//go:embed testdata/axe-4.14.1.min.js.gz
var axeFile []byte

var axeScript = sync.OnceValues(func() (string, error) {
	r, err := gzip.NewReader(bytes.NewReader(axeFile))
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(r)
	return string(text), err
})

// Axe returns the problems that axe-core reports for people with little or no sight.
// Each broken rule is one line, with its impact first.
func (b *Tab) Axe() []string { b.t.Helper(); return b.axe("{}") }

// Contrast is Axe with the rules that depend on colours alone. It is enough for a page that
// Axe has seen in other colours.
func (b *Tab) Contrast() []string {
	b.t.Helper()
	return b.axe(`{runOnly: ["color-contrast", "link-in-text-block"]}`)
}

func (b *Tab) axe(options string) (found []string) {
	b.t.Helper()
	if !JS[bool](b, "!!window.axe") { // half a megabyte, once for each page
		script, err := axeScript()
		require.NoError(b.t, err)
		JS[bool](b, "("+strings.TrimRight(strings.TrimSpace(script), ";")+", true)")
	}
	text := JS[string](b, `axe.run(document, {resultTypes: ["violations"], ...`+options+`}).then(r => JSON.stringify(r.violations.map(v =>
		v.impact + ": " + v.id + ": " + v.help + v.nodes.slice(0, 3).map(n => "\n  " + n.html.slice(0, 300) + " " + n.failureSummary).join(""))))`)
	require.NoError(b.t, json.Unmarshal([]byte(text), &found))
	return found
}

// Shifts returns how far elements of the page have moved by themselves. It is the sum
// of the layout shifts that followed no click and no key.
func (b *Tab) Shifts() float64 {
	b.t.Helper()
	return JS[float64](b, `new Promise(done => {
		let sum = 0;
		const o = new PerformanceObserver(l => l.getEntries().forEach(e => { if (!e.hadRecentInput) sum += e.value }));
		o.observe({type: "layout-shift", buffered: true});
		requestAnimationFrame(() => setTimeout(() => { o.disconnect(); done(sum) }));
	})`)
}

// Sideways returns the elements that are wider than the window, because a person must
// scroll sideways to read them.
func (b *Tab) Sideways() (found []string) {
	b.t.Helper()
	text := JS[string](b, fmt.Sprintf(`JSON.stringify((() => {
		const most = Math.min(document.documentElement.clientWidth, %d);
		if (document.scrollingElement.scrollWidth <= most) return [];
		const wide = [...document.body.querySelectorAll("*")].filter(e => e.getBoundingClientRect().right > most + 0.5 && e.checkVisibility());
		return wide.filter(e => !wide.some(o => o !== e && e.contains(o))).slice(0, 5)
			.map(e => Math.round(e.getBoundingClientRect().right) + " of " + most + " px: " + e.outerHTML.slice(0, 160))
			.concat(document.scrollingElement.scrollWidth + " of " + most + " px are scrolled");
	})())`, b.wide))
	require.NoError(b.t, json.Unmarshal([]byte(text), &found))
	return found
}

// Focused describes the element with the focus.
type Focused struct {
	Role, Name string
	HTML       string // the beginning of its HTML
	Ring       bool   // the page draws a ring that shows the focus
}

// Focused returns the element with the focus, or the zero value if no element has the
// focus.
func (b *Tab) Focused() (f Focused) {
	b.t.Helper()
	b.until("look at the focus", func(ctx context.Context) error {
		return chromedp.Do(ctx, chromedp.Func(func(ctx context.Context, s *chromedp.Target) error {
			f = Focused{}
			res, err := cdp.Call(ctx, s, runtime.Evaluate, runtime.EvaluateParams{Expression: "document.activeElement"})
			if err != nil || res.Result.ObjectID == "" {
				return err
			}
			var body bool
			if err := on(ctx, s, res.Result.ObjectID, "function () { return this === document.body }", &body); err != nil || body {
				return err
			}
			nodes, err := cdp.Call(ctx, s, accessibility.GetPartialAXTree, accessibility.GetPartialAXTreeParams{
				ObjectID: res.Result.ObjectID, FetchRelatives: new(false),
			})
			if err != nil {
				return err
			}
			for _, n := range nodes.Nodes {
				f.Name = nameOf(n)
				if n.Role != nil {
					_ = json.Unmarshal(n.Role.Value, &f.Role) // the value is a text
				}
			}
			return on(ctx, s, res.Result.ObjectID, ring, &f)
		}))
	})
	return f
}

// ring reports whether the focus changes the look of the element, or of an element
// around it. A live page may replace the element in the meantime; then it throws, and the
// element with the focus is queried again.
const ring = `function () {
	if (document.activeElement !== this) throw new Error("the focus moved");
	const looks = () => { const l = []; for (let e = this, n = 0; e && n < 5; e = e.parentElement, n++)
		for (const p of [null, "::after", "::before"]) {
			const s = getComputedStyle(e, p);
			l.push([s.outlineStyle, s.outlineStyle === "none" ? "" : s.outlineWidth + s.outlineColor, s.boxShadow, s.backgroundColor, s.borderColor].join());
		} return l.join("|") };
	const html = this.outerHTML.slice(0, 160), focus = looks();
	const e = this;
	e.blur();
	const without = looks();
	e.focus({focusVisible: true, preventScroll: true});
	return {HTML: html, Ring: focus !== without};
}`

// camera allows one picture at a time. The browser does not draw a tab behind another
// tab, and a picture of it would wait without a timeout.
var camera sync.Mutex

const (
	exposure = 5 * time.Second // timeout of a picture
	takes    = 3               // tries for a picture
)

// picture takes a picture of the whole page.
func (b *Tab) picture() (picture []byte, err error) {
	camera.Lock()
	defer camera.Unlock()
	for range takes {
		ctx, cancel := context.WithTimeout(b.ctx, exposure)
		if err = chromedp.Do(ctx, chromedp.Func(func(ctx context.Context, s *chromedp.Target) error {
			_, err := cdp.Call(ctx, s, page.BringToFront, cdp.Empty{})
			return err
		})); err == nil {
			picture, err = chromedp.Run(ctx, chromedp.FullScreenshot(100))
		}
		cancel()
		if err == nil {
			return picture, nil
		}
	}
	return nil, err
}

// Pictures is the flag by which a run writes the pictures of Shot. The default is false,
// because only people look at them.
var Pictures = flag.Bool("pictures", false, "write pictures of all pages to the folder shots")

// Shot writes a picture of the whole page into the folder shots, which git ignores, if the
// flag pictures is set. The test continues if the browser returns no picture.
func (b *Tab) Shot(name string) {
	b.t.Helper()
	if !*Pictures {
		return
	}
	picture, err := b.picture()
	if err != nil {
		b.t.Logf("no picture of %s: %v", name, err)
		return
	}
	require.NoError(b.t, os.MkdirAll(shots, 0o755))
	require.NoError(b.t, os.WriteFile(filepath.Join(shots, name+".png"), picture, 0o644))
}

// shots is the folder of the pictures, below the folder of the tests.
const shots = "shots"

// leave logs the page of a failed test and writes a picture of it.
func (b *Tab) leave() {
	ctx, cancel := context.WithTimeout(b.ctx, patience/6)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string]("location.href + '\\n' + document.body.innerText"))
	b.t.Logf("the tab shows: %s %v", text, err)
	if picture, err := b.picture(); err == nil && os.MkdirAll(shots, 0o755) == nil {
		name := fmt.Sprintf("failed-%s.png", strings.NewReplacer("/", "-", " ", "-").Replace(b.t.Name()))
		_ = os.WriteFile(filepath.Join(shots, name), picture, 0o644)
	}
}

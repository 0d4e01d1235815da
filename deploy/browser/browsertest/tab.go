package browsertest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/deploy/kit/redistest"
)

// patience is the timeout of each wait for a page. It only ends a wait that hangs.
const patience = 30 * time.Second

// width and height are the size of a tab that is no phone: a small laptop's screen.
const width, height = 1280, 800

// Tab is one tab. It embeds the Part of its whole document.
type Tab struct {
	Part
	t    testing.TB
	ctx  context.Context
	wide int64

	mu       sync.Mutex // guards the fields below
	sent     map[network.RequestID]network.EventRequestWillBeSent
	problems []string
	allowed  []string // texts of problems that the test expects
}

// New opens an empty tab with a profile of its own. It closes with the test.
func New(t testing.TB) *Tab {
	t.Helper()
	redistest.Long(t) // make test-short installs no browser
	ctx, err := browser()
	require.NoError(t, err)
	return newTab(t, ctx, chromedp.WithNewBrowserContext())
}

// Another opens one more tab of the same profile.
func (b *Tab) Another() *Tab {
	b.t.Helper()
	ctx, err := browser()
	require.NoError(b.t, err)
	return newTab(b.t, ctx, chromedp.WithExistingBrowserContext(chromedp.FromContext(b.ctx).BrowserContextID))
}

func newTab(t testing.TB, parent context.Context, profile chromedp.ContextOption) *Tab {
	t.Helper()
	b := &Tab{t: t, sent: map[network.RequestID]network.EventRequestWillBeSent{}}
	b.Part = Part{tab: b}
	var cancel context.CancelFunc
	b.ctx, cancel = chromedp.NewContext(parent, profile, chromedp.WithListener(b.hear))
	require.NoError(t, chromedp.Do(b.ctx, chromedp.Func(func(ctx context.Context, s *chromedp.Target) error {
		_, err := cdp.Call(ctx, s, audits.Enable, cdp.Empty{})
		return err
	})), "open a tab")
	b.Scheme("light")
	b.size(width, height, false)
	t.Cleanup(func() {
		if t.Failed() {
			b.leave()
		}
		cancel()
		for _, p := range b.Problems() {
			t.Errorf("a tab: %s", p)
		}
	})
	return b
}

// hear notes the problems of the tab. It runs in the loop that reads its events.
func (b *Tab) hear(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *audits.EventIssueAdded:
		if e.Issue != nil && e.Issue.Details != nil && e.Issue.Details.ContentSecurityPolicyIssueDetails != nil {
			d := e.Issue.Details.ContentSecurityPolicyIssueDetails
			b.problem("CSP: %s blocked %s%s", d.ViolatedDirective, d.ContentSecurityPolicyViolationType, blocked(d))
		}
	case *runtime.EventExceptionThrown:
		b.problem("script: %s", thrown(e.ExceptionDetails))
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError {
			b.problem("script: console.error%s", said(e.Args))
		}
	case *network.EventRequestWillBeSent:
		b.sent[e.RequestID] = *e
	case *network.EventResponseReceived:
		if e.Response != nil && e.Response.Status >= http.StatusBadRequest {
			b.failed(e.RequestID, fmt.Sprint(e.Response.Status))
		}
	case *network.EventLoadingFailed:
		if !e.Canceled {
			b.failed(e.RequestID, e.ErrorText)
		}
	}
}

// failed notes a failed request to the origin of its own document.
func (b *Tab) failed(id network.RequestID, why string) {
	e, known := b.sent[id]
	if !known || e.Request == nil {
		return
	}
	if own, err := sameOrigin(e.DocumentURL, e.Request.URL); err == nil && own {
		b.problem("request: %s %s: %s", e.Request.Method, e.Request.URL, why)
	}
}

func sameOrigin(a, b string) (bool, error) {
	x, err := url.Parse(a)
	if err != nil {
		return false, err
	}
	y, err := url.Parse(b)
	if err != nil {
		return false, err
	}
	return x.Scheme == y.Scheme && x.Host == y.Host, nil
}

func (b *Tab) problem(format string, args ...any) {
	b.problems = append(b.problems, fmt.Sprintf(format, args...))
}

func blocked(d *audits.ContentSecurityPolicyIssueDetails) string {
	text := ""
	if d.BlockedURL != "" {
		text += " " + d.BlockedURL
	}
	if at := d.SourceCodeLocation; at != nil {
		text += fmt.Sprintf(" at %s:%d", at.URL, at.LineNumber)
	}
	return text
}

func thrown(d *runtime.ExceptionDetails) string {
	if d.Exception != nil && d.Exception.Description != "" {
		return d.Exception.Description
	}
	return fmt.Sprintf("%s at %s:%d", d.Text, d.URL, d.LineNumber)
}

func said(args []*runtime.RemoteObject) (text string) {
	for _, a := range args {
		if a.Description != "" {
			text += " " + a.Description
		} else {
			text += " " + string(a.Value)
		}
	}
	return text
}

// Allow allows problems that contain one of texts, such as a status or an address. It
// also removes earlier problems with these texts.
func (b *Tab) Allow(texts ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.allowed = append(b.allowed, texts...)
}

// Problems returns the problems so far, without the allowed ones.
func (b *Tab) Problems() (found []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.problems {
		expected := false
		for _, a := range b.allowed {
			expected = expected || strings.Contains(p, a)
		}
		if !expected {
			found = append(found, p)
		}
	}
	return found
}

// Violations returns the violations of the page's Content-Security-Policy so far.
func (b *Tab) Violations() (found []string) {
	for _, p := range b.Problems() {
		if strings.HasPrefix(p, "CSP: ") {
			found = append(found, p)
		}
	}
	return found
}

// opens is the number of times that Open requests a page before it accepts status
// 503.
const opens = 10

// Open opens a page and waits until it is loaded. A server on a busy machine may
// return 503 first, so Open retries.
func (b *Tab) Open(address string) {
	b.t.Helper()
	status := b.Try(address)
	for n := 1; status == http.StatusServiceUnavailable && n < opens; n++ {
		status = b.Try(address)
	}
	require.Less(b.t, status, http.StatusBadRequest, "open %s", address)
}

// Try opens a page that may be an error, and returns its status.
func (b *Tab) Try(address string) int {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	res, err := chromedp.Run(ctx, chromedp.NavigateResponse(address))
	require.NoError(b.t, err, "open %s", address)
	if res == nil {
		return 0
	}
	return int(res.Status)
}

// Reload reloads the page.
func (b *Tab) Reload() { b.t.Helper(); b.do("reload", chromedp.Reload()) }

// Back starts to load the previous page. It is left after the answer, because a page that is left
// gives none.
func (b *Tab) Back() {
	b.t.Helper()
	JS[bool](b, "setTimeout(() => history.back()), true")
}

// URL returns the page's address.
func (b *Tab) URL() string {
	b.t.Helper()
	return JS[string](b, "location.href")
}

// Scheme sets the colours that the person prefers: light or dark. It also turns off
// animations.
func (b *Tab) Scheme(name string) {
	b.t.Helper()
	b.do("set the colours", chromedp.Func(func(ctx context.Context, s *chromedp.Target) error {
		_, err := cdp.Call(ctx, s, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: name}, {Name: "prefers-reduced-motion", Value: "reduce"},
		}})
		return err
	}))
}

// Phone gives the tab the screen of a phone with this width.
func (b *Tab) Phone(width int64) { b.t.Helper(); b.size(width, 844, true) }

// Desktop gives the tab the screen of a laptop again.
func (b *Tab) Desktop() { b.t.Helper(); b.size(width, height, false) }

// Wide gives the tab a large screen, of which people only look at pictures.
func (b *Tab) Wide() { b.t.Helper(); b.size(1920, 1080, false) }

func (b *Tab) size(width, height int64, phone bool) {
	b.t.Helper()
	b.wide = width
	var more []chromedp.EmulateViewportOption
	if phone {
		more = append(more, chromedp.EmulateMobile)
	}
	b.do("set the size", chromedp.EmulateViewport(width, height, more...))
}

// Zone makes the tab's reader live in a time zone.
func (b *Tab) Zone(name string) {
	b.t.Helper()
	b.do("set the zone", chromedp.Func(func(ctx context.Context, s *chromedp.Target) error {
		_, err := cdp.Call(ctx, s, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: name})
		return err
	}))
}

// Offline cuts the tab off from the network, or connects it again.
func (b *Tab) Offline(offline bool) {
	b.t.Helper()
	rules := network.EmulateNetworkConditionsByRuleParams{MatchedNetworkConditions: []*network.Conditions{}}
	if offline {
		rules.MatchedNetworkConditions = append(rules.MatchedNetworkConditions, &network.Conditions{Offline: true, DownloadThroughput: -1, UploadThroughput: -1})
	}
	b.do("set the network", chromedp.Func(func(ctx context.Context, s *chromedp.Target) error {
		_, err := cdp.Call(ctx, s, network.EmulateNetworkConditionsByRule, rules)
		return err
	}))
}

// NoScript turns off scripts for pages that are opened from now on.
func (b *Tab) NoScript() {
	b.t.Helper()
	b.do("switch scripts off", chromedp.Func(func(ctx context.Context, s *chromedp.Target) error {
		_, err := cdp.Call(ctx, s, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
		return err
	}))
}

// First runs a script in each page that is opened from now on, before the page's own.
func (b *Tab) First(script string) {
	b.t.Helper()
	b.do("run a script first", chromedp.Func(func(ctx context.Context, s *chromedp.Target) error {
		_, err := cdp.Call(ctx, s, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: script})
		return err
	}))
}

// Hide makes the page believe that another tab is in front of it, or that this is
// over.
func (b *Tab) Hide(hidden bool) {
	b.t.Helper()
	state := "visible"
	if hidden {
		state = "hidden"
	}
	JS[bool](b, fmt.Sprintf(`Object.defineProperty(document, "visibilityState", {configurable: true, get: () => %q});
		Object.defineProperty(document, "hidden", {configurable: true, get: () => %t});
		document.dispatchEvent(new Event("visibilitychange"))`, state, hidden))
}

// JS returns the value of an expression in the page.
func JS[T any](b *Tab, expression string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	require.NoError(b.t, err, expression)
	return value
}

// Wait polls until an expression in the page is true.
func (b *Tab) Wait(what, expression string) {
	b.t.Helper()
	b.until(what, func(ctx context.Context) error {
		ok, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("!!("+expression+")"))
		if err == nil && !ok {
			err = fmt.Errorf("not so: %s", expression)
		}
		return err
	})
}

// WaitURL polls until the page's address contains a text.
func (b *Tab) WaitURL(text string) {
	b.t.Helper()
	b.Wait("the address has "+text, fmt.Sprintf("location.href.includes(%q) && document.readyState === 'complete'", text))
}

func (b *Tab) do(what string, steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	require.NoError(b.t, chromedp.Do(ctx, steps...), what)
}

func (b *Tab) until(what string, ok func(context.Context) error) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	require.NoError(b.t, kit.Until(ctx, what, func() error { return ok(ctx) }))
}

// Until polls until ok returns true.
func (b *Tab) Until(what string, ok func() bool) {
	b.t.Helper()
	b.until(what, func(context.Context) error {
		if !ok() {
			return errors.New("not yet")
		}
		return nil
	})
}

// JSText returns the text of an expression in the page.
func (b *Tab) JSText(expression string) string { b.t.Helper(); return JS[string](b, expression) }

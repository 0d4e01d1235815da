// Package browsertest gives tests a tab in a real browser, Chromium. A test opens
// pages, clicks and types by the roles and names that a screen reader uses, and
// checks the page as it is drawn. A tab reports three problems as failures of its
// test. These are a violation of the page's Content-Security-Policy, an error of a
// script, and a failed request. A test can allow a problem that it expects.
//
// The tests of one process share one browser, which Main starts and ends. Each tab of
// New has a profile of its own, so that tabs share no cookies.
package browsertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp"
)

// browser returns the browser of all tests of this process. The first call starts it.
var browser = sync.OnceValues(launch)

// stop ends the browser and removes its files.
var stop = func() {}

// Main runs the tests of a package and ends their browser: func TestMain(m
// *testing.M) { browsertest.Main(m) }.
func Main(m *testing.M) {
	code := m.Run()
	stop()
	os.Exit(code)
}

// launch starts the browser. On Linux the kernel ends it if this process dies before
// the end of Main.
func launch() (context.Context, error) {
	path, err := program()
	if err != nil {
		return nil, err
	}
	swept()
	dir, err := os.MkdirTemp("", fmt.Sprintf("%s%d-", profiles, os.Getpid()))
	if err != nil {
		return nil, err
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path),
		chromedp.UserDataDir(dir),
		chromedp.NoSandbox, // it only opens pages of tests, and containers often forbid its sandbox
		chromedp.Flag("disable-gpu", true),
		// The default of chromedp, and the popup of the address bar: it is a page of its own for each
		// window, which takes longer to start than most tests.
		chromedp.Flag("disable-features", "Translate,BlinkGenPropertyTrees,WebUIOmniboxPopup,WebUIOmniboxAimPopup"),
		chromedp.Flag("hide-scrollbars", false),
		chromedp.Flag("lang", "en-US"),
	)
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocator, chromedp.WithErrorf(func(string, ...any) {}))
	if err := chromedp.Do(ctx); err != nil {
		end()
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	stop = func() {
		_ = chromedp.Cancel(ctx) // it ends with its allocator if this fails
		cancel()
		end()
		chromedp.FromContext(ctx).Allocator.Wait()
		_ = os.RemoveAll(dir) // the next process retries this
	}
	return ctx, nil
}

// profiles is the prefix of the folders of browsers. The process id of the test
// follows it.
const profiles = "hookladder-browser-"

// swept removes the folders of browsers whose test process was killed or panicked.
func swept() {
	old, _ := filepath.Glob(filepath.Join(os.TempDir(), profiles+"*")) // no bad pattern
	for _, dir := range old {
		owner, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), profiles), "-")
		pid, err := strconv.Atoi(owner)
		if err != nil {
			continue
		}
		if p, err := os.FindProcess(pid); err != nil || errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone) {
			_ = os.RemoveAll(dir) // a folder of another user remains
		}
	}
}

// program returns the browser of this machine: Debian's or Ubuntu's Chromium, or
// Chrome. The first one is Chromium without the windows that nobody sees here.
func program() (string, error) {
	var errs []error
	for _, name := range []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"} {
		path, err := exec.LookPath(name)
		if err == nil {
			return path, nil
		}
		errs = append(errs, err)
	}
	return "", fmt.Errorf("find a browser, which .ci/needs chromium installs: %w", errors.Join(errs...))
}

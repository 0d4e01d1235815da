// Package browsertest gives tests a tab in a real browser, Chromium. They open pages,
// click and type by the roles and names that a screen reader tells, and look at what is
// drawn. A tab fails its test on a violation of the page's Content-Security-Policy, an
// error of a script and a failed request, unless the test expects it.
//
// The tests of one process share one browser, which Main starts and ends. Each tab of
// New has a profile of its own: cookies of one are unknown to the others.
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

// browser is that of all tests of this process, once one of them needs it.
var browser = sync.OnceValues(launch)

// stop ends the browser and removes its files.
var stop = func() {}

// Main runs a package's tests, and ends their browser: func TestMain(m *testing.M) {
// browsertest.Main(m) }.
func Main(m *testing.M) {
	code := m.Run()
	stop()
	os.Exit(code)
}

// launch starts the browser. On Linux the kernel ends it when this process dies without
// Main's end.
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
		_ = chromedp.Cancel(ctx) // it ends at the latest with its allocator
		cancel()
		end()
		chromedp.FromContext(ctx).Allocator.Wait()
		_ = os.RemoveAll(dir) // else the next process does
	}
	return ctx, nil
}

// profiles is how the names of the browsers' folders begin, before the process that
// started them.
const profiles = "hookladder-browser-"

// swept removes the folders of browsers whose test process is gone: it was killed, or
// panicked.
func swept() {
	old, _ := filepath.Glob(filepath.Join(os.TempDir(), profiles+"*")) // no bad pattern
	for _, dir := range old {
		owner, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), profiles), "-")
		pid, err := strconv.Atoi(owner)
		if err != nil {
			continue
		}
		if p, err := os.FindProcess(pid); err != nil || errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone) {
			_ = os.RemoveAll(dir) // it is somebody else's
		}
	}
}

// program is the browser of this machine: Debian's, Ubuntu's, or Chrome.
func program() (string, error) {
	var errs []error
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		path, err := exec.LookPath(name)
		if err == nil {
			return path, nil
		}
		errs = append(errs, err)
	}
	return "", fmt.Errorf("find a browser, which .ci/needs chromium installs: %w", errors.Join(errs...))
}

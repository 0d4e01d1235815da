// Package kit starts the processes that tests and the bench need. These are
// redis-server alone or as a cluster, instances of hookladder, and a receiver that
// verifies each callback. The bench is a program, so no file here imports package
// testing. Package redistest starts the same for a test and ends it with the test.
//
// No product code imports it.
package kit

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Until retries ok until it returns no error. It returns the error after the timeout
// Patience, or when the error is Final.
func Until(ctx context.Context, what string, ok func() error) error {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	for wait := time.Millisecond; ; wait = min(2*wait, longestWait) {
		err := ok()
		var last Final
		if err == nil || errors.As(err, &last) {
			return err
		}
		if !Rest(ctx, wait) {
			return fmt.Errorf("wait until %s: %w: %w", what, context.Cause(ctx), err)
		}
	}
}

// longestWait bounds the backoff between two polls. A person does not notice it. A poll may
// start a process or make a call with scripts, so hundreds of tests at once would otherwise load
// the machine by their polls.
const longestWait = 100 * time.Millisecond

// Final is an error that a retry cannot fix.
type Final struct{ error }

// Unwrap returns the error itself.
func (f Final) Unwrap() error { return f.error }

// Rest sleeps, and reports whether ctx was still valid at the end.
func Rest(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// Stop returns err as a Final error, so that Until does not retry.
func Stop(err error) error { return Final{err} }

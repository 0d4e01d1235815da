// Package kit starts what tests and the bench stand on: processes, redis-server
// alone and as a cluster, instances of hookladder, and a receiver that verifies
// what comes. The bench is part of the product's binary, so nothing here imports
// package testing: redistest, beside it, gives tests what ends with them.
//
// No product code but the bench imports it.
package kit

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Until calls ok until it returns no error. It gives up after Patience, or at an
// error that is Final.
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

// longestWait is between two tries: a person does not notice it, and a machine
// with hundreds of tests does not feel it.
const longestWait = 32 * time.Millisecond

// Final is an error that another try does not cure.
type Final struct{ error }

// Unwrap is the error itself.
func (f Final) Unwrap() error { return f.error }

// Rest waits, and reports whether ctx lasted as long.
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

// Stop makes an error Final.
func Stop(err error) error { return Final{err} }

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/hookladder/hookladder/dispatcher/app"
)

// sealAll encrypts endpoints and the headers of messages with the first key, and logs each endpoint.
func sealAll(ctx context.Context, o app.Options, log io.Writer) error {
	failed := 0
	err := app.SealEndpoints(ctx, o, func(id string, err error) {
		if err != nil {
			failed++
			fmt.Fprintf(log, "not sealed: %s\n", err)
			return
		}
		fmt.Fprintf(log, "sealed %s\n", id)
	})
	if err == nil && failed > 0 {
		err = fmt.Errorf("%d endpoints are not sealed: add the key that opens them to ENCRYPTION_KEY, or give them new secrets", failed)
	}
	if err != nil {
		return err
	}
	return errors.Join(sealMessages(ctx, o, log), sealArchive(ctx, o, log))
}

// sealArchive encrypts what the archive could restore. It runs even if some headers in the store
// can't be decrypted, so that one run reports both.
func sealArchive(ctx context.Context, o app.Options, log io.Writer) error {
	waits := sync.OnceFunc(func() { fmt.Fprintln(log, "waiting until the archive has all of the log") })
	done, err := app.SealArchive(ctx, o, waits)
	if done.Sealed > 0 {
		fmt.Fprintf(log, "sealed the headers of %d messages in the archive\n", done.Sealed)
	}
	switch {
	case err != nil:
		return err
	case done.Left > 0:
		return fmt.Errorf("the archive has headers of %d messages that no key opens: add the key that sealed them to ENCRYPTION_KEY", done.Left)
	case done.Endpoints > 0:
		return fmt.Errorf("the archive still has %d endpoints as an older key sealed them: run this again when an instance has archived them", done.Endpoints)
	}
	return nil
}

// sealMessages logs the number of sealed messages, because there may be many.
func sealMessages(ctx context.Context, o app.Options, log io.Writer) error {
	failed := 0
	sealed, err := app.SealMessages(ctx, o, func(err error) {
		if failed++; failed <= 10 {
			fmt.Fprintf(log, "not sealed: %s\n", err)
		}
	})
	if sealed > 0 {
		fmt.Fprintf(log, "sealed the headers of %d messages\n", sealed)
	}
	if err == nil && failed > 0 {
		err = fmt.Errorf("the headers of %d messages are not sealed: add the key that opens them to ENCRYPTION_KEY", failed)
	}
	return err
}

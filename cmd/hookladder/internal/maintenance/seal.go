package maintenance

import (
	"context"
	"fmt"
	"io"

	"github.com/hookladder/hookladder/dispatcher/app"
)

// Seal encrypts endpoints and the headers of messages with the first key, and logs each endpoint.
func Seal(ctx context.Context, o app.Options, log io.Writer) error {
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
	return sealMessages(ctx, o, log)
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

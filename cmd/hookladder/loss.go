package main

import (
	"context"
	"fmt"
	"io"

	"github.com/hookladder/hookladder/dispatcher/app"
)

// lossRun accepts that a store lost data.
type lossRun struct {
	Accept  bool // false: the loss is only reported
	Discard bool // also data that the archive has
}

// Run accepts the loss, or only reports it. It returns the flags that are still missing.
func (l lossRun) Run(ctx context.Context, o app.Options, w io.Writer) (missing string, err error) {
	out, err := app.AcceptLoss(ctx, o, app.LossOptions{Accept: l.Accept, Discard: l.Discard, By: "hookladder doctor"})
	if out.Lost == nil {
		if err == nil {
			_, err = fmt.Fprintln(w, "the store lost no data: nothing was changed")
		}
		return "", err
	}
	fmt.Fprintf(w, "%s\n", out.Lost)
	verb := "would be given up"
	if out.Done {
		verb = "were given up"
	}
	if out.Archive {
		fmt.Fprintf(w, "%s unfinished deliveries and %s endpoints that the archive has %s\n",
			commas(out.Open), commas(out.Endpoints), verb)
	} else {
		fmt.Fprintf(w, "the data %s; there is no archive to count them\n", verb)
	}
	switch {
	case err != nil:
		return "", err
	case out.Done:
		_, err = fmt.Fprintln(w, "running instances continue within seconds")
		return "", err
	case out.Archive && !l.Discard:
		return "--yes --discard-archive", nil
	}
	return "--yes", nil
}

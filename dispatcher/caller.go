package dispatcher

import (
	"context"
)

type callerKey struct{}

// WithCaller notes in ctx the name of the API key whose call this is. It is kept
// with the lanes that the call holds, so that people can look it up.
func WithCaller(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, callerKey{}, name)
}

// CallerOf is the name of the API key whose call this is; empty: it is no call.
func CallerOf(ctx context.Context) string {
	name, _ := ctx.Value(callerKey{}).(string)
	return name
}

package dispatcher

import (
	"context"
)

type callerKey struct{}

// WithCaller says who asks for what is done with ctx: the name of an API key.
// It is kept with what that holds, for people to ask.
func WithCaller(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, callerKey{}, name)
}

// CallerOf is who asks; empty: nobody does.
func CallerOf(ctx context.Context) string {
	name, _ := ctx.Value(callerKey{}).(string)
	return name
}

package client_test

import (
	"context"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/client"
)

// Each method of a Client that New did not make returns an error, whatever its arguments are.
func TestAZeroClientReturnsErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []*client.Client{nil, {}} {
		v := reflect.ValueOf(c)
		for m := range v.NumMethod() {
			method := v.Method(m)
			args := []reflect.Value{}
			for i := range method.Type().NumIn() {
				if method.Type().IsVariadic() && i == method.Type().NumIn()-1 {
					break
				}
				arg := reflect.Zero(method.Type().In(i))
				if method.Type().In(i) == reflect.TypeFor[context.Context]() {
					arg = reflect.ValueOf(t.Context())
				}
				args = append(args, arg)
			}
			name := v.Type().Method(m).Name
			require.NotPanics(t, func() {
				out := method.Call(args)
				last := out[len(out)-1]
				if last.Kind() == reflect.Func { // an iterator, whose last element is the error
					for _, err := range last.Seq2() {
						last = err
					}
				}
				if name != "PublishBatch" { // of no messages
					require.Error(t, last.Interface().(error), name)
				}
			}, name)
		}
	}
}

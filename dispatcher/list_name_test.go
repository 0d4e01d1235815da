package dispatcher_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

// What is not of the list's name: another page, other times, and what the caller can't choose.
var besideTheName = []string{"Limit", "Cursor", "Since", "Until", "Left", "Owned"}

// A new field of a filter is a part of the name by itself.
func TestAListIsNamedByAllOfItsFilterButPagesAndTimes(t *testing.T) {
	names := map[string]string{}
	for _, filter := range []any{
		dispatcher.EndedFilter{}, dispatcher.DeadFilter{}, dispatcher.LogFilter{}, dispatcher.EndpointFilter{}, dispatcher.AuditFilter{},
	} {
		kind := reflect.TypeOf(filter)
		plain := dispatcher.ListName(kind.Name(), filter)
		for i := range kind.NumField() {
			changed := reflect.New(kind).Elem()
			fill(t, changed.Field(i))
			name, field := dispatcher.ListName(kind.Name(), changed.Interface()), kind.Name()+"."+kind.Field(i).Name
			if slices.Contains(besideTheName, kind.Field(i).Name) {
				require.Equal(t, plain, name, field)
				continue
			}
			require.NotEqual(t, plain, name, field)
			require.Empty(t, names[name], field)
			names[name] = field
		}
	}
}

func TestAViewOfATenantIsNoViewOfItsEndpoint(t *testing.T) {
	name := func(v dispatcher.View) string { return dispatcher.ListName("x", dispatcher.LogFilter{View: v}) }
	require.NotEqual(t, name(dispatcher.View{Tenant: "m7"}), name(dispatcher.View{Tenant: "m7", Endpoint: "ep_1"}))
	require.NotEqual(t, name(dispatcher.View{Tenant: "m7"}), name(dispatcher.View{}))
	require.NotEqual(t, dispatcher.ListName("x", dispatcher.LogFilter{}), dispatcher.ListName("y", dispatcher.LogFilter{}))
}

// fill gives a field a value that is not its zero value.
func fill(t *testing.T, v reflect.Value) {
	t.Helper()
	switch one := v.Addr().Interface().(type) {
	case *time.Time:
		*one = time.Unix(1, 0)
	case *dispatcher.View:
		one.Tenant = "m7"
	case *bool:
		*one = true
	default:
		switch v.Kind() {
		case reflect.String:
			v.SetString("word")
		case reflect.Int, reflect.Int64:
			v.SetInt(1)
		case reflect.Slice:
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			fill(t, v.Index(0))
		default:
			require.Fail(t, "a field of another type", "%s", v.Type())
		}
	}
}

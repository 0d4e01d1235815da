package climb

import (
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

// EachWord requires that each word of the API is known here.
func EachWord(t testing.TB) {
	t.Helper()
	for _, c := range []struct {
		of    reflect.Type
		field string
		words map[string]string
	}{
		{reflect.TypeFor[wire.Delivery](), "WaitingFor", waits}, {reflect.TypeFor[wire.Delivery](), "WaitingFor", short},
		{reflect.TypeFor[wire.Delivery](), "DeadReason", reasons}, {reflect.TypeFor[wire.Attempt](), "Class", classes},
	} {
		field, ok := c.of.FieldByName(c.field)
		require.True(t, ok)
		for word := range strings.SplitSeq(field.Tag.Get("enum"), ",") {
			require.Contains(t, c.words, word, c.field)
		}
	}
}

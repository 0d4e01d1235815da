package input_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/internal/input"
)

func TestAPageHasTheUsualSizeUnlessItIsRequestedAndNeverMoreThanItMay(t *testing.T) {
	for _, c := range []struct{ requested, most, want int }{
		{0, 500, 50}, {-1, 500, 50}, {1, 500, 1}, {500, 500, 500}, {501, 500, 500}, {0, 20, 20}, {30, 20, 20},
	} {
		require.Equal(t, c.want, input.PageSize(c.requested, c.most), "%+v", c)
	}
}

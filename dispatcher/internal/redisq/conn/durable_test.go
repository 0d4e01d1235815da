package conn_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
)

func TestHowManyHaveAWriteIsJudged(t *testing.T) {
	for _, c := range []struct {
		name       string
		have, want int
		ok         bool
	}{
		{"none of one", 0, 1, false},
		{"one of two", 1, 2, false},
		{"two of two", 2, 2, true},
		{"more than asked for", 3, 1, true},
	} {
		err := conn.NotDurable(c.have, c.want, "disks have it", nil)
		if c.ok {
			require.NoError(t, err, c.name)
		} else {
			require.ErrorIs(t, err, dispatcher.ErrUnavailable, c.name)
		}
	}
}

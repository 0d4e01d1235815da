package observe_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

func TestAtTheEndNothingIsSaidToBeKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.set(func(s *shelf) { s.away = dispatcher.ErrDiskFull })
		r.deliver("a")
		r.stop()
		require.Contains(t, r.log.String(), `msg="adding the figures of some minutes failed" minutes=1 err="the disk of Redis is full"`)
		require.NotContains(t, r.log.String(), "kept for an hour")
	})
}

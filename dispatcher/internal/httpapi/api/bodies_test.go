package api_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/api"
)

// A buffer of the pool that is a little too small was doubled, and only the half was counted. So
// two bodies found room where only one should.
func TestABodyTakesAsMuchFromTheBudgetAsItsBufferHas(t *testing.T) {
	b := api.NewBodies(1 << 20)
	for range 100 { // the pool may give another buffer
		api.Release(bytes.NewBuffer(make([]byte, 0, 30_000)))
		h := api.Reservation{From: b}
		buf, err := api.Receive(strings.NewReader(strings.Repeat("x", 50_000)), &h, 60_000)
		require.NoError(t, err)
		require.GreaterOrEqual(t, h.Taken(), int64(buf.Cap()))
		h.End()
	}
}

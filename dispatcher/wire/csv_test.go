package wire_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

// Spreadsheets in which people type with full-width characters read these as formulas too.
func TestNoTextOfACSVIsAFormula(t *testing.T) {
	for text, want := range map[string]string{
		"=1+1": "'=1+1", "+1": "'+1", "-1": "'-1", "@a": "'@a", "\ta": "'\ta",
		"＝1+1": "'＝1+1", "＋1": "'＋1", "－1": "'－1", "＠a": "'＠a",
		"1＝1": "1＝1", "ä": "ä", "": "",
	} {
		var out bytes.Buffer
		w := wire.NewCSV(&out, []string{"a", "b"})
		require.NoError(t, w.Write([]string{text, "x"}))
		require.NoError(t, w.Flush())
		require.Equal(t, "a,b\r\n"+want+",x\r\n", out.String(), text)
	}
}

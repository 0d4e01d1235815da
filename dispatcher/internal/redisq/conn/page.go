package conn

import (
	"fmt"
	"strconv"

	"github.com/hookladder/hookladder/dispatcher"
)

// ParsePage reads the cursor of a scan; empty: from the start.
func ParsePage(text string) (uint64, error) {
	if text == "" {
		return 0, nil
	}
	at, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: %q", dispatcher.ErrCursor, text)
	}
	return at, nil
}

// PageText is a scan's cursor as text; empty: it is at its end.
func PageText(at uint64) string {
	if at == 0 {
		return ""
	}
	return strconv.FormatUint(at, 10)
}

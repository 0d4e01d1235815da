package read

// ParseCursor reads a cursor and writes it again.
func ParseCursor(text string) (string, error) {
	c, err := readCursor(text)
	return c.text(), err
}

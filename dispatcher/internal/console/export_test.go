package console

// What tests look at.
var (
	Span    = span
	Count   = count
	Size    = size
	Millis  = millis
	Visible = visible
	OwnPath = ownPath
	Clock   = clock
	Rel     = relative
	Inside  = inside
)

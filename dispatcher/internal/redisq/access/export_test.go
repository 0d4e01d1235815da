package access

// What records are made of, for fuzzing.
var (
	SessionText   = sessionText
	DecodeSession = decodeSession
	EncodeLink    = encodeLink
	DecodeLink    = decodeLink
)

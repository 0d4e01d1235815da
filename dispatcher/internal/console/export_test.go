package console

// What tests look at.
var (
	Span    = span
	Count   = count
	Size    = size
	Millis  = millis
	Visible = visible
	OwnPath = (&server{bases: basesOf(nil)}).ownPath
	Clock   = clock
	Rel     = relative
	Inside  = inside

	Urgency      = urgency
	OutcomeWords = outcomeWords
	Tellings     = tellings
	Lost         = lost
	Kinds        = kinds
	Files        = files

	Subjects         = subjects
	MerchantSubjects = merchantSubjects
)

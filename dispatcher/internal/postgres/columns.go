package postgres

// The columns of the tables, as they are written and read: each list stands here only.
const (
	messageColumns = "month, created, id, tenant, subject, topic, size, head, body"

	eventColumns = "month, at, pos, partition, kind, id, lane, n, status, took, wait, began, " +
		"class, reason, addr, url, by, mark, topic, tenant, subject, error, answer, accepted, token"

	// Of head and body openColumns has nothing: only some rows have them, and few readers need them.
	openColumns = "id, lane, partition, epoch, created, pos, due, attempts, base, beside, asked, topic, tenant, subject"
)

// foundBy is what an end is found by: the token of its subject, or the subject of an end that was
// archived before there were tokens.
const foundBy = "coalesce(token, subject)"

// The words in the column mark of an event.
const (
	markResend = "resend" // of an attempt: a person asked for it
	markAnew   = "anew"   // of Resent: a new ladder begins; else the due time in ms that it interrupted
)

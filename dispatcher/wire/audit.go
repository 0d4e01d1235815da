package wire

// AuditEntry is one requested change.
type AuditEntry struct {
	At     Time   `json:"at" doc:"By the store's clock."`
	By     string `json:"by" doc:"key:<name of the API key>, link:<its id>, system, or local while there are no keys."`
	What   string `json:"what" example:"endpoint.pause"`
	Target string `json:"target" doc:"The id of an endpoint, a message, a job or a link, a lane, scheme, host and port of a URL, or * for all lanes. Empty: a call failed before it made something, or the entry is a count."`
	Tenant string `json:"tenant,omitzero" doc:"Where it is known."`
	Detail string `json:"detail,omitzero" doc:"The names of changed fields, parameters, or why the change failed. Of the calls of one kind that a key makes in a minute, the first ten have entries; one more entry counts the others."`
}

// AuditPage is a page of the audit, newest first.
type AuditPage struct {
	Data       []AuditEntry `json:"data"`
	NextCursor *string      `json:"next_cursor" nullable:"true" doc:"null: this is the last page."`
}

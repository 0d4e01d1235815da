package wire

// AuditEntry is one change, as it was asked for.
type AuditEntry struct {
	At     Time   `json:"at" doc:"By the store's clock."`
	By     string `json:"by" doc:"key:<name of the API key>, link:<its id>, system, or local while there are no keys."`
	What   string `json:"what" example:"endpoint.pause"`
	Target string `json:"target" doc:"The id of an endpoint, a message or a link, a lane, scheme, host and port of a URL, or * for all lanes."`
	Tenant string `json:"tenant,omitzero" doc:"Where it is known."`
	Detail string `json:"detail,omitzero" doc:"The names of changed fields, parameters, or why the change failed. Of a loop of calls the first of a minute have entries, and the last of these counts the others here."`
}

// AuditPage is a part of the audit, newest first.
type AuditPage struct {
	Data       []AuditEntry `json:"data"`
	NextCursor *string      `json:"next_cursor" nullable:"true" doc:"null: this is the last page."`
}

package wire

// LinkRequest is a request for a link that shows people of a tenant its deliveries.
type LinkRequest struct {
	Tenant   string   `json:"tenant"`
	For      Duration `json:"for,omitzero" doc:"1s to 30d; left out: 24h."`
	Manage   bool     `json:"manage,omitzero" doc:"true: they may add an endpoint (not with endpoint), edit url, topics and description, pause, resume, rotate, test and resend, 60 changes an hour in all. A url that they set is called after a test succeeded."`
	Endpoint string   `json:"endpoint,omitzero" doc:"Id or uid of one of the tenant's endpoints: they see only that one."`
	Name     string   `json:"name,omitzero" maxLength:"128" doc:"Whom it is for, for those who list links."`
}

// NewLink is a link that was just made.
type NewLink struct {
	ID        string `json:"id"`
	URL       string `json:"url" doc:"Everyone who has this URL can open the pages. No other answer has it."`
	ExpiresAt Time   `json:"expires_at"`
}

// Link is a link that has not expired.
type Link struct {
	ID        string `json:"id"`
	Tenant    string `json:"tenant"`
	Endpoint  string `json:"endpoint,omitzero" doc:"Left out: all endpoints of the tenant."`
	Manage    bool   `json:"manage"`
	Name      string `json:"name,omitzero"`
	By        string `json:"by" doc:"The caller that made it: key:<name of the API key>, or local while there are no keys."`
	CreatedAt Time   `json:"created_at"`
	ExpiresAt Time   `json:"expires_at"`
	Ended     string `json:"ended,omitzero" enum:"key" doc:"key: the API key that made it was taken away, so it opens nothing. Left out: it opens."`
}

// LinkPage is a page of links, newest first.
type LinkPage struct {
	Data       []Link  `json:"data"`
	NextCursor *string `json:"next_cursor" nullable:"true" doc:"null: this is the last page."`
}

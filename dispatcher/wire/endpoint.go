package wire

import "github.com/hookladder/hookladder/ladder"

// Endpoint is a destination as a caller registers it.
type Endpoint struct {
	UID               string            `json:"uid,omitzero" maxLength:"128" pattern:"^[A-Za-z0-9_.:@-]+$" example:"merchant-7" doc:"The caller's own name, usable wherever an id is. To create it again is 200 if it is equal and 409 if not. It doesn't begin with ep_, u_ or q_, as lanes do."`
	Tenant            string            `json:"tenant,omitzero" maxLength:"128" pattern:"^[!-~]+$" doc:"Whose messages it gets: those of the same tenant, or without one those without."`
	Kind              string            `json:"kind,omitzero" words:"kind" doc:"push: its URL is called. pull: it has no url, success or timeout, and what it gets is taken. Default: push. It can't be changed."`
	URL               string            `json:"url,omitzero" maxLength:"2048" format:"uri" example:"https://shop.example/hooks" doc:"Where it is: an absolute http or https URL. Needed, but for the kind pull, which has none."`
	Topics            []string          `json:"topics,omitzero" maxItems:"64" example:"[\"payment.*\"]" doc:"Patterns of the topics it gets: a topic, one whose last word is *, or * for all but notices. Default: *. Notices about its tenant go where a pattern begins with hookladder., and those of deaths only where hookladder.delivery.dead stands itself. An empty list: only messages that name the endpoint."`
	TopicsAllowed     []string          `json:"topics_allowed,omitzero" maxItems:"64" example:"[\"payment.*\"]" doc:"What links may choose among. A link to this endpoint alone sets only topics that lie within one of these patterns. Any link sets topics that begin with hookladder. only where a pattern here names them. Default: the topics that an operator set last; all but hookladder. where none did."`
	Description       string            `json:"description,omitzero" maxLength:"1024"`
	Metadata          map[string]string `json:"metadata,omitzero" maxProperties:"16" doc:"The caller's own notes, together at most 4 KiB."`
	Secret            string            `json:"secret,omitzero" doc:"What it is signed with, as the signature wants it. Default: one is made. Only the answers that create the endpoint or rotate the secret, and GET /v1/endpoints/{id}/secret, ever hold it."`
	Signature         string            `json:"signature,omitzero" words:"scheme" doc:"How it is signed. Default: standard."`
	SignatureHeader   string            `json:"signature_header,omitzero" maxLength:"64" example:"x-acme-sign" doc:"The header that holds the signature; of hmac and hmac-hex only. Default: x-signature."`
	SignatureHash     string            `json:"signature_hash,omitzero" words:"signature-hash" doc:"The hash function; of hmac only. Default: sha256."`
	SignatureEncoding string            `json:"signature_encoding,omitzero" words:"signature-encoding" doc:"The text form of the signature; of hmac only. Default: hex."`
	SignaturePrefix   string            `json:"signature_prefix,omitzero" maxLength:"16" example:"v0=" doc:"The text before the signature; of hmac with the content body only. Default: none."`
	SignatureContent  string            `json:"signature_content,omitzero" words:"signature-content" doc:"The signed text; of hmac only. body: the body. t.body and t-comma-body: the time in Unix seconds, a dot or a comma, and the body; the header is then t=<time>,v1=<signature>, with one v1 for each secret. Default: body."`
	Ladder            *ladder.Ladder    `json:"ladder,omitzero" doc:"The waits between attempts. Default: the dispatcher's."`
	Timeout           Duration          `json:"timeout,omitzero" doc:"Of one attempt, 1s to 60s. Default: the dispatcher's."`
	MaxInFlight       int               `json:"max_in_flight,omitzero" minimum:"1" maximum:"65536" doc:"Most attempts under way at a time, over all instances. Default: the dispatcher's."`
	Rate              string            `json:"rate,omitzero" pattern:"^[0-9]+/[smh]$" example:"100/s" doc:"Most attempts in a second (s), minute (m) or hour (h). Default: no bound."`
	Headers           map[string]string `json:"headers,omitzero" maxProperties:"20" doc:"Extra headers for the receiver, together at most 8 KiB. Names that are ours, or by which proxies describe a request, are refused. They may be secret: in every answer *** stands for each value, and *** in a patch keeps the value there is. They belong to the url that they were set for: see headers_held."`
	Success           *Success          `json:"success,omitzero" doc:"What the receiver must answer. Default: the dispatcher's."`
	Ordered           bool              `json:"ordered" required:"false" doc:"One at a time, and one that fails holds the rest."`
	Trace             bool              `json:"trace,omitzero" doc:"Its receiver gets the header traceparent: of the publish, or of the attempt if traces are on. tracestate and baggage are never sent."`
	Disabled          bool              `json:"disabled" required:"false" doc:"What waits and what matches is recorded as dead with the reason disabled, unattempted. A receiver's 410 sets it too, and DISABLE_AFTER; resume ends it."`

	DisableAfter *Duration `json:"disable_after,omitzero" nullable:"false" doc:"It is disabled by the first failed attempt so long after failing_since, at most 365d; 0s: never. Default: the dispatcher's."`
}

// Hidden replaces the value of a header in responses.
const Hidden = "***"

// EndpointView is an endpoint with its state, as the API returns it.
type EndpointView struct {
	ID string `json:"id" doc:"Also the lane of its deliveries."`
	Endpoint
	State    string `json:"state" words:"state" doc:"open: its breaker is, so it waits or is tried with one attempt. unverified: a link set its url, which waits for a test that succeeds."`
	InFlight int    `json:"in_flight"`
	Waiting  int    `json:"waiting"`

	SecretFingerprint string `json:"secret_fingerprint,omitzero" example:"1a2b3c4d" doc:"The first 8 hex digits of the SHA-256 of the text of the newest secret, so that a receiver can compare its own. Left out: a person may have chosen the secret, as the schemes allow whose secret is a plain text."`

	HeadersHeld bool     `json:"headers_held,omitzero" doc:"true: held_headers has names."`
	HeldHeaders []string `json:"held_headers,omitzero" maxItems:"20" doc:"Headers that are not sent, tests included: a link set another url than the one that their values were given for. POST /v1/endpoints/{id}/confirm releases them, or the former url. A patch releases a header only if it has its value and the url."`

	ReleasedHeaders []string `json:"released_headers,omitzero" maxItems:"20" doc:"Headers that were held before this call, and are sent from now on."`

	FailingSince Time `json:"failing_since,omitzero" doc:"Its first failed attempt without a success since; 429 and our own faults don't count. Resume, another url or a test that succeeds end it."`

	LastFailure *LaneFailure `json:"last_failure,omitzero" doc:"Its last attempt that failed, also if others succeeded since. Left out: none did, or its message is not kept any more."`

	DisabledAt     Time   `json:"disabled_at,omitzero"`
	DisabledReason string `json:"disabled_reason,omitzero" words:"disabled" doc:"gone: its receiver answered 410. failing: none of its attempts succeeded for disable_after."`

	CreatedAt Time `json:"created_at"`
	UpdatedAt Time `json:"updated_at"`
}

// EndpointPage is a page of the list of endpoints, newest first.
type EndpointPage struct {
	Data       []EndpointView `json:"data"`
	NextCursor *string        `json:"next_cursor" nullable:"true" doc:"null: this is the last page."`
}

// EndpointDeleted is the response to the deletion of an endpoint.
type EndpointDeleted struct {
	Cancelled int `json:"cancelled" doc:"How many deliveries waited for it; they are cancelled."`
}

// Confirmation is an operator's approval of a URL that a link set.
type Confirmation struct {
	URL string `json:"url" maxLength:"2048" format:"uri" doc:"The url that the endpoint has, as you have read it."`
}

// Rotation is a request for another secret.
type Rotation struct {
	Overlap *Duration `json:"overlap,omitzero" nullable:"false" doc:"How long the old secrets go on signing besides the new one, at most 30d. Default: 24h. 0s: they end now. github, hmac-hex and hmac without a time have room for one signature: the new secret makes it at once."`
	Secret  string    `json:"secret,omitzero" doc:"The new one, as the endpoint's signature wants it. Default: one is made."`
}

// Rotated is the response to a rotation: the endpoint with its new secret. Besides it, only
// EndpointSecrets returns secrets.
type Rotated struct {
	EndpointView
	PublicKey     string `json:"public_key,omitzero" doc:"What a receiver verifies with, where the signature is standard-ed25519."`
	PreviousUntil Time   `json:"previous_until" nullable:"true" doc:"Until when the secret before signs too; null: it has ended."`
}

// EndpointSecrets has the secrets that sign callbacks to an endpoint.
type EndpointSecrets struct {
	ID        string           `json:"id" doc:"Of the endpoint."`
	Signature string           `json:"signature" words:"scheme"`
	Secrets   []EndpointSecret `json:"secrets" doc:"The current one first."`
}

// EndpointSecret is one of EndpointSecrets.
type EndpointSecret struct {
	Secret    string `json:"secret"`
	PublicKey string `json:"public_key,omitzero" doc:"What a receiver verifies with, where the signature is standard-ed25519."`
	Until     Time   `json:"until" nullable:"true" doc:"When it ceases to sign; null: it is the current one."`
}

// EndpointTest is the result of a test message with the receiver's response.
type EndpointTest struct {
	MessageID       string `json:"message_id"`
	At              Time   `json:"at"`
	DurationMS      int64  `json:"duration_ms"`
	StatusCode      int    `json:"status_code,omitzero" doc:"Left out: no answer came."`
	Outcome         string `json:"outcome" words:"test-outcome" doc:"Whether the receiver took it; a test is not repeated."`
	Error           string `json:"error,omitzero"`
	ResponseExcerpt string `json:"response_excerpt,omitzero"`
}

// PublicKeyPage is a page of public keys.
type PublicKeyPage struct {
	Data       []PublicKey `json:"data"`
	NextCursor *string     `json:"next_cursor" nullable:"true" doc:"null: this is the last page. A page may be short, or empty, while it goes on."`
}

// PublicKey verifies callbacks to an endpoint whose signature is standard-ed25519.
type PublicKey struct {
	Endpoint  string `json:"endpoint" doc:"Its id."`
	PublicKey string `json:"public_key"`
	Until     Time   `json:"until" nullable:"true" doc:"When its secret ceases to sign; null: it is the current one."`
}

package httpapi

import (
	"bytes"
	"fmt"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/api"
)

// ReadRow parses a row of an outbox with the checks of POST /v1/messages. The row has the JSON of the
// fields, and the body unless the JSON has it. A nil message was too large to be read. If the row
// is no valid message, m is nil and ReadRow returns a refusal.
func ReadRow(id string, message, body []byte, policy dispatcher.Policy) (m *dispatcher.Message, status int, refusal []byte) {
	if message == nil {
		bad := &api.Problem{Kind: api.TooLarge, Detail: fmt.Sprintf("its body may have %d bytes (MAX_BODY): send less, or raise the setting", policy.MaxBody)}
		return nil, bad.Kind.Status, bad.Body()
	}
	d := api.Lend(message)
	defer d.Free()
	p := messageFields.Fill(d, api.Single, &dispatcher.Message{})
	if d.End(); d.Err != nil {
		bad, _ := api.ProblemFor(api.MalformedJSON(d.Err))
		return nil, bad.Kind.Status, bad.Body()
	}
	if p.Value != nil {
		if p.Has(bitID) && p.Value.ID != id {
			p.Fault("$.id", "is not the id of the row")
		}
		p.Value.ID, p.Given = id, p.Given|bitID
		if body != nil {
			giveBody(&p, d, body)
		}
	}
	complete(&p, api.Single)
	if bad := judge(&p, api.Single, policy); bad != nil {
		return nil, bad.Kind.Status, bad.Body()
	}
	return p.Value, 0, nil
}

// giveBody sets the body of a row. Without a content type it has to be JSON, as in the field.
func giveBody(p *decodedMessage, d *api.Decoder, body []byte) {
	if p.Has(bitBody | bitRawBody | bitRawBodyBase64) {
		p.Fault("$.body", "give the body in the message or beside it, not both")
		return
	}
	p.Value.Body, p.Given = body, p.Given|bitBody
	if p.Has(bitContentType) {
		return
	}
	d.Reset(bytes.NewBuffer(body))
	v := d.Value()
	switch d.End(); {
	case d.Err != nil:
		p.Fault("$.body", "is not JSON: give the content_type of any other body")
	case api.Nests(v):
		p.Fault("$.body", fmt.Sprintf("nests deeper than %d: give its content_type, and it is not read", api.MaxDepth))
	}
}

// RowOutcome returns the status and the refusal that POST /v1/messages would return.
func RowOutcome(r *dispatcher.Published) (status int, refusal []byte) {
	if err := refused(r, api.Single); err != nil {
		p, _ := api.ProblemFor(err)
		return p.Kind.Status, p.Body()
	}
	return publishedStatus(r), nil
}

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

// outpostAnswers are the destinations of Outpost, each list with the tenant of its path.
type outpostAnswers struct {
	destinations []outpostDestination
	tenants      []string
	listed       map[string]bool // the tenants whose destinations are in the file
}

// outpostDestination is one item of GET /tenants/{id}/destinations.
type outpostDestination struct {
	ID               string            `json:"id"`
	TenantID         string            `json:"tenant_id"`
	Type             string            `json:"type"`
	Topics           outpostTopics     `json:"topics"`
	Filter           json.RawMessage   `json:"filter"`
	Config           map[string]string `json:"config"`
	Credentials      map[string]string `json:"credentials"`
	DeliveryMetadata json.RawMessage   `json:"delivery_metadata"`
	Metadata         map[string]string `json:"metadata"`
	DisabledAt       string            `json:"disabled_at"`
}

// outpostTopics is "*", or a list.
type outpostTopics []string

// UnmarshalJSON accepts both forms.
func (t *outpostTopics) UnmarshalJSON(text []byte) error {
	var one string
	if json.Unmarshal(text, &one) == nil {
		*t = outpostTopics{one}
		return nil
	}
	return json.Unmarshal(text, (*[]string)(t))
}

func (o *outpostAnswers) take(path string, body json.RawMessage) error {
	var page struct {
		Models []struct{ ID string } `json:"models"`
	}
	if body = bytes.TrimSpace(body); body[0] == '{' {
		if err := json.Unmarshal(body, &page); err != nil || page.Models == nil {
			return errAnswer
		}
		for _, tenant := range page.Models {
			o.tenants = append(o.tenants, tenant.ID)
		}
		return nil
	}
	var list []outpostDestination
	if err := json.Unmarshal(body, &list); err != nil {
		return fmt.Errorf("%w: %w", errAnswer, err)
	}
	tenant := ""
	if at, ok := pathSegments(path, "tenants"); ok && len(at) == 2 {
		tenant = at[0]
		o.listed[tenant] = true
	}
	for _, d := range list {
		if d.TenantID == "" {
			d.TenantID = tenant
		}
		if d.TenantID == "" {
			return errors.New("has no tenant: save it with its path")
		}
		o.destinations = append(o.destinations, d)
	}
	return nil
}

func (o *outpostAnswers) convert(c *conversion) error {
	for _, tenant := range o.tenants {
		if !o.listed[tenant] {
			return errMissingAnswer("/tenants", tenant, "destinations")
		}
	}
	for i := range o.destinations {
		d := &o.destinations[i]
		if d.Type != "webhook" {
			c.lose("destination of type "+d.Type, true)
			continue
		}
		e := &wire.Endpoint{
			UID: importedUID(fromOutpost, d.ID), Tenant: d.TenantID, URL: d.Config["url"], Topics: d.Topics,
			Metadata: d.Metadata, Secret: d.Credentials["secret"], Disabled: d.DisabledAt != "",
			Signature: "hmac", SignatureHeader: "x-outpost-signature", SignaturePrefix: "v0=",
		}
		var err error
		if text := d.Config["custom_headers"]; text != "" {
			if json.Unmarshal([]byte(text), &e.Headers) != nil {
				err = errors.New("$.config.custom_headers: is not a JSON object of texts")
			}
		}
		c.lose("filter", isFilled(d.Filter))
		c.lose("delivery_metadata", isFilled(d.DeliveryMetadata))
		c.lose("previous_secret", d.Credentials["previous_secret"] != "")
		c.add(e, err)
	}
	return nil
}

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/ladder"
)

// convoyAnswers are the answers of Convoy. The topics of an endpoint are in its
// subscriptions, and the form of its signature is in the project.
type convoyAnswers struct {
	endpoints []convoyEndpoint
	projects  map[string]convoyProject
	topics    map[string][]string // by the endpoint

	filters, functions int // subscriptions that have one
}

// convoyProject is the answer of GET /api/v1/projects/{id}.
type convoyProject struct {
	UID    string `json:"uid"`
	Config struct {
		Signature struct {
			Header   string `json:"header"`
			Versions []struct{ Hash, Encoding string }
		} `json:"signature"`
	} `json:"config"`
}

// convoyEndpoint is one item of GET /api/v1/projects/{id}/endpoints.
type convoyEndpoint struct {
	wire.Endpoint // the fields with the same names

	ProjectID          string `json:"project_id"`
	OwnerID            string `json:"owner_id"`
	Name               string `json:"name"`
	Status             string `json:"status"`
	AdvancedSignatures bool   `json:"advanced_signatures"`
	Secrets            []struct {
		Value     string  `json:"value"`
		ExpiresAt *string `json:"expires_at"`
	} `json:"secrets"`
	HTTPTimeout       convoySeconds `json:"http_timeout"`
	RateLimit         int           `json:"rate_limit"`
	RateLimitDuration convoySeconds `json:"rate_limit_duration"`
	ContentType       string        `json:"content_type"`
	Authentication    *struct {
		Type   string `json:"type"`
		APIKey struct {
			Name  string `json:"header_name"`
			Value string `json:"header_value"`
		} `json:"api_key"`
	} `json:"authentication"`
	ClientCert json.RawMessage `json:"mtls_client_cert"`
	Slack      string          `json:"slack_webhook_url"`
	Email      string          `json:"support_email"`
}

// convoySeconds is a number of seconds, or a text such as 10s of an older Convoy.
type convoySeconds time.Duration

// UnmarshalJSON accepts both forms.
func (s *convoySeconds) UnmarshalJSON(text []byte) error {
	plain := strings.Trim(string(text), `"`)
	if plain == "null" || plain == "" {
		return nil
	}
	d, err := ladder.ParseDuration(plain)
	*s = convoySeconds(d)
	return err
}

// convoySubscription is one item of GET /api/v1/projects/{id}/subscriptions.
type convoySubscription struct {
	Endpoint *struct{ UID string } `json:"endpoint_metadata"`
	Filter   *struct {
		EventTypes []string        `json:"event_types"`
		Filter     json.RawMessage `json:"filter"`
	} `json:"filter_config"`
	Function string `json:"function"`
}

func (v *convoyAnswers) take(_ string, body json.RawMessage) error {
	var answer struct {
		Data struct {
			convoyProject
			Content []json.RawMessage `json:"content"`
		}
	}
	err := json.Unmarshal(body, &answer)
	switch data := &answer.Data; {
	case err == nil && data.Content != nil:
		for _, item := range data.Content {
			if err := v.item(item); err != nil {
				return err
			}
		}
		return nil
	case err == nil && len(data.Config.Signature.Versions) > 0:
		v.projects[data.UID] = data.convoyProject
		return nil
	}
	return errors.Join(errAnswer, err)
}

// item takes an endpoint or a subscription.
func (v *convoyAnswers) item(text json.RawMessage) error {
	var s convoySubscription
	if err := json.Unmarshal(text, &s); err != nil {
		return err
	}
	if s.Endpoint == nil && s.Filter == nil {
		var e convoyEndpoint
		if err := json.Unmarshal(text, &e); err != nil || e.UID == "" || e.URL == "" {
			return errors.Join(errAnswer, err)
		}
		v.endpoints = append(v.endpoints, e)
		return nil
	}
	if s.Endpoint == nil || s.Filter == nil {
		return nil // of a source that takes events in, or without event types
	}
	v.topics[s.Endpoint.UID] = append(v.topics[s.Endpoint.UID], s.Filter.EventTypes...)
	if isFilled(s.Filter.Filter) {
		v.filters++
	}
	if s.Function != "" {
		v.functions++
	}
	return nil
}

func (v *convoyAnswers) convert(c *conversion) error {
	if len(v.endpoints) > 0 && len(v.topics) == 0 {
		return errMissingAnswer("/projects", v.endpoints[0].ProjectID, "subscriptions")
	}
	for i := range v.endpoints {
		one := &v.endpoints[i]
		project, ok := v.projects[one.ProjectID]
		if !ok {
			return errMissingAnswer("/projects", one.ProjectID) // it has the form of the signature
		}
		topics := slices.Clone(v.topics[one.UID])
		slices.Sort(topics)
		e := &one.Endpoint
		e.UID, e.Tenant, e.Disabled = importedUID(fromConvoy, one.UID), one.OwnerID, one.Status == "inactive"
		e.Topics = append([]string{}, slices.Compact(topics)...)
		if one.Name != "" {
			e.Metadata = map[string]string{"name": one.Name}
		}
		c.lose("endpoint without a subscription", len(topics) == 0)
		one.sign(e, &project, c)
		one.limit(e, c)
		if a := one.Authentication; a != nil && a.APIKey.Name != "" {
			e.Headers = map[string]string{a.APIKey.Name: a.APIKey.Value}
		} else if a != nil {
			c.lose("authentication "+a.Type, a.Type != "" && a.Type != "api_key")
		}
		c.lose("mtls_client_cert", isFilled(one.ClientCert))
		c.lose("content_type", one.ContentType != "" && one.ContentType != "application/json")
		c.lose("slack_webhook_url", one.Slack != "")
		c.lose("support_email", one.Email != "")
		c.lose("status paused", one.Status == "paused")
		c.add(e, nil)
	}
	for kind, n := range map[string]int{"filter of a subscription": v.filters, "function of a subscription": v.functions} {
		if n > 0 {
			c.lost[kind] = n
		}
	}
	return nil
}

// sign sets the secret and the form of the signature. A simple signature is by the last
// version. An advanced one has all of them, and Hookladder writes only v1, the first.
func (one *convoyEndpoint) sign(e *wire.Endpoint, p *convoyProject, c *conversion) {
	for _, s := range one.Secrets {
		if s.ExpiresAt == nil || *s.ExpiresAt == "" {
			e.Secret = s.Value
		}
	}
	c.lose("former secrets", len(one.Secrets) > 1)
	versions := p.Config.Signature.Versions
	version := versions[len(versions)-1]
	e.Signature, e.SignatureHeader = "hmac", p.Config.Signature.Header
	if one.AdvancedSignatures {
		version = versions[0]
		e.SignatureContent = "t-comma-body"
		c.lose("signatures after v1", len(versions) > 1)
	}
	e.SignatureHash, e.SignatureEncoding = strings.ToLower(version.Hash), strings.ToLower(version.Encoding)
}

// limit sets the timeout and the rate.
func (one *convoyEndpoint) limit(e *wire.Endpoint, c *conversion) {
	if timeout := time.Duration(one.HTTPTimeout); timeout > time.Minute {
		c.lose("http_timeout above 60s", true)
	} else {
		e.Timeout = wire.Duration(timeout)
	}
	if one.RateLimit <= 0 {
		return
	}
	per := time.Duration(one.RateLimitDuration)
	for _, unit := range []struct {
		of   time.Duration
		name string
	}{{time.Second, "s"}, {time.Minute, "m"}, {time.Hour, "h"}} {
		if per > 0 && unit.of%per == 0 {
			e.Rate = fmt.Sprintf("%d/%s", one.RateLimit*int(unit.of/per), unit.name)
			return
		}
	}
	c.lose("rate_limit_duration", true)
}

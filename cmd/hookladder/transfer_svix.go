package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/signer"
)

// svixAnswers are the answers of Svix. An endpoint's secret and headers are answers of their
// own, which only their paths name.
type svixAnswers struct {
	apps      []svixApp
	listed    map[string]bool // the applications whose endpoints are in the file, as their paths name them
	endpoints []svixEndpoint
	secrets   map[string]string
	headers   map[string]svixHeaders
}

// svixApp is one item of GET /api/v1/app/.
type svixApp struct{ ID, UID string }

// svixEndpoint is one item of GET /api/v1/app/{app}/endpoint/.
type svixEndpoint struct {
	app string

	wire.Endpoint // the fields with the same names

	ID           string   `json:"id"`
	FilterTypes  []string `json:"filterTypes"`
	Channels     []string `json:"channels"`
	ThrottleRate int      `json:"throttleRate"`
	RateLimit    int      `json:"rateLimit"` // the former name of throttleRate
}

// svixHeaders is the answer of …/headers/. Svix hides the values of those in Sensitive.
type svixHeaders struct {
	Headers   map[string]string `json:"headers"`
	Sensitive []string          `json:"sensitive"`
}

func (s *svixAnswers) take(path string, body json.RawMessage) error {
	at, ok := pathSegments(path, "app")
	switch {
	case path == "":
		return errors.New("has no path: save each answer with it")
	case !ok:
		return errAnswer
	case len(at) == 0:
		var page struct{ Data []svixApp }
		err := json.Unmarshal(body, &page)
		s.apps = append(s.apps, page.Data...)
		return err
	case len(at) == 2 && at[1] == "endpoint":
		var page struct{ Data []svixEndpoint }
		if err := json.Unmarshal(body, &page); err != nil || page.Data == nil {
			return errors.Join(errAnswer, err)
		}
		s.listed[at[0]] = true
		for _, e := range page.Data {
			e.app = at[0]
			s.endpoints = append(s.endpoints, e)
		}
		return nil
	case len(at) == 4 && at[3] == "secret":
		var secret struct{ Key string }
		if err := json.Unmarshal(body, &secret); err != nil || secret.Key == "" {
			return errors.Join(errAnswer, err)
		}
		s.secrets[at[2]] = secret.Key
		return nil
	case len(at) == 4 && at[3] == "headers":
		var h svixHeaders
		err := json.Unmarshal(body, &h)
		s.headers[at[2]] = h
		return err
	}
	return errAnswer
}

func (s *svixAnswers) convert(c *conversion) error {
	for _, app := range s.apps {
		if !s.listed[app.ID] && !s.listed[app.UID] {
			return errMissingAnswer("/app", app.ID, "endpoint/")
		}
	}
	for i := range s.endpoints {
		one := &s.endpoints[i]
		e := one.Endpoint
		e.Tenant, e.Topics, e.Headers, e.Secret = one.app, one.FilterTypes, s.headers[one.ID].Headers, s.secrets[one.ID]
		if e.UID == "" {
			e.UID = importedUID(fromSvix, one.ID)
		} else {
			e.UID = importedUID(fromSvix, one.app+":"+e.UID) // unique only in its application
		}
		if strings.HasPrefix(e.Secret, signer.PrivatePrefix) {
			e.Signature = string(signer.StandardEd25519)
		}
		if rate := max(one.ThrottleRate, one.RateLimit); rate > 0 {
			e.Rate = fmt.Sprintf("%d/s", rate)
		}
		c.lose("channels", len(one.Channels) > 0)
		c.lose("sensitive headers", len(s.headers[one.ID].Sensitive) > 0)
		if _, ok := s.headers[one.ID]; !ok {
			return errMissingAnswer("/app", one.app, "endpoint", one.ID, "headers/")
		}
		if e.Secret == "" {
			return errMissingAnswer("/app", one.app, "endpoint", one.ID, "secret/")
		}
		c.add(&e, nil)
	}
	return nil
}

package httpapi

import (
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/api"
)

// Names of tags.
const (
	tagProcess  = "Process"
	tagWebhooks = "Webhooks"
)

// tags are the groups of operations, by the first name in the path after /v1.
var tags = []struct{ name, doc, nouns string }{
	{"Messages", "Publish messages, read them with their deliveries, cancel them, and attempt them again.", "messages"},
	{"Deliveries", "List deliveries, attempts and the dead, and change many of them by a filter.", "deliveries attempts dead jobs"},
	{"Endpoints", "Registered destinations, with their own secrets and limits.", "endpoints .well-known"},
	{"Queues", "Take deliveries instead of being called, and report their results.", "queues"},
	{"Lanes", "Read, pause and resume destinations.", "lanes"},
	{"Links", "Show people of a tenant its own deliveries.", "links"},
	{"Audit", "Who changed what.", "audit"},
	{tagProcess, "Health, figures, and work on request.", ""},
}

// tagOf returns the tag of a path.
func tagOf(path string) string {
	noun, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(path, "/v1"), "/"), "/")
	for _, t := range tags {
		for known := range strings.FieldsSeq(t.nouns) {
			if noun == known {
				return t.name
			}
		}
	}
	return tagProcess
}

// tagsOf returns the tags of these operations, and of the callbacks.
func tagsOf(all []api.Operation) (list []*huma.Tag) {
	used := map[string]bool{}
	for _, o := range all {
		used[tagOf(o.Path)] = true
	}
	for _, t := range tags {
		if used[t.name] {
			list = append(list, &huma.Tag{Name: t.name, Description: t.doc})
		}
	}
	return append(list, &huma.Tag{Name: tagWebhooks, Description: "What Hookladder sends to receivers: your messages, and notices of its own."})
}

package httpapi_test

import (
	"crypto/sha256"
	"encoding/hex"
)

// Keys are keys as API_KEYS has them.
func Keys() string {
	sum := sha256.Sum256([]byte(AdminKey))
	return PublishKey + ":publish:shop, " + ReadKey + ":read,sha256:" + hex.EncodeToString(sum[:]) + ":admin:ops," + TickKey + ":tick+consume"
}

// OtherKey is a key that testKeys does not have.
const OtherKey = "other-key-0123456789ab"

// Keys that testKeys has.
const (
	PublishKey = "publish-key-0123456789"
	ReadKey    = "read-key-0123456789abc"
	AdminKey   = "admin-key-0123456789ab"
	TickKey    = "tick-key-0123456789abc"
)

// Operations is every call that needs a key, with the scope that it needs.
var Operations = []struct{ Method, Path, Scope string }{
	{"POST", "/v1/messages", "publish"},
	{"POST", "/v1/messages/batch", "publish"},
	{"GET", "/v1/messages/a", "read"},
	{"DELETE", "/v1/messages/a", "publish"},
	{"POST", "/v1/messages/a/retry", "publish"},
	{"GET", "/v1/deliveries", "read"},
	{"GET", "/v1/stats", "read"},
	{"POST", "/v1/endpoints", "admin"},
	{"GET", "/v1/endpoints", "read"},
	{"GET", "/v1/endpoints/a", "read"},
	{"PATCH", "/v1/endpoints/a", "admin"},
	{"DELETE", "/v1/endpoints/a", "admin"},
	{"POST", "/v1/endpoints/a/pause", "admin"},
	{"POST", "/v1/endpoints/a/resume", "admin"},
	{"POST", "/v1/endpoints/a/confirm", "admin"},
	{"POST", "/v1/endpoints/a/rotate-secret", "admin"},
	{"POST", "/v1/endpoints/a/test", "admin"},
	{"GET", "/v1/endpoints/a/secret", "admin"},
	{"GET", "/v1/lanes", "read"},
	{"POST", "/v1/lanes/a/pause", "admin"},
	{"POST", "/v1/lanes/a/resume", "admin"},
	{"POST", "/v1/tick", "tick"},
}

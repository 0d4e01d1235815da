package kit

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // a mistake of receivers
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
)

// Mistake is the value that the code of a receiver computes as a signature, and the cause by which a
// check of it names what that code does wrong.
type Mistake struct{ Computed, Cause string }

// MistakenBody is a body that JSON libraries write differently.
const MistakenBody = `{"order":17,"note":"5 € <paid>","path":"a/b","total":10.50,"by":{"b":1,"a":2}}`

// SignatureMistakes returns what the code of receivers computes for an attempt of a message whose body
// is MistakenBody, by the mistake that it has.
func SignatureMistakes(secret, id string, at time.Time) map[string]Mistake {
	b64 := base64.StdEncoding.EncodeToString
	behind := strings.TrimPrefix(secret, "whsec_")
	decoded, err := base64.StdEncoding.DecodeString(behind)
	if err != nil {
		panic(err) // a secret is of this form
	}
	key := string(decoded)
	of := func(body string) string { return fmt.Sprintf("%s.%d.%s", id, at.Unix(), body) }
	sum := func(key, text string) []byte {
		mac := hmac.New(sha256.New, []byte(key))
		mac.Write([]byte(text))
		return mac.Sum(nil)
	}
	older := hmac.New(sha1.New, []byte(key))
	older.Write([]byte(of(MistakenBody)))
	python := strings.NewReplacer(`":`, `": `, `,"`, `, "`, "€", `\u20ac`).Replace(MistakenBody)
	php := strings.NewReplacer("€", `\u20ac`, "a/b", `a\/b`).Replace(MistakenBody)
	return map[string]Mistake{
		"the secret's text is the key":        {b64(sum(secret, of(MistakenBody))), "key"},
		"the base64 behind whsec_ is the key": {b64(sum(behind, of(MistakenBody))), "key"},
		"the secret has an end of line":       {b64(sum(secret+"\n", of(MistakenBody))), "key"},
		"the key and the encoding are wrong":  {hex.EncodeToString(sum(secret, of(MistakenBody))), "key"},
		"it is hex":                           {hex.EncodeToString(sum(key, of(MistakenBody))), "encoding"},
		"it is base64 of hex":                 {b64([]byte(hex.EncodeToString(sum(key, of(MistakenBody))))), "encoding"},
		"the body alone is signed":            {b64(sum(key, MistakenBody)), "content"},
		"the id is left out":                  {b64(sum(key, fmt.Sprintf("%d.%s", at.Unix(), MistakenBody))), "content"},
		"the time is in milliseconds":         {b64(sum(key, fmt.Sprintf("%s.%d000.%s", id, at.Unix(), MistakenBody))), "content"},
		"the JSON is written anew by Python":  {b64(sum(key, of(python))), "body"},
		"the JSON is written anew by PHP":     {b64(sum(key, of(php))), "body"},
		"the body was read before":            {b64(sum(key, of(""))), "body"},
		"it is SHA-1":                         {b64(older.Sum(nil)), "hash"},
		"it is of another secret":             {b64(sum("another", of(MistakenBody))), "other_secret"},
	}
}

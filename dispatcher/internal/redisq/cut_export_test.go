package redisq

import (
	"reflect"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq/script"
)

// DigestsSHA is the script that schedule calls before it writes anything, in
// the form with the tests' clock.
var DigestsSHA = newScripts(true).digests.SHA

// SHAs are the names of the queue's scripts by their SHA, in the form with the
// tests' clock.
func SHAs() map[string]string {
	names := map[string]string{}
	all := reflect.ValueOf(newScripts(true))
	for i := range all.NumField() {
		if f := all.Field(i); f.Type() == reflect.TypeFor[script.Script]() {
			names[f.FieldByName("SHA").String()] = f.FieldByName("Name").String()
		}
	}
	return names
}

package redisq

import (
	"reflect"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq/script"
)

// DigestsSHA is the script that schedule asks before it writes anything, as the
// tests' clock makes it.
var DigestsSHA = newScripts(true).digests.SHA

// SHAs are the names of the flow's scripts by their SHA, as the tests' clock
// makes them.
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

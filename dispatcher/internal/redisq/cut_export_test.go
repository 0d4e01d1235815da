package redisq

import "reflect"

// DigestsSHA is the script that schedule asks before it writes anything, as the
// tests' clock makes it.
var DigestsSHA = newScripts(true).digests.sha

// SHAs are the names of the flow's scripts by their SHA, as the tests' clock
// makes them.
func SHAs() map[string]string {
	names := map[string]string{}
	all := reflect.ValueOf(newScripts(true))
	for i := range all.NumField() {
		if f := all.Field(i); f.Type() == reflect.TypeFor[script]() {
			names[f.FieldByName("sha").String()] = f.FieldByName("name").String()
		}
	}
	return names
}

package app

import "github.com/hookladder/hookladder/dispatcher/internal/redisq"

// Scripts are the names of the scripts that change deliveries, such as claim, by
// their SHA-1. Redis reports on a script by its SHA-1.
func Scripts() map[string]string { return redisq.ScriptNames() }

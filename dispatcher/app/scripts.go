package app

import "github.com/hookladder/hookladder/dispatcher/internal/redisq"

// Scripts are the names of the scripts that change deliveries, such as claim,
// by the SHA-1 with which Redis knows each, so that what it says of them can be
// read.
func Scripts() map[string]string { return redisq.ScriptNames() }

package main

import (
	"net/url"
	"slices"
	"strings"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/app"
)

// What WAKE may be.
const (
	wakeAuto = "auto" // asks the store whether it can tell
	wakePoll = "poll" // looks every second
)

// What REDIS_MODE may be.
const (
	modeAuto     = "auto"
	modeSingle   = "single"
	modeCluster  = "cluster"
	modeSentinel = "sentinel"
)

func parseDurability(v string) (dispatcher.Durability, error) {
	d, err := dispatcher.ParseDurability(v)
	if err != nil {
		return d, errNumber // its own words say what is accepted, as ours do
	}
	return d, nil
}

func wrongRedisURL(text string) string {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return "it is not a URL" // its own words would repeat the password
	case u.Scheme == "unix" && u.Path == "":
		return "it names no socket"
	case u.Scheme == "unix":
		return ""
	case u.Scheme != "redis" && u.Scheme != "rediss":
		return " "
	}
	return ""
}

func (s *settings) wrongRedisMode() string {
	switch {
	case !slices.Contains([]string{modeAuto, modeSingle, modeCluster, modeSentinel}, s.RedisMode):
		return " "
	case s.RedisMode == modeSentinel && s.RedisMaster == "":
		return "REDIS_MASTER is not set: it names the master that the sentinels watch"
	case s.DataDir != "" && (s.RedisMode == modeCluster || s.RedisMode == modeSentinel):
		return "the Redis of DATA_DIR is a single one"
	}
	return ""
}

func (s *settings) wrongRedisMaster() string {
	switch {
	case s.RedisMode == modeSingle || s.RedisMode == modeCluster:
		return "it belongs to REDIS_MODE=sentinel, not to " + s.RedisMode
	case s.DataDir != "":
		return "the Redis of DATA_DIR has no sentinels"
	}
	return ""
}

func (s *settings) wrongRedisCA() string {
	switch {
	case s.DataDir != "":
		return "the Redis of DATA_DIR is reached without TLS, on a socket that only this user may open"
	case s.RedisURL != "" && !strings.HasPrefix(s.RedisURL, "rediss://"):
		return "it is only for a REDIS_URL that begins with rediss://"
	}
	return wrongFile(app.LoadRoots(s.RedisCA))
}

func (s *settings) wrongDataDir() string {
	if s.RedisURL != "" {
		return "REDIS_URL is set too: use one of them"
	}
	return ""
}

func (s *settings) wrongDurability() string {
	if s.DataDir != "" && s.Durability.Replicas > 0 {
		return "the Redis of DATA_DIR has no replicas; fsync waits for the disk"
	}
	return ""
}

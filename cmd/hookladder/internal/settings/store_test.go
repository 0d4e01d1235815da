package settings

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
)

func TestSettingsOfTheStoreThatContradictEachOtherAreRefusedByName(t *testing.T) {
	cert, key := kit.MustCertificate(t.TempDir())
	const plain, data = "redis://r:1", "/data"
	for want, environ := range map[string]map[string]string{
		`^REDIS_MASTER="m": .*belongs to REDIS_MODE=sentinel, not to cluster`: {"REDIS_URL": plain, "REDIS_MODE": "cluster", "REDIS_MASTER": "m"},
		`^REDIS_MASTER="m": .*not to single`:                                  {"REDIS_URL": plain, "REDIS_MODE": "single", "REDIS_MASTER": "m"},
		`^REDIS_MODE="sentinel": .*REDIS_MASTER is not set`:                   {"REDIS_URL": plain, "REDIS_MODE": "sentinel"},
		`^REDIS_CA_FILE=.*begins with rediss://`:                              {"REDIS_URL": plain, "REDIS_CA_FILE": cert},
		`^REDIS_CA_FILE=.*holds no certificate`:                               {"REDIS_URL": "rediss://r:1", "REDIS_CA_FILE": key},
		`^DATA_DIR="/data": .*REDIS_URL is set too: use one of them`:          {"REDIS_URL": plain, "DATA_DIR": data},
		`^DURABILITY="replicas:2": .*has no replicas; fsync`:                  {"DATA_DIR": data, "DURABILITY": "replicas:2"},
		`^REDIS_MODE="cluster": .*DATA_DIR is a single one`:                   {"DATA_DIR": data, "REDIS_MODE": "cluster"},
		`^REDIS_MASTER="m": .*DATA_DIR has no sentinels`:                      {"DATA_DIR": data, "REDIS_MASTER": "m"},
		`^REDIS_CA_FILE=.*DATA_DIR is reached without TLS`:                    {"DATA_DIR": data, "REDIS_CA_FILE": cert},
	} {
		_, _, err := Read(Sources{Environ: environ})
		require.Error(t, err, want)
		require.Regexp(t, want, err.Error())
		require.NotContains(t, err.Error(), "\n", "one mistake is told once")
	}
	for _, environ := range []map[string]string{
		{"REDIS_URL": plain, "REDIS_MASTER": "m"}, // auto takes the name for what it says
		{"REDIS_URL": plain, "REDIS_MASTER": "m", "REDIS_MODE": "sentinel"},
		{"REDIS_URL": "rediss://r:1", "REDIS_CA_FILE": cert, "REDIS_MODE": "cluster"},
		{"DATA_DIR": data, "REDIS_MODE": "single", "DURABILITY": "fsync"},
	} {
		mustRead(t, environ)
	}
}

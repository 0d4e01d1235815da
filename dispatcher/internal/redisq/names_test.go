package redisq_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
)

// common.lua makes the names of the keys, keys.go repeats them.
func TestScriptsAndGoNameTheKeysAlike(t *testing.T) {
	lists := regexp.MustCompile(`(?m)^local ([A-Z, ]+) = ((?:tag \.\. '[^']+'(?:, )?)+)$`).FindAllStringSubmatch(redisq.CommonSrc, -1)
	inLua := map[string]string{}
	for _, list := range lists {
		names := strings.Split(list[1], ", ")
		values := regexp.MustCompile(`tag \.\. '([^']+)'`).FindAllStringSubmatch(list[2], -1)
		require.Len(t, values, len(names), list[0])
		for i, name := range names {
			inLua[name] = values[i][1]
		}
	}
	require.Equal(t, redisq.Names, inLua)
}

func TestEveryScriptHasAHeaderThatNamesItsArgumentsAndItsAnswer(t *testing.T) {
	files, err := os.ReadDir("lua")
	require.NoError(t, err)
	require.Greater(t, len(files), 18)
	for _, file := range files {
		src, err := os.ReadFile("lua/" + file.Name())
		require.NoError(t, err)
		text := string(src)
		name := strings.TrimSuffix(file.Name(), ".lua")
		require.True(t, strings.HasPrefix(text, "-- "+name+": "), "%s begins with its name", file.Name())
		require.Contains(t, text, "ARGV[", file.Name())
		if name != "common" && name != "state" && name != "doctor" && name != "order" && name != "read" && name != "beat" && name != "identify" &&
			!strings.HasPrefix(name, "endpoint_") && !strings.HasPrefix(name, "repartition_") { // nobody works beside those
			require.Contains(t, text, "-- returns now, due, weight", file.Name())
		}
	}
}

// A declared key that exists would let a script run in a slot that is moving.
func TestScriptsDeclareNoKeyButTheTag(t *testing.T) {
	files, err := os.ReadDir("lua")
	require.NoError(t, err)
	for _, file := range files {
		src, err := os.ReadFile("lua/" + file.Name())
		require.NoError(t, err)
		for i, line := range strings.Split(string(src), "\n") {
			code, _, _ := strings.Cut(line, "--")
			if strings.Contains(code, "KEYS") {
				own := file.Name() == "common.lua" || file.Name() == "beat.lua" || file.Name() == "identify.lua" || strings.HasPrefix(file.Name(), "endpoint_")
				require.True(t, own, "%s, line %d", file.Name(), i+1)
				require.Contains(t, code, "KEYS[1]", "line %d", i+1)
			}
			if strings.Contains(code, "'TIME'") {
				require.Equal(t, "common.lua", file.Name(), "TIME is read once: line %d", i+1)
			}
		}
	}
}

func TestLanesAreSpreadByTheChecksumOfTheClusterSpecification(t *testing.T) {
	require.Equal(t, uint16(0x31c3), redisq.CRC16("123456789")) // the check value of CRC-16/XMODEM
	require.Equal(t, uint16(0), redisq.CRC16(""))
}

package callers_test

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/internal/callers"
)

func TestKeysThatAreWrongAreToldWithoutThem(t *testing.T) {
	const secret = "hunter2hunter2hunter2"
	for text, says := range map[string]string{
		secret:                            "entry 1: has no scope",
		secret + ":":                      "unknown scope",
		"publish:" + secret:               "key of 7 characters",
		secret + ":" + secret:             "unknown scope",
		secret + ":publish+":              "unknown scope",
		secret + ":consume@":              "no queue can have",
		secret + ":read+consume@q_orders": "no queue can have",
		secret + ":consume@" + strings.Repeat("a", 65):        "no queue can have",
		secret + ":consume@hunter2 x":                         "no queue can have",
		secret + ":consume@ep_":                               "no queue can have",
		secret + ":consume@ep_12345678901234":                 "no queue can have",
		secret + ":publish@orders":                            "unknown scope",
		secret + ":publish:":                                  "name",
		secret + ":publish:a b":                               "name",
		secret + ":publish:a:b":                               "name",
		"short:publish":                                       "at least 16",
		"hunter2 hunter2 hunter2:read":                        "printable",
		"sha256:" + secret + ":read":                          "64 hex digits",
		"sha256:abcd:read":                                    "64 hex digits",
		"sha256:" + sumOf("") + ":admin":                      "entry 1: has the sha256 of nothing",
		"sha256:" + sumOf("\n") + ":admin":                    "entry 1: has the sha256 of nothing",
		"sha256:" + strings.Repeat("a", 66) + ":read":         "64 hex digits",
		secret + ":read,":                                     "entry 2: is empty",
		",":                                                   "entry 1: is empty",
		secret + ":read," + secret + ":publish":               "entry 2: has the same key as entry 1",
		secret + ":read:x," + secret + "2:publish:x":          "entry 2: has the same name as entry 1",
		secret + ":read,nope," + secret + "3:fly:" + "n":      "entry 3",
		secret + ":read,sha256:" + sumOf(secret) + ":publish": "entry 2: has the same key",
	} {
		_, err := callers.ParseAPIKeys(text)
		require.ErrorContains(t, err, says, text)
		require.NotContains(t, err.Error(), "hunter2")
	}
}

func sumOf(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

// What a hashed key stands for is not known when it is read, so nothing is never
// found, whatever is there.
func TestAnEmptyKeyIsNeverFound(t *testing.T) {
	_, found := callers.APIKeysOf(sha256.Sum256(nil)).Find("")
	require.False(t, found)
	_, found = callers.APIKeysOf(sha256.Sum256([]byte("a"))).Find("a")
	require.True(t, found)
}

func TestNoKeysAreNoError(t *testing.T) {
	for _, text := range []string{"", " \n"} {
		keys, err := callers.ParseAPIKeys(text)
		require.NoError(t, err)
		require.True(t, keys.Empty())
	}
	key := callers.NewAPIKey()
	require.NotEqual(t, key, callers.NewAPIKey())
	keys, err := callers.ParseAPIKeys(key + ":publish+read:shop\n")
	require.NoError(t, err)
	require.False(t, keys.Empty())
}

func TestAKeyMayTakeFromTheQueuesItNames(t *testing.T) {
	keys, err := callers.ParseAPIKeys("key-of-two-queues-1:publish+consume@orders+consume@ep_123456789:two," +
		"key-of-all-queues-1:consume:all,key-of-the-admin-1:admin:ops,key-of-a-reader-01:read:reader")
	require.NoError(t, err)
	for text, may := range map[string][]string{
		"key-of-two-queues-1": {"orders", "ep_123456789"},
		"key-of-all-queues-1": {"orders", "ep_123456789", "Orders", "other"},
		"key-of-the-admin-1":  {"orders", "ep_123456789", "Orders", "other"},
		"key-of-a-reader-01":  nil,
	} {
		key, ok := keys.Find(text)
		require.True(t, ok)
		for _, queue := range []string{"orders", "ep_123456789", "Orders", "other"} {
			require.Equal(t, slices.Contains(may, queue), key.MayTake(queue), "%s %s", key.Name, queue)
		}
	}
	two, _ := keys.Find("key-of-two-queues-1")
	require.True(t, two.Scope.Allows(callers.Publish))
	require.False(t, two.Scope.Allows(callers.Consume), "that is all queues")
}

func TestTheOwnerOfALeaseIsTheKeyWhateverItIsCalled(t *testing.T) {
	owner := func(text string) string {
		keys, err := callers.ParseAPIKeys(text)
		require.NoError(t, err)
		key, ok := keys.Find("key-of-a-taker-001")
		require.True(t, ok)
		require.NotContains(t, key.Owner(), "key")
		return key.Owner()
	}
	require.Equal(t, owner("key-of-a-taker-001:consume:a"), owner("sha256:"+sumOf("key-of-a-taker-001")+":consume@orders:b"))
	keys, err := callers.ParseAPIKeys("key-of-another-001:consume:a")
	require.NoError(t, err)
	other, _ := keys.Find("key-of-another-001")
	require.NotEqual(t, other.Owner(), owner("key-of-a-taker-001:consume:a"))
}

func TestThisHostWithoutKeysHasAnOwnerToo(t *testing.T) {
	require.Len(t, callers.APIKey{}.Owner(), 16)
}

package embedded_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/internal/embedded"
)

func TestTheLeastLimitOfMemoryCounts(t *testing.T) {
	t.Parallel()
	const machine = "MemTotal:        8388608 kB\nMemFree:  1 kB\n" // 8 GiB
	for name, c := range map[string]struct {
		groups string
		files  map[string]string
		want   int64
	}{
		"the machine's alone":           {want: 8 << 30},
		"none set":                      {files: map[string]string{"memory.max": "max\n"}, want: 8 << 30},
		"a container's":                 {groups: "0::/\n", files: map[string]string{"memory.max": "536870912\n"}, want: 512 << 20},
		"a service's, below another":    {groups: "0::/a/b.service\n", files: map[string]string{"a/memory.max": "1073741824", "a/b.service/memory.max": "max"}, want: 1 << 30},
		"of the first version":          {groups: "4:memory:/a\n0::/\n", files: map[string]string{"memory/a/memory.limit_in_bytes": "268435456"}, want: 256 << 20},
		"more than the machine has":     {files: map[string]string{"memory/memory.limit_in_bytes": "9223372036854771712"}, want: 8 << 30},
		"of a group of something else":  {groups: "3:cpu:/a\n", files: map[string]string{"a/memory.max": "5"}, want: 8 << 30},
		"lines that nobody understands": {groups: "?\n", want: 8 << 30},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			mustWrite(t, filepath.Join(dir, "meminfo"), machine, 0o600)
			mustWrite(t, filepath.Join(dir, "groups"), c.groups, 0o600)
			for file, text := range c.files {
				file = filepath.Join(dir, "top", file)
				require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
				mustWrite(t, file, text, 0o600)
			}
			require.Equal(t, c.want, embedded.Limit(filepath.Join(dir, "meminfo"), filepath.Join(dir, "groups"), filepath.Join(dir, "top")))
		})
	}
	require.Zero(t, embedded.Limit("/none", "/none", "/none"), "nobody tells")
}

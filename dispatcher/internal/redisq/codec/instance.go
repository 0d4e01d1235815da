package codec

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
)

const (
	instanceArchives = " archive"
	instancePermits  = 1 << 20 // maximum of one instance; an instance never writes more
)

// EncodeInstance makes the text about an instance in :about:
//
//	permits | ms of its start | version | archive
//
// The last word is left out if the instance has no archive.
func EncodeInstance(a dispatcher.Instance, archives bool) string {
	text := fmt.Sprintf("%d %d %s", a.Permits, a.StartedAt.UnixMilli(), a.Version)
	if archives {
		text += instanceArchives
	}
	return text
}

// ParseInstance parses such a text. An invalid part is left zero.
func ParseInstance(text string) dispatcher.Instance {
	word, rest, _ := strings.Cut(text, " ")
	permits, err := strconv.Atoi(word)
	if err != nil || permits < 0 || permits > instancePermits {
		permits = 0
	}
	number, version, _ := strings.Cut(strings.TrimSuffix(rest, instanceArchives), " ")
	ms, _ := strconv.ParseInt(number, 10, 64)
	return dispatcher.Instance{Permits: permits, Version: version, StartedAt: conn.FromMillis(ms)}
}

// InstanceArchives reports whether the text about an instance says that it has an archive.
func InstanceArchives(text string) bool { return strings.HasSuffix(text, instanceArchives) }

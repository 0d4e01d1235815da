package conn

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/hookladder/hookladder/dispatcher"
)

const (
	instanceArchives = " archive"
	instanceListens  = " at "
	instancePermits  = 1 << 20 // maximum of one instance; an instance never writes more
)

// EncodeInstance makes the text about an instance in :about:
//
//	permits | ms of its start | version | at addresses of its listeners | archive
//
// The last two parts are left out if the instance has no listeners or no archive.
func EncodeInstance(a dispatcher.Instance, listens []netip.AddrPort, archives bool) string {
	text := fmt.Sprintf("%d %d %s", a.Permits, a.StartedAt.UnixMilli(), a.Version)
	for i, at := range listens {
		if i == 0 {
			text += instanceListens + at.String()
		} else {
			text += "," + at.String()
		}
	}
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
	rest, _, _ = strings.Cut(strings.TrimSuffix(rest, instanceArchives), instanceListens)
	number, version, _ := strings.Cut(rest, " ")
	ms, _ := strconv.ParseInt(number, 10, 64)
	return dispatcher.Instance{Permits: permits, Version: version, StartedAt: FromMillis(ms)}
}

// maxListens is the most listeners of one instance that are read. No instance writes so many.
const maxListens = 64

// InstanceListens returns the addresses of an instance's listeners, without invalid ones.
func InstanceListens(text string) (all []netip.AddrPort) {
	_, list, _ := strings.Cut(strings.TrimSuffix(text, instanceArchives), instanceListens)
	for _, one := range strings.SplitN(list, ",", maxListens+1) {
		if at, err := netip.ParseAddrPort(one); err == nil {
			all = append(all, at)
		}
	}
	return all
}

// InstanceArchives reports whether the text about an instance says that it has an archive.
func InstanceArchives(text string) bool { return strings.HasSuffix(text, instanceArchives) }

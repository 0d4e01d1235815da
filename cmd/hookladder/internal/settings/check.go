package settings

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"maps"
	"math"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/app"
)

// The values of WAKE.
const (
	wakeAuto = "auto" // the store sends notifications, if it can
	WakePoll = "poll" // polls the store every second
)

// The values of REDIS_MODE.
const (
	modeAuto     = "auto"
	modeSingle   = "single"
	modeCluster  = "cluster"
	modeSentinel = "sentinel"
)

var (
	projects = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	colors   = regexp.MustCompile(`^#[0-9A-Fa-f]{6}$`)
)

// check returns the mistakes that the parsers do not find: values out of range, and unknown
// words. It skips settings that already have a mistake.
func (s *Settings) check(found []Found, faulty []mistake) (faults []mistake) {
	texts := map[string]func() string{
		"LISTEN":         func() string { return wrongListen(s.Listen) },
		"METRICS_LISTEN": func() string { return wrongAddress(s.MetricsListen) },
		"PROJECT":        func() string { return unless(projects.MatchString(s.Project)) },
		"REDIS_URL":      func() string { return wrongRedisURL(s.RedisURL) },

		"REDIS_MODE":    s.wrongRedisMode,
		"REDIS_MASTER":  s.wrongRedisMaster,
		"REDIS_CA_FILE": s.wrongRedisCA,
		"DATA_DIR":      s.wrongDataDir,
		"DURABILITY":    s.wrongDurability,
		"WAKE":          func() string { return unless(s.Wake == wakeAuto || s.Wake == WakePoll) },

		"OPS_URL":        func() string { return wrongURL(s.OpsURL) },
		"ARCHIVE_URL":    s.wrongArchive,
		"OUTBOX_URL":     func() string { return wrongDatabase(s.OutboxURL) },
		"ARCHIVE_BODIES": func() string { return unless(slices.Contains(app.ArchiveBodies(), s.ArchiveBodies)) },
		"CONSOLE":        func() string { return unless(s.Console == "on" || s.Console == ConsoleOff) },
		"CONSOLE_NAME":   func() string { return unless(fitsName(s.ConsoleName)) },
		"CONSOLE_LOGO":   func() string { return wrongLogo(s.ConsoleLogo) },
		"CONSOLE_COLOR":  func() string { return unless(colors.MatchString(s.ConsoleColor)) },
		"USER_AGENT":     func() string { return unless(dispatcher.CheckUserAgent(s.UserAgent) == nil) },

		"LOG_FORMAT": func() string { return unless(s.LogFormat == "json" || s.LogFormat == "text") },

		"EGRESS_CA_FILE":   func() string { return wrongFile(app.LoadRoots(s.EgressCA)) },
		"EGRESS_CERT_FILE": s.wrongCertificate,
		"EGRESS_KEY_FILE":  func() string { return missing(s.EgressCert, "EGRESS_CERT_FILE") },

		"SIGNING_DERIVE": func() string { return unless(s.SigningDerive == "none" || s.SigningDerive == DeriveTenant) },
	}
	for _, c := range found {
		known := slices.ContainsFunc(faulty, func(f mistake) bool { return f.name == c.Name })
		if known || c.Value == "" {
			continue
		}
		if low, bounded := c.field.Tag.Lookup("min"); bounded && !quantities[c.field.Type].within(c.Value, low, c.field.Tag.Get("max")) {
			faults = append(faults, c.fault(""))
		}
		if wrong, ok := texts[c.Name]; ok {
			switch reason, other := strings.CutPrefix(wrong(), otherSetting); {
			case other:
				faults = append(faults, c.needs(reason))
			case reason != "":
				faults = append(faults, c.fault(strings.TrimSpace(reason)))
			}
		}
	}
	return faults
}

// otherSetting begins the reason of a mistake that lies in another setting: the accepted values of
// this one would mislead.
const otherSetting = "other: "

// ListenOff is the value of LISTEN for a process that serves no API.
const ListenOff = "off"

// ConsoleOff is the value of CONSOLE for a process that serves no pages.
const ConsoleOff = "off"

// The limits of CONSOLE_NAME and CONSOLE_LOGO. A page shows the name in one line, and sends the
// logo with each response.
const (
	maxName = 64 // characters
	maxLogo = 64 << 10
)

// DeriveTenant is the value of SIGNING_DERIVE that gives each tenant its own secret.
const DeriveTenant = "tenant"

// unless returns a mistake without a reason if ok is false. The accepted values are enough for
// the error.
func unless(ok bool) string {
	if ok {
		return ""
	}
	return " "
}

// wrongFile returns the reason why a file can't be used. Settings keep only its path, because the
// process reads the file when it starts.
func wrongFile[T any](_ T, err error) string {
	if err != nil {
		return err.Error()
	}
	return ""
}

// wrongCertificate returns the mistake in the files of a certificate. It needs both files.
func (s *Settings) wrongCertificate() string {
	if reason := missing(s.EgressKey, "EGRESS_KEY_FILE"); reason != "" {
		return reason
	}
	return wrongFile(app.LoadCertificate(s.EgressCert, s.EgressKey))
}

// missing returns the mistake of a setting that needs another one.
func missing(value, name string) string {
	if value == "" {
		return otherSetting + name + " is not set, and both are needed"
	}
	return ""
}

// wrongArchive returns the reason why nothing can be archived. It requires encryption because the
// archive and its backups contain the same data as the store, with the secrets of endpoints.
func (s *Settings) wrongArchive() string {
	if reason := wrongDatabase(s.ArchiveURL); reason != "" {
		return reason
	}
	if s.EncryptionKey.Box == nil {
		return otherSetting + "ENCRYPTION_KEY is not set: endpoints' secrets would not be encrypted in the database and its backups; create a key with: openssl rand -base64 32"
	}
	return ""
}

// wrongDatabase returns the reason why a URL is no PostgreSQL URL. The reason has no part of the
// URL.
func wrongDatabase(text string) string { return wrongFile(0, app.CheckDatabaseURL(text)) }

// wrongURL returns the reason why nothing can be sent to a URL. The reason does not contain the
// URL.
func wrongURL(text string) string { return wrongFile(dispatcher.ParseURL(text)) }

func fitsName(text string) bool {
	return utf8.ValidString(text) && utf8.RuneCountInString(text) <= maxName && !strings.ContainsFunc(text, unicode.IsControl)
}

// wrongLogo returns the reason why a page can't show a picture. It checks the data of a data URL,
// because a browser would show nothing and report no error.
func wrongLogo(text string) string {
	if len(text) > maxLogo {
		return fmt.Sprintf("it has %d bytes", len(text))
	}
	if data, ok := strings.CutPrefix(text, "data:image/png;base64,"); ok {
		picture, err := base64.StdEncoding.Strict().DecodeString(data)
		switch {
		case err != nil:
			return "it is not base64"
		case !bytes.HasPrefix(picture, []byte("\x89PNG\r\n\x1a\n")):
			return "it is not a PNG"
		}
		return ""
	}
	if !strings.HasPrefix(text, "https://") {
		return " "
	}
	return wrongURL(text)
}

func wrongListen(text string) string {
	if text == ListenOff {
		return ""
	}
	return wrongAddress(text)
}

func wrongAddress(text string) string {
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		return " "
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > math.MaxUint16 {
		return "the port must be a number from 0 to 65535"
	}
	return ""
}

func wrongRedisURL(text string) string {
	u, err := url.Parse(text)
	if err == nil && u.Scheme == "unix" && u.Path == "" {
		return "it names no socket"
	}
	return wrongFile(0, app.CheckRedisURL(text))
}

func (s *Settings) wrongRedisMode() string {
	switch {
	case !slices.Contains([]string{modeAuto, modeSingle, modeCluster, modeSentinel}, s.RedisMode):
		return " "
	case s.RedisMode == modeSentinel && s.RedisMaster == "":
		return otherSetting + "REDIS_MASTER is not set: it names the master that the sentinels watch"
	case s.DataDir != "" && (s.RedisMode == modeCluster || s.RedisMode == modeSentinel):
		return otherSetting + "the Redis of DATA_DIR is a single one"
	}
	return ""
}

func (s *Settings) wrongRedisMaster() string {
	switch {
	case s.RedisMode == modeSingle || s.RedisMode == modeCluster:
		return otherSetting + "it belongs to REDIS_MODE=sentinel, not to " + s.RedisMode
	case s.DataDir != "":
		return otherSetting + "the Redis of DATA_DIR has no sentinels"
	}
	return ""
}

func (s *Settings) wrongRedisCA() string {
	switch {
	case s.DataDir != "":
		return otherSetting + "the Redis of DATA_DIR is reached without TLS, on a socket that only this user may open"
	case s.RedisURL != "" && !strings.HasPrefix(s.RedisURL, "rediss://"):
		return otherSetting + "it is only for a REDIS_URL that begins with rediss://"
	}
	return wrongFile(app.LoadRoots(s.RedisCA))
}

func (s *Settings) wrongDataDir() string {
	if s.RedisURL != "" {
		return otherSetting + "REDIS_URL is set too: use one of them"
	}
	return ""
}

func (s *Settings) wrongDurability() string {
	if s.DataDir != "" && s.Durability.Replicas > 0 {
		return otherSetting + "the Redis of DATA_DIR has no replicas; fsync waits for the disk"
	}
	return ""
}

// ours are variables that commands read besides the settings.
var ours = []string{"HOOKLADDER_URL", "HOOKLADDER_KEY"}

// Near returns warnings about variables that look like a setting and have no effect.
func Near(vars map[string]string) (warnings []string) {
	known := append(slices.Clone(ours), TraceNames()...)
	for _, s := range Table() {
		known = append(known, s.Name)
		if s.File {
			known = append(known, s.Name+"_FILE")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		if vars[name] == "" || slices.Contains(known, name) {
			continue
		}
		if strings.HasPrefix(vars[name], "tcp://") {
			continue // Kubernetes sets HOOKLADDER_PORT for a service of this name
		}
		if meant := nearest(name, known); meant != "" {
			warnings = append(warnings, fmt.Sprintf("%s is not a setting and has no effect: did you mean %s?", name, meant))
		}
	}
	return warnings
}

// prefixes are common prefixes of settings in other programs.
var prefixes = []string{"HOOKLADDER_", "HL_"}

// nearest returns the known name that is closest to a misspelled name; empty: none.
func nearest(name string, known []string) string {
	plain := strings.ToUpper(name)
	for _, prefix := range prefixes {
		plain = strings.TrimPrefix(plain, prefix)
	}
	plain = strings.ReplaceAll(plain, "-", "_")
	if plain != name && slices.Contains(known, plain) {
		return plain
	}
	return Closest(plain, known)
}

// Closest returns the known name that differs least from a misspelled name; empty: none is close.
func Closest(name string, known []string) string {
	best, least := "", 3
	for _, k := range known {
		if max(len(name)-len(k), len(k)-len(name)) > slips(k) {
			continue // each letter more or less is a change
		}
		if d := distance(name, k); d <= slips(k) && d < least {
			best, least = k, d
		}
	}
	return best
}

// slips returns the number of wrong letters that are allowed in a name. A short name allows
// fewer, because it is close to others (PATH is two from PORT).
func slips(name string) int {
	switch {
	case len(name) < 6:
		return 0
	case len(name) < 9:
		return 1
	default:
		return 2
	}
}

// distance returns the number of changes from a to b: insert, delete or change a letter, or swap
// two neighbors.
func distance(a, b string) int {
	var before, last []int // the rows before the current one
	for i := range len(a) + 1 {
		row := make([]int, len(b)+1)
		for j := range row {
			switch {
			case i == 0:
				row[j] = j
			case j == 0:
				row[j] = i
			default:
				change := last[j-1]
				if a[i-1] != b[j-1] {
					change++
				}
				row[j] = min(last[j]+1, row[j-1]+1, change)
				if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
					row[j] = min(row[j], before[j-2]+1)
				}
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}

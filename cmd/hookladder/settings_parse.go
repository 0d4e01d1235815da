package main

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"
	"github.com/dustin/go-humanize"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/app"
	"github.com/hookladder/hookladder/ladder"
	"github.com/hookladder/hookladder/signer"
)

// parsers read the values whose text is not Go's own.
var parsers = map[reflect.Type]env.ParserFunc{
	reflect.TypeFor[time.Duration]():         func(v string) (any, error) { return ladder.ParseDuration(v) },
	reflect.TypeFor[ladder.Ladder]():         func(v string) (any, error) { return ladder.Parse(v) },
	reflect.TypeFor[size]():                  func(v string) (any, error) { return parseSize(v) },
	reflect.TypeFor[dispatcher.Durability](): func(v string) (any, error) { return parseDurability(v) },
	reflect.TypeFor[breaker]():               func(v string) (any, error) { return parseBreaker(v) },
	reflect.TypeFor[sealing]():               func(v string) (any, error) { return parseSealing(v) },
	reflect.TypeFor[url.URL]():               func(v string) (any, error) { return parseProxy(v) },
	reflect.TypeFor[[]netip.Prefix]():        func(v string) (any, error) { return parseNets(v) },
	reflect.TypeFor[app.Keys]():              func(v string) (any, error) { return app.ParseKeys(v) },
	reflect.TypeFor[[]signer.Secret]():       func(v string) (any, error) { return signer.ParseSecrets(v) },
	reflect.TypeFor[dispatcher.Success]():    func(v string) (any, error) { return parseSuccess(v) },
	reflect.TypeFor[slog.Level]():            func(v string) (any, error) { return parseLevel(v) },
}

func parseSuccess(v string) (dispatcher.Success, error) {
	s, err := dispatcher.ParseSuccess(v)
	if err != nil {
		return dispatcher.Success{}, err
	}
	return *s, nil
}

func parseSize(v string) (size, error) {
	n, err := humanize.ParseBytes(v)
	if err != nil || n > math.MaxInt64 {
		return 0, errNumber
	}
	return size(n), nil
}

// What a breaker may be asked for. More failures than that are no breaker, and
// no wait grows beyond ten minutes.
const (
	maxFailures = 10_000
	maxOpen     = 10 * time.Minute
)

// parseBreaker reads <failures>/<first wait>, as in 20/30s, or off.
func parseBreaker(v string) (breaker, error) {
	if v == "off" {
		return breaker{}, nil
	}
	count, text, ok := strings.Cut(v, "/")
	failures, err := strconv.Atoi(count)
	if !ok || err != nil {
		return breaker{}, errNumber
	}
	wait, err := ladder.ParseDuration(text)
	if err != nil {
		return breaker{}, err
	}
	switch {
	case failures < 1 || failures > maxFailures:
		return breaker{}, fmt.Errorf("from 1 to %d failures", maxFailures)
	case wait < time.Millisecond || wait > maxOpen:
		return breaker{}, fmt.Errorf("a wait from 1ms to %s", maxOpen)
	}
	return breaker{failures: failures, wait: wait}, nil
}

func parseSealing(v string) (sealing, error) {
	box, err := app.ParseEncryptionKeys(v)
	return sealing{box}, err
}

func parseProxy(v string) (url.URL, error) {
	u, err := app.ParseProxy(v)
	if err != nil {
		return url.URL{}, err
	}
	return *u, nil
}

// parseNets reads networks and single addresses.
func parseNets(v string) ([]netip.Prefix, error) {
	var nets []netip.Prefix
	for text := range strings.SplitSeq(v, ",") {
		text = strings.TrimSpace(text)
		if addr, err := netip.ParseAddr(text); err == nil && addr.Zone() == "" {
			nets = append(nets, netip.PrefixFrom(addr, addr.BitLen()))
			continue
		}
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("%q is no network", text)
		}
		if p != p.Masked() {
			return nil, fmt.Errorf("%s has bits set beyond its length; meant is perhaps %s", text, p.Masked())
		}
		nets = append(nets, p)
	}
	return nets, nil
}

func parseLevel(v string) (slog.Level, error) {
	levels := map[string]slog.Level{
		"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
	}
	level, ok := levels[strings.ToLower(v)]
	if !ok {
		return 0, errNumber
	}
	return level, nil
}

// errNumber says no more than that the value is none of those accepted.
var errNumber = errors.New("not accepted")

// reasonOf is why a value was not taken, where that says more than what is
// accepted does.
func reasonOf(err error) string {
	var number *strconv.NumError
	if errors.Is(err, errNumber) || errors.As(err, &number) {
		return ""
	}
	return strings.ReplaceAll(err.Error(), "\n", "; ")
}

func nounOf(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[time.Duration]():
		return "a duration"
	case reflect.TypeFor[size]():
		return "a size"
	case reflect.TypeFor[int]():
		return "a whole number"
	default:
		return "a number"
	}
}

var projects = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// check finds what the single parsers can't: what lies out of range, and texts
// that are not one of those accepted. Settings that are faulty already are
// passed over.
func (s *settings) check(found []foundSetting, faulty []fault) (faults []fault) {
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
		"WAKE":          func() string { return unless(s.Wake == wakeAuto || s.Wake == wakePoll) },

		"LOG_FORMAT": func() string { return unless(s.LogFormat == "json" || s.LogFormat == "text") },

		"EGRESS_CA_FILE":   func() string { return wrongFile(app.LoadRoots(s.EgressCA)) },
		"EGRESS_CERT_FILE": s.wrongCertificate,
		"EGRESS_KEY_FILE":  func() string { return missing(s.EgressCert, "EGRESS_CERT_FILE") },

		"SIGNING_DERIVE": func() string { return unless(s.SigningDerive == "none" || s.SigningDerive == deriveTenant) },
	}
	for i, c := range found {
		known := slices.ContainsFunc(faulty, func(f fault) bool { return f.name == c.Name })
		if known || c.Value == "" {
			continue
		}
		if !inRange(reflect.ValueOf(*s).Field(i), c.field.Tag) {
			faults = append(faults, c.fault(""))
		}
		if wrong, ok := texts[c.Name]; ok {
			if reason := wrong(); reason != "" {
				faults = append(faults, c.fault(strings.TrimSpace(reason)))
			}
		}
	}
	return faults
}

// deriveTenant is the SIGNING_DERIVE that gives each tenant a secret of its own.
const deriveTenant = "tenant"

// unless is an unexplained fault where ok is false: what is accepted says all.
func unless(ok bool) string {
	if ok {
		return ""
	}
	return " "
}

// inRange holds a value against the min and max of its tag.
func inRange(v reflect.Value, tag reflect.StructTag) bool {
	low, bounded := tag.Lookup("min")
	if !bounded {
		return true
	}
	n := number(v)
	return number(mustParse(v.Type(), low)) <= n && n <= number(mustParse(v.Type(), tag.Get("max")))
}

func number(v reflect.Value) float64 {
	if v.CanInt() {
		return float64(v.Int())
	}
	return v.Float()
}

// mustParse reads a bound, which stands in a tag and so can't be wrong at run time.
func mustParse(t reflect.Type, text string) reflect.Value {
	var value any
	var err error
	if parse, ok := parsers[t]; ok {
		value, err = parse(text)
	} else {
		value, err = strconv.ParseFloat(text, 64)
	}
	if err != nil {
		panic(fmt.Sprintf("bound %q of a %s: %v", text, t, err))
	}
	return reflect.ValueOf(value)
}

// wrongFile is why a file can't be used. Only its path is kept: the process reads
// it when it begins to call.
func wrongFile[T any](_ T, err error) string {
	if err != nil {
		return err.Error()
	}
	return ""
}

// wrongCertificate judges both files of a certificate: neither is good alone.
func (s *settings) wrongCertificate() string {
	if reason := missing(s.EgressKey, "EGRESS_KEY_FILE"); reason != "" {
		return reason
	}
	return wrongFile(app.LoadCertificate(s.EgressCert, s.EgressKey))
}

// missing is the fault of a setting that needs another one.
func missing(value, name string) string {
	if value == "" {
		return name + " is not set"
	}
	return ""
}

func wrongListen(text string) string {
	if text == listenOff {
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
		return "the port is none"
	}
	return ""
}

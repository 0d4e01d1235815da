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
	reflect.TypeFor[time.Duration]():      func(v string) (any, error) { return ladder.ParseDuration(v) },
	reflect.TypeFor[ladder.Ladder]():      func(v string) (any, error) { return ladder.Parse(v) },
	reflect.TypeFor[size]():               func(v string) (any, error) { return parseSize(v) },
	reflect.TypeFor[[]netip.Prefix]():     func(v string) (any, error) { return parseNets(v) },
	reflect.TypeFor[app.Keys]():           func(v string) (any, error) { return app.ParseKeys(v) },
	reflect.TypeFor[[]signer.Secret]():    func(v string) (any, error) { return signer.ParseSecrets(v) },
	reflect.TypeFor[dispatcher.Success](): func(v string) (any, error) { return parseSuccess(v) },
	reflect.TypeFor[slog.Level]():         func(v string) (any, error) { return parseLevel(v) },
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
func (s *settings) check(found []chosen, faulty []fault) (faults []fault) {
	texts := map[string]func() string{
		"LISTEN":     func() string { return wrongListen(s.Listen) },
		"PROJECT":    func() string { return unless(projects.MatchString(s.Project)) },
		"REDIS_URL":  func() string { return wrongRedisURL(s.RedisURL) },
		"DURABILITY": func() string { return unless(s.Durability == "none") },
		"LOG_FORMAT": func() string { return unless(s.LogFormat == "json" || s.LogFormat == "text") },
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

func wrongListen(text string) string {
	if text == listenOff {
		return ""
	}
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		return " "
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > math.MaxUint16 {
		return "the port is none"
	}
	return ""
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

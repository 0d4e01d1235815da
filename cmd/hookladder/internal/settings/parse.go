package settings

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/netip"
	"net/url"
	"path"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"
	"github.com/dustin/go-humanize"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/app"
	"github.com/hookladder/hookladder/dispatcher/success"
	"github.com/hookladder/hookladder/ladder"
	"github.com/hookladder/hookladder/signer"
)

// parsers has the parsers for types that package env does not support.
var parsers = map[reflect.Type]env.ParserFunc{
	reflect.TypeFor[time.Duration]():           func(v string) (any, error) { return ladder.ParseDuration(v) },
	reflect.TypeFor[ladder.Ladder]():           func(v string) (any, error) { return ladder.Parse(v) },
	reflect.TypeFor[Size]():                    func(v string) (any, error) { return parseSize(v) },
	reflect.TypeFor[Age]():                     func(v string) (any, error) { return parseAge(v) },
	reflect.TypeFor[dispatcher.Durability]():   func(v string) (any, error) { return parseDurability(v) },
	reflect.TypeFor[dispatcher.HeaderPrefix](): func(v string) (any, error) { return dispatcher.ParseHeaderPrefix(v) },
	reflect.TypeFor[Breaker]():                 func(v string) (any, error) { return parseBreaker(v) },
	reflect.TypeFor[PublicURL]():               func(v string) (any, error) { return parsePublicURL(v) },
	reflect.TypeFor[Sealing]():                 func(v string) (any, error) { return parseSealing(v) },
	reflect.TypeFor[url.URL]():                 func(v string) (any, error) { return parseProxy(v) },
	reflect.TypeFor[[]netip.Prefix]():          func(v string) (any, error) { return parseEach(v, parseNet) },
	reflect.TypeFor[[]app.Net]():               func(v string) (any, error) { return parseEach(v, parseCallable) },
	reflect.TypeFor[app.Keys]():                func(v string) (any, error) { return app.ParseKeys(v) },
	reflect.TypeFor[[]signer.Secret]():         func(v string) (any, error) { return signer.ParseSecrets(v) },
	reflect.TypeFor[success.Rule]():            func(v string) (any, error) { return parseSuccess(v) },
	reflect.TypeFor[slog.Level]():              func(v string) (any, error) { return parseLevel(v) },
}

func parseSuccess(v string) (success.Rule, error) {
	s, err := success.Parse(v)
	if err != nil {
		return success.Rule{}, err
	}
	return *s, nil
}

func parseDurability(v string) (dispatcher.Durability, error) {
	d, err := dispatcher.ParseDurability(v)
	if err != nil {
		return d, errNumber // the original error repeats the accepted values
	}
	return d, nil
}

// parseAge parses an age. It may be longer than a year, unlike waits of a delivery.
func parseAge(v string) (Age, error) {
	const day = 24 * time.Hour
	for unit, long := range map[string]time.Duration{"d": day, "y": 365 * day} {
		number, found := strings.CutSuffix(v, unit)
		if n, err := strconv.ParseUint(number, 10, 16); found && err == nil && n <= 36500 {
			return Age(min(time.Duration(n), 36500*day/long+1) * long), nil // the range check refuses longer ages
		}
	}
	d, err := ladder.ParseDuration(v)
	return Age(d), err
}

func parseSize(v string) (Size, error) {
	n, err := humanize.ParseBytes(v)
	if err != nil || n > math.MaxInt64 {
		return 0, errNumber
	}
	return Size(n), nil
}

// The limits of a breaker. With more failures it would never open, and no wait is longer than ten
// minutes.
const (
	maxFailures = 10_000
	MostOpen    = 10 * time.Minute
)

// parseBreaker parses <failures>/<first wait>, such as 20/30s, or off.
func parseBreaker(v string) (Breaker, error) {
	if v == "off" {
		return Breaker{}, nil
	}
	count, text, ok := strings.Cut(v, "/")
	failures, err := strconv.Atoi(count)
	if !ok || err != nil {
		return Breaker{}, errNumber
	}
	wait, err := ladder.ParseDuration(text)
	if err != nil {
		return Breaker{}, err
	}
	switch {
	case failures < 1 || failures > maxFailures:
		return Breaker{}, fmt.Errorf("from 1 to %d failures", maxFailures)
	case wait < time.Millisecond || wait > MostOpen:
		return Breaker{}, fmt.Errorf("a wait from 1ms to %s", ladder.FormatDuration(MostOpen))
	}
	return Breaker{Failures: failures, Wait: wait}, nil
}

func parseSealing(v string) (Sealing, error) {
	box, err := app.ParseEncryptionKeys(v)
	return Sealing{box}, err
}

func parseProxy(v string) (url.URL, error) {
	u, err := app.ParseProxy(v)
	if err != nil {
		return url.URL{}, err
	}
	return *u, nil
}

// parsePublicURL parses the base URL of links: an origin, and the path of the API behind a
// proxy.
func parsePublicURL(v string) (PublicURL, error) {
	if _, err := app.ParseURL(v, "http", "https"); err != nil {
		return PublicURL{}, err
	}
	u, err := dispatcher.ParseURL(v)
	switch {
	case err != nil:
		return PublicURL{}, err
	case strings.Contains(v, "?"):
		return PublicURL{}, errors.New("it has to end behind its host or path")
	}
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), ""
	if u.Path != "" && (path.Clean(u.Path) != u.Path || u.EscapedPath() != u.Path) {
		return PublicURL{}, errors.New("its path has to be a plain one such as /hooks")
	}
	return PublicURL{u}, nil
}

// parseEach parses the elements of a list.
func parseEach[T any](v string, parse func(string) (T, error)) ([]T, error) {
	var all []T
	for text := range strings.SplitSeq(v, ",") {
		one, err := parse(strings.TrimSpace(text))
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// parseNet parses a network or a single address.
func parseNet(text string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(text); err == nil && addr.Zone() == "" {
		if strings.HasSuffix(text, ".0") || strings.HasSuffix(text, "::") {
			return netip.Prefix{}, fmt.Errorf("%s is one address: write the length of the network behind it, as in %s/%d", text, text, networkLength(addr))
		}
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return p, fmt.Errorf("%q is no network", text)
	}
	if p != p.Masked() {
		return p, fmt.Errorf("%s has bits set beyond its length; meant is perhaps %s", text, p.Masked())
	}
	if isTheWorld(p) {
		return p, fmt.Errorf("%s is a large part of the internet: name the networks that are meant, of at least /%d for IPv4 and /%d for IPv6", text, leastIPv4, leastIPv6)
	}
	return p, nil
}

// parseCallable parses a network, or a network and a port: 10.0.0.0/8:9000, fd00::/8:9000,
// 10.1.2.3:9000 or [fd00::1]:9000.
func parseCallable(text string) (app.Net, error) {
	port, given := "", false
	if addr, length, ok := strings.Cut(text, "/"); ok {
		length, port, given = strings.Cut(length, ":")
		text = addr + "/" + length
	} else if to, err := netip.ParseAddrPort(text); err == nil {
		text, port, given = to.Addr().String(), strconv.Itoa(int(to.Port())), true
	}
	p, err := parseNet(text)
	if err != nil || !given {
		return app.Net{Prefix: p}, err
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return app.Net{}, fmt.Errorf("%q is no port", port)
	}
	return app.Net{Prefix: p, Port: uint16(n)}, nil
}

// The shortest lengths of a network with public addresses. The networks that content delivery
// networks publish are longer.
const (
	leastIPv4 = 8
	leastIPv6 = 16
)

// isTheWorld reports whether a network is too large to be meant, such as 0.0.0.0/0. Everyone
// would be a trusted proxy, or a private address.
func isTheWorld(p netip.Prefix) bool {
	if p.Addr().Is4() {
		return p.Bits() < leastIPv4
	}
	a := p.Addr()
	private := a.IsPrivate() && p.Bits() >= 7 || a.IsLinkLocalUnicast() && p.Bits() >= 10 // in fc00::/7, fe80::/10
	return p.Bits() < leastIPv6 && !private
}

// networkLength returns the length of the network that an address without one probably means.
func networkLength(addr netip.Addr) int {
	bytes := addr.AsSlice()
	for len(bytes) > 1 && bytes[len(bytes)-1] == 0 {
		bytes = bytes[:len(bytes)-1]
	}
	return 8 * len(bytes)
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

// errNumber reports that the value is not accepted, without a reason.
var errNumber = errors.New("not accepted")

// reasonOf returns the reason of an error, if it adds something to the accepted values.
func reasonOf(err error) string {
	var number *strconv.NumError
	if errors.Is(err, errNumber) || errors.As(err, &number) || strings.HasPrefix(err.Error(), "slog: ") {
		return ""
	}
	return strings.ReplaceAll(err.Error(), "\n", "; ")
}

// A quantity names and compares the values of a type with bounds.
type quantity struct {
	noun string
	read func(text string) (float64, error)
}

var quantities = map[reflect.Type]quantity{
	reflect.TypeFor[time.Duration](): {"a duration", func(v string) (float64, error) {
		d, err := ladder.ParseDuration(v)
		return float64(d), err
	}},
	reflect.TypeFor[Size](): {"a size", func(v string) (float64, error) {
		n, err := parseSize(v)
		return float64(n), err
	}},
	reflect.TypeFor[Age](): {"an age such as 90d or 7y", func(v string) (float64, error) {
		age, err := parseAge(v)
		return float64(age), err
	}},
	reflect.TypeFor[int]():     {"a whole number", readNumber},
	reflect.TypeFor[float64](): {"a number", readNumber},
}

func readNumber(text string) (float64, error) { return strconv.ParseFloat(text, 64) }

// within reports whether a text is between low and high. Both are valid because they come from a
// tag.
func (q quantity) within(text, low, high string) bool {
	var n [3]float64
	for i, text := range []string{low, text, high} {
		var err error
		if n[i], err = q.read(text); err != nil {
			panic(fmt.Sprintf("%q is not %s: %v", text, q.noun, err))
		}
	}
	return n[0] <= n[1] && n[1] <= n[2]
}

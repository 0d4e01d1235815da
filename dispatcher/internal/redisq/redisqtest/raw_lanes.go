package redisqtest

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// readBehind reads the lines. The first delivery of each line is also in
// another place, and is read from that place.
func (r *raw) readBehind() {
	for name, cmd := range r.zsets {
		rest, ok := strings.CutPrefix(name, "behind:")
		if !ok {
			continue
		}
		lane, key, ok := strings.Cut(rest, ":")
		if !ok || key != OneLine && (len(key) != 16 || strings.Trim(key, "0123456789abcdef") != "") {
			r.fault("key %s", r.tag+":"+name)
		}
		set := Set{Lane: dispatcher.Lane(lane), Key: key}
		for i, z := range cmd.Val() {
			id := dispatcher.DeliveryID{Lane: set.Lane, Message: z.Member.(string)}
			r.out.Behind[set] = append(r.out.Behind[set], Queued{ID: id, At: int64(z.Score)})
			if i > 0 {
				r.found(id, Found{Place: PlaceBehind, At: int64(z.Score)})
			}
		}
	}
}

// at changes the parsed state of a lane.
func (r *raw) at(name string, change func(*LaneState)) {
	l := r.out.Lanes[dispatcher.Lane(name)]
	change(&l)
	r.out.Lanes[dispatcher.Lane(name)] = l
}

// whole is scan of a text that must have exactly this form. It reports a number
// that a script wrote as a fraction or as a power of ten.
func (r *raw) whole(text, format string, into ...any) {
	r.scan(text, format, into...)
	values := make([]any, len(into))
	for i, p := range into {
		switch p := p.(type) {
		case *int:
			values[i] = *p
		case *int64:
			values[i] = *p
		case *string:
			values[i] = *p
		}
	}
	if again := fmt.Sprintf(format, values...); again != text {
		r.fault("%q is written as %q", again, text)
	}
}

func (r *raw) readLanes() {
	if text := r.clock.Val(); text != "" {
		r.whole(text, "%d", &r.out.Now)
	}
	for name, text := range r.hashes["in"].Val() {
		r.at(name, func(l *LaneState) { r.whole(text, "%d %d", &l.InFlight, &l.Waiting) })
	}
	for name, text := range r.hashes["lane"].Val() {
		r.at(name, func(l *LaneState) {
			var opensAt int64
			text = strings.TrimSuffix(strings.TrimSuffix(text, " s"), " m") // the reason why the lane is left alone
			if before, away, ok := strings.Cut(text, " e"); ok {
				r.whole(away, "%d-%d", &l.Egress, &l.EgressWait)
				text = before
			}
			var last int64
			format, all := "%d %d %d %d %d %d %d %d %d", []any{&l.Window, &l.Fails, &l.Opened, &l.Until, &l.Tat, &l.Keys, &l.Slow, &l.Failing, &opensAt}
			if strings.Count(text, " ") == len(all) {
				format, all = format+" %d", append(all, &last)
			}
			r.whole(text, format, all...)
			if (l.Failing > 0) != (last > 0) || l.Failing > last {
				r.fault("lane %s fails as %q", name, text)
			}
			l.Known = true
		})
	}
	for name, text := range r.hashes["names"].Val() {
		r.at(name, func(l *LaneState) { l.Leads = text })
	}
}

// modes maps the letters of :limits to the modes.
var modes = map[string]dispatcher.LaneMode{
	"-": dispatcher.LaneNormal, "p": dispatcher.LanePaused, "d": dispatcher.LaneDisabled, "x": dispatcher.LaneDeleted,
	"g": dispatcher.LaneCut,
}

// pulled is the end of the limits of a lane whose deliveries are taken.
const pulled = " t"

func (r *raw) readLimits() {
	for _, field := range []string{keys.Epoch, keys.Readied} { // fields that belong to no lane
		delete(r.hashes["limits"].Val(), field)
	}
	for name, text := range r.hashes["limits"].Val() {
		if name == string(dispatcher.AllLanes) {
			if r.out.AllPaused = text == "0 0 0 0 p"; !r.out.AllPaused {
				r.fault("all lanes are stopped as %q", text)
			}
			continue
		}
		var interval int64
		var ordered int
		var letter string
		r.at(name, func(l *LaneState) {
			text, l.Limits.Pull = strings.CutSuffix(text, pulled)
			r.whole(text, "%d %d %d %d %s", &l.Limits.Version, &l.Limits.MaxInFlight, &interval, &ordered, &letter)
			l.Limited = true
			l.Limits.Interval, l.Limits.Ordered = time.Duration(interval)*time.Microsecond, ordered == 1
			mode, ok := modes[letter]
			if l.Limits.Mode = mode; !ok || ordered > 1 {
				r.fault("lane %s has the limits %q", name, text)
			}
		})
	}
}

// readStopped reads the modes of :held, which must be in step with the limits.
func (r *raw) readStopped() {
	for name, text := range r.hashes["held"].Val() {
		var letter, by string
		var since int64
		r.whole(text, "%s %d %s", &letter, &since, &by)
		limits := strings.TrimSuffix(r.hashes["limits"].Val()[name], pulled)
		if mode := modes[letter]; mode == dispatcher.LaneNormal || !strings.HasSuffix(limits, " "+letter) || since <= 0 {
			r.fault("lane %s is stopped as %q with the limits %q", name, text, limits)
		}
	}
	for name, text := range r.hashes["limits"].Val() {
		if _, stopped := r.hashes["held"].Val()[name]; stopped == strings.HasSuffix(strings.TrimSuffix(text, pulled), " -") {
			r.fault("lane %s has the limits %q and is in :held: %v", name, text, stopped)
		}
	}
}

// readPlacement reads which lanes are listed and which are parked.
func (r *raw) readPlacement() {
	score := func(set, name string, value float64) int64 {
		if whole := int64(value); float64(whole) != value || whole <= 0 {
			r.fault("lane %s is in :%s at %s", name, set, strconv.FormatFloat(value, 'g', -1, 64))
		}
		return int64(value)
	}
	for _, z := range r.zsets["known"].Val() {
		name := z.Member.(string)
		r.at(name, func(l *LaneState) { l.Noted = score("known", name, z.Score) })
	}
	for _, z := range r.zsets["lanes"].Val() {
		at := int64(z.Score) // a lane of weight 0 that never had a turn is at 0
		r.at(z.Member.(string), func(l *LaneState) {
			l.Listed, l.Weight, l.Turn = true, int(at/turnFactor), at%turnFactor
		})
	}
	for _, z := range r.zsets["pulls"].Val() {
		r.at(z.Member.(string), func(l *LaneState) { l.Takeable = true })
	}
	for _, z := range r.zsets["parked"].Val() {
		name := z.Member.(string)
		if name == "~taken" {
			r.out.Timer = score("parked", name, z.Score)
			continue
		}
		if name == "~expiring" {
			r.out.Expiry = score("parked", name, z.Score)
			continue
		}
		r.at(name, func(l *LaneState) { l.Parked = score("parked", name, z.Score) })
	}
	for _, z := range r.zsets["fenced"].Val() {
		r.out.Fenced = append(r.out.Fenced, z.Member.(string))
	}
}

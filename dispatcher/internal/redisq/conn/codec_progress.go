package conn

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// Progress is the entry of a delivery in :progress.
type Progress struct {
	Attempts, Base, Deaths, Status int
	Asked                          int64 // 0, 1 for the first attempt of a new ladder, or the interrupted due time in ms
	Reason                         dispatcher.DeadReason
	Beside                         int
	Job                            int64     // its job, until that ends; 0: none
	Delivered                      time.Time // its first success, before it was sent again; zero: none
	Answered                       int       // the status of that response
	Number                         int       // the number of that attempt
	Snoozes                        int       // how often its handlers let it wait on this ladder
}

// Climbed returns the number of attempts on the delivery's ladder, without the extra ones.
func (p Progress) Climbed() int { return p.Attempts - p.Base - p.Beside }

// WaitsOn returns the due time of a delivery if the attempt that a person requested fails. It
// is zero if the request interrupted no wait.
func (p Progress) WaitsOn() time.Time {
	if p.Asked <= 1 {
		return time.Time{}
	}
	return FromMillis(p.Asked)
}

// The number of deaths of instances in a row that makes a delivery a suspect, and the number
// after which it is attempted alone. They are SUSPECT and ALONE of lua/reap.lua.
const (
	suspectDeaths = 2
	aloneDeaths   = 5
)

// Suspect reports whether the delivery may have ended the instances that attempted it.
func (p Progress) Suspect() bool { return p.Deaths >= suspectDeaths }

// Alone reports whether the instance must attempt the delivery without any other at the same
// time.
func (p Progress) Alone() bool { return p.Deaths >= aloneDeaths }

// An entry with more bytes or attempts was not written by us. lua/progress.lua has the same
// rule.
const (
	progressMost = 256
	attemptsMost = 1<<31 - 1
)

// LeastPlain and MostPlain are the first and the last status of a first success that needs no
// entry in :progress, besides 200. Such a status is the part of the end in :done below a ms. It is
// less than half a ms, so a rounded end stays the same ms.
const (
	LeastPlain = 201
	MostPlain  = 499
)

var errProgress = fmt.Errorf("progress: %w", ErrReply)

// ParseProgress parses an entry of :progress. An invalid entry counts as none, also for the
// scripts, so callers only report the error.
func ParseProgress(text string) (p Progress, err error) {
	if text == "" {
		return p, nil
	}
	if at := strings.LastIndex(text, " z"); at > 0 {
		if p.Snoozes, err = strconv.Atoi(text[at+2:]); err != nil { // then it is a field that we do not know
			p.Snoozes = 0
		}
	}
	snoozes := p.Snoozes
	words := strings.SplitN(text, " ", 12)
	if len(words) < 8 || len(text) > progressMost || words[5] == "" {
		return p, errProgress
	}
	var numbers [5]uint64
	for i := range numbers {
		if numbers[i], err = strconv.ParseUint(words[i], 10, 53); err != nil || i < 4 && numbers[i] > attemptsMost {
			return p, errProgress
		}
	}
	beside, err := strconv.ParseUint(words[6], 10, 53)
	job, sent := strings.CutSuffix(words[7], "+")
	if err != nil || job == "" || strings.Trim(job, "0123456789") != "" {
		return p, errProgress
	}
	if numbers[1]+beside > numbers[0] {
		return p, errProgress
	}
	p = Progress{
		Attempts: int(numbers[0]), Base: int(numbers[1]), Deaths: int(numbers[2]), Status: int(numbers[3]),
		Asked: int64(numbers[4]), Beside: int(beside), Snoozes: snoozes,
	}
	if sent {
		p.Job, _ = strconv.ParseInt(job, 10, 64) // a job of ours has a smaller number
	}
	if words[5] != "-" {
		p.Reason = dispatcher.DeadReason(words[5])
	}
	if len(words) >= 11 {
		at, _ := strconv.ParseInt(words[8], 10, 64) // a broken time counts as none
		p.Delivered = FromMillis(at)
		p.Answered, _ = strconv.Atoi(words[9])
		p.Number, _ = strconv.Atoi(words[10])
	}
	return p, nil
}

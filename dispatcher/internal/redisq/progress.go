package redisq

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
)

// progress is what :progress holds of a delivery.
type progress struct {
	attempts, base, deaths, status int
	asked                          int64 // 0, 1 for the first of a new ladder, or in ms the due time that it interrupted
	reason                         dispatcher.DeadReason
	beside                         int
	job                            int64     // to which it belongs until it ends; 0: none
	delivered                      time.Time // when it was, before it was sent again; zero: it was not
	answered                       int       // the status of that answer
	number                         int       // of that attempt
}

// climbed is how many attempts of its ladder a delivery had, those beside it apart.
func (p progress) climbed() int { return p.attempts - p.base - p.beside }

// waitsOn is until when a delivery waits if the attempt that a person asked for
// fails; zero where that interrupted nothing.
func (p progress) waitsOn() time.Time {
	if p.asked <= 1 {
		return time.Time{}
	}
	return conn.FromMillis(p.asked)
}

// What has more, in bytes or times, was not written by us; lua/state.lua has the
// same rule.
const (
	progressMost = 256
	attemptsMost = 1<<31 - 1
)

// suspectDeaths make a delivery a suspect, and aloneDeaths one that is attempted alone, as
// SUSPECT and ALONE of lua/reap.lua.
const (
	suspectDeaths = 2
	aloneDeaths   = 5
)

var errProgress = fmt.Errorf("progress: %w", conn.ErrReply)

// parseProgress reads an entry of :progress. What can't be read is none, for the
// scripts too: the error is only to be told.
func parseProgress(text string) (p progress, err error) {
	if text == "" {
		return p, nil
	}
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
	p = progress{
		attempts: int(numbers[0]), base: int(numbers[1]), deaths: int(numbers[2]), status: int(numbers[3]),
		asked: int64(numbers[4]), beside: int(beside),
	}
	if sent {
		p.job, _ = strconv.ParseInt(job, 10, 64) // what is too large is no job of ours
	}
	if words[5] != "-" {
		p.reason = dispatcher.DeadReason(words[5])
	}
	if len(words) >= 11 {
		at, _ := strconv.ParseInt(words[8], 10, 64) // what can't be read is not told
		p.delivered = conn.FromMillis(at)
		p.answered, _ = strconv.Atoi(words[9])
		p.number, _ = strconv.Atoi(words[10])
	}
	return p, nil
}

// CheckProgress says why an entry of :progress can't be read; nil: it can.
func CheckProgress(text string) error {
	_, err := parseProgress(text)
	return err
}

// Rungs are where a delivery stands on its ladder.
type Rungs struct {
	Attempts, Base, Beside int
	Asked                  time.Time // the due time that somebody's request interrupted; zero: none
}

// ReadRungs reads an entry of :progress.
func ReadRungs(text string) Rungs {
	p, _ := parseProgress(text) // what can't be read is none
	return Rungs{Attempts: p.attempts, Base: p.base, Beside: p.beside, Asked: p.waitsOn()}
}

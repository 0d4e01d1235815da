package notices

import (
	"strconv"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// The deaths of a lane are reported at most once in deathsEvery, with their count. If more than
// deathLanes lanes have deaths at once, the others are not reported.
const (
	deathsEvery = time.Minute
	deathLanes  = 1024
)

// laneDeaths are the deaths of one lane that are not reported yet.
type laneDeaths struct {
	news dispatcher.News // of the first death; its count is for all
	next time.Time       // the next report is not earlier; zero: at once
}

// count adds deaths. The notice has a reason or a status only if all deaths have the same.
// The caller holds mu.
func (n *Notices) count(news dispatcher.News, deaths int) {
	d := n.deaths[news.Lane]
	if d == nil {
		if len(n.deaths) >= deathLanes {
			n.countDropped(1)
			return
		}
		d = &laneDeaths{}
		n.deaths[news.Lane] = d
	}
	if d.news.Count > 0 {
		if d.news.Reason != news.Reason {
			d.news.Reason = ""
		}
		if d.news.Status != news.Status {
			d.news.Status = 0
		}
		if !news.Since.IsZero() && news.Since.Before(d.news.Since) {
			d.news.Since = news.Since
		}
		d.news.Count += deaths
		return
	}
	d.news = news
	if d.news.Since.IsZero() {
		d.news.Since = news.At
	}
	d.news.Count = deaths
	n.wake.Set()
}

// takeDeaths returns the deaths of one lane that are due. If none are due, ok is false and wait
// is the time until the next report. A wait below 0 means until the next death.
func (n *Notices) takeDeaths(now time.Time) (news dispatcher.News, wait time.Duration, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	wait = -1
	for lane, d := range n.deaths {
		left := d.next.Sub(now)
		switch {
		case left > 0:
			if d.news.Count > 0 && (wait < 0 || left < wait) {
				wait = left
			}
		case d.news.Count == 0:
			delete(n.deaths, lane)
		default:
			n.works = true
			news, d.news, d.next = d.news, dispatcher.News{}, now.Add(deathsEvery)
			news.At = n.o.Now().Truncate(time.Millisecond)
			news.Key = strconv.FormatInt(news.At.Unix()/int64(deathsEvery/time.Second), 10)
			return news, 0, true
		}
	}
	return news, wait, false
}

// recount counts deaths again, because another instance reported this lane in the same
// minute, with its own deaths only.
func (n *Notices) recount(news dispatcher.News) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.count(news, news.Count)
}

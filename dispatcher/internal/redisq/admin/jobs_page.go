package admin

import (
	"context"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/read"
)

// indexes are the sets in which a job finds deliveries, by their names in
// scripts. A job that cancels finds its deliveries in lists.
var indexes = map[dispatcher.Status]string{
	"": "none", dispatcher.StatusRetrying: "due", dispatcher.StatusScheduled: "due", dispatcher.StatusDead: "dead", dispatcher.StatusCancelled: "cancelled", dispatcher.StatusDelivered: "done",
}

// Page returns a page of deliveries of one part that a job may change, the
// oldest first, from a cursor. It leaves out full lanes and deliveries that the
// job has already changed.
func (s *JobStore) Page(ctx context.Context, j *dispatcher.Job, at dispatcher.JobAt, full []dispatcher.Lane) (dispatcher.JobPage, error) {
	from := s.parseCursor(j, at)
	f, status := j.Filter, from.status
	page := dispatcher.JobPage{Status: status}
	if from.lane != "" && slices.Contains(full, from.lane) {
		page.Cursor, page.More = s.after(j, at.Part, from)
		return page, nil
	}
	r := s.conn.Send(ctx, conn.Batch{Script: s.page, Calls: []conn.Call{{Partition: at.Part, Args: pageArgs(j, at, from, words(full))}}})[0]
	r.Hint()
	if r.Err != nil {
		return page, s.conn.InPartition(at.Part, r.Err)
	}
	page.More, page.LookedAt = r.Number() == 1, int(r.Number())
	from.score, from.name = r.Text(), r.Text()
	for r.More() {
		e := read.EndedEntry{Status: status, Name: r.Text(), At: r.Time(), Head: r.Text(), Progress: r.Text()}
		d, ok := read.DecodeEnded(e)
		if ok && f.Matches(&d, e.At) {
			page.Deliveries = append(page.Deliveries, d)
		}
	}
	if page.Cursor = from.String(); !page.More {
		page.Cursor, page.More = s.after(j, at.Part, from)
	}
	if r.Err != nil || page.More || len(page.Deliveries) > 0 || j.Number == 0 {
		return page, r.Err
	}
	return page, s.conn.Intact(ctx, at.Part) // a part ends only if its data are intact
}

// wanted returns the largest number of deliveries in a page. It is small
// because records are expensive.
func wanted(heads bool) int {
	if heads {
		return 128
	}
	return math.MaxInt16
}

// pageArgs returns the arguments of the script.
func pageArgs(j *dispatcher.Job, at dispatcher.JobAt, from jobPosition, skip string) []any {
	f, index, status := j.Filter, indexes[from.status], ""
	heads := f.OfMessage()
	since, until := int64(0), int64(conn.LatestMillis)
	if stillWaits(from.status) {
		status = string(from.status)
	}
	if from.lane != "" {
		index = "of:" + string(from.lane)
	} else if !f.Since.IsZero() {
		since = f.Since.UnixMilli()
	}
	if !at.Since.IsZero() && index != "due" { // a due delivery has no time by which it could join later
		until = conn.ToMillis(at.Since)
	}
	number := ""
	if j.Number > 0 {
		number = strconv.FormatInt(j.Number, 10)
	}
	return []any{
		0, index, since, until, from.score, from.name, wanted(heads), skip, words(f.Lanes), words(f.Reasons), number, conn.Flag(heads), status,
	}
}

// stillWaits reports whether deliveries of a status wait for their time.
func stillWaits(status dispatcher.Status) bool {
	return status == dispatcher.StatusRetrying || status == dispatcher.StatusScheduled
}

// jobPosition is the start of a page: after a score and a name of one index. If
// the filter has lanes, waiting deliveries are read lane by lane, so that other
// lanes cost nothing.
type jobPosition struct {
	status      dispatcher.Status
	lane        dispatcher.Lane // empty: the index has all lanes
	score, name string
}

func (p jobPosition) String() string {
	return string(p.status) + "/" + string(p.lane) + " " + p.score + " " + p.name
}

// starts returns the start positions of all indexes of a job in a part.
func (s *JobStore) starts(j *dispatcher.Job, part int) (all []jobPosition) {
	for _, status := range j.Filter.Statuses {
		if !stillWaits(status) || len(j.Filter.Lanes) == 0 {
			all = append(all, jobPosition{status: status})
			continue
		}
		for _, lane := range j.Filter.Lanes {
			if p := (jobPosition{status: status, lane: lane}); s.Part(lane) == part && !slices.Contains(all, p) {
				all = append(all, p)
			}
		}
	}
	return all
}

// after returns the start of the next index, if there is one.
func (s *JobStore) after(j *dispatcher.Job, part int, p jobPosition) (cursor string, more bool) {
	all := s.starts(j, part)
	i := slices.IndexFunc(all, func(other jobPosition) bool { return other.status == p.status && other.lane == p.lane })
	if i < 0 || i+1 == len(all) {
		return p.String(), false
	}
	return all[i+1].String(), true
}

// parseCursor reads the cursor of a page. It returns the first page for a text
// that is not a cursor of the job.
func (s *JobStore) parseCursor(j *dispatcher.Job, at dispatcher.JobAt) jobPosition {
	all := s.starts(j, at.Part)
	words := strings.SplitN(at.Cursor, " ", 3)
	status, lane, _ := strings.Cut(words[0], "/")
	for _, p := range all {
		if len(words) == 3 && string(p.status) == status && string(p.lane) == lane {
			p.score, p.name = words[1], words[2]
			return p
		}
	}
	if len(all) == 0 {
		return jobPosition{status: j.Filter.Statuses[0]}
	}
	return all[0]
}

// words returns a text with a space at both ends of each word. It returns an
// empty text for an empty list.
func words[T ~string](list []T) string {
	var b strings.Builder
	for _, word := range list {
		b.WriteString(" " + string(word))
	}
	if b.Len() > 0 {
		b.WriteString(" ")
	}
	return b.String()
}

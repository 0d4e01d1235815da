package admin

import (
	"context"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/read"
)

// Suffixes of a job's fields, after its number: failures, reasons for leaving
// deliveries, and results of the deliveries that it sent.
const (
	failuresField = " failures"
	leftField     = " left"
	endsField     = " ends"
	probeField    = " probe" // followed by a lane; followed by s, it has the number of lanes
)

// SentField is the time of the last step that a retrying job made in this
// partition.
const SentField = "sent"

// Parts returns the parts of the queue in which a filter may find something.
func (s *JobStore) Parts(f dispatcher.Filter) []int { return s.conn.PartitionsOf(f.Lanes) }

// Part returns the part of a lane.
func (s *JobStore) Part(lane dispatcher.Lane) int { return s.conn.PartitionOf(lane) }

// Turn makes all parts of a job refuse the steps of older turns. It begins the job in parts
// that have not begun it. It returns the progress of each part, or ErrJobTurn if a part has a
// newer turn.
func (s *JobStore) Turn(ctx context.Context, by string, j *dispatcher.Job) (map[int]dispatcher.JobPart, error) {
	since := int64(0)
	if j.Turn > 1 { // a part that missed the begin must leave out deliveries that ended later
		since = conn.ToMillis(j.StartedAt)
	}
	in := s.Parts(j.Filter)
	calls := make([]conn.Call, len(in))
	for i, n := range in {
		calls[i] = conn.Call{Partition: n, Args: []any{j.Number, j.Turn, since}}
	}
	parts := make(map[int]dispatcher.JobPart, len(in))
	for i, r := range s.conn.Send(ctx, conn.Batch{Script: jobTurnScript, By: by, Calls: calls}) {
		r.Hint()
		text := ""
		if r.Err == nil {
			text = r.Text()
		}
		if r.Err != nil {
			return nil, s.conn.InPartition(in[i], r.Err)
		}
		if text == "" {
			return nil, dispatcher.ErrJobTurn
		}
		part, ok := parsePart(text)
		if !ok {
			return nil, conn.ErrReply
		}
		parts[in[i]] = part
	}
	return parts, nil
}

// atEnd is the cursor of a part that has nothing left.
const atEnd = "."

var partText = regexp.MustCompile(`^((?:[0-9]{1,15} ){7})(?s:(.*))$`)

// CheckJobPart reports whether a partition's text of a job can be read.
func CheckJobPart(field, text string) bool {
	if strings.HasSuffix(field, failuresField) {
		return true
	}
	ok := false
	switch {
	case strings.HasSuffix(field, leftField):
		_, ok = parseLeft(text)
	case strings.HasSuffix(field, endsField):
		_, ok = parseEnds(text)
	case strings.Contains(field, probeField+" "):
		ok = true // it contains an id
	case field == SentField || strings.HasSuffix(field, probeField+"s"):
		_, err := strconv.ParseInt(text, 10, 64)
		ok = err == nil
	default:
		_, ok = parsePart(text)
	}
	return ok
}

// parsePart reads a job's text in :jobs, in the format of lua/job.lua.
func parsePart(text string) (p dispatcher.JobPart, ok bool) {
	m := partText.FindStringSubmatch(text)
	if m == nil {
		return p, false
	}
	var numbers [7]int64
	for i, digits := range strings.Fields(m[1]) {
		numbers[i], _ = strconv.ParseInt(digits, 10, 64) // of 15 digits at most
	}
	p.Since = conn.FromMillis(numbers[1])
	p.Matched, p.Done, p.Failed, p.Left, p.Skipped = int(numbers[2]), int(numbers[3]), int(numbers[4]), int(numbers[5]), int(numbers[6])
	if p.Cursor = m[2]; p.Cursor == atEnd {
		p.Cursor, p.Ended = "", true
	}
	return p, true
}

// Codes that scripts return. 1 is a change.
const (
	laneFull = -9
	probed   = 3
)

// Step changes deliveries that the job found and writes its progress. Before the end of a cancel it
// ends the deliveries that lie deep in long lists, which the steps only marked: otherwise they count
// as ready until they are read, in a paused lane for ever.
func (s *JobStore) Step(ctx context.Context, by string, step dispatcher.JobStep) (dispatcher.JobStepped, error) {
	cursor := step.Cursor
	if step.Ended {
		cursor = atEnd
		if step.Job.Kind == dispatcher.JobCancel {
			if err := s.queue.CarryOutAll(ctx, by, step.Part); err != nil {
				return dispatcher.JobStepped{}, err
			}
		}
	}
	text := fmt.Sprintf("%d %d %s %d %d %d %s", step.Job.Number, step.Job.Turn, indexes[step.Status], step.Skipped, step.Named, conn.Flag(step.Job.Probe), cursor)
	progress, codes, err := s.queue.JobStep(ctx, by, text, step)
	if err != nil {
		return dispatcher.JobStepped{}, err
	}
	var out dispatcher.JobStepped
	var ok bool
	if out.JobPart, ok = parsePart(progress); !ok {
		return out, conn.ErrReply
	}
	for i, code := range codes {
		switch code {
		case 1:
			out.Done++
		case probed:
			out.Probes++
		case laneFull:
			out.Full = append(out.Full, step.IDs[i])
		}
	}
	return out, nil
}

// read returns jobs with their counts, in the order of the numbers. It leaves
// out missing jobs.
func (s *JobStore) read(ctx context.Context, numbers []int64, failures bool) ([]dispatcher.Job, error) {
	records, err := s.texts(ctx, numbers)
	if err != nil {
		return nil, err
	}
	moved, err := s.moved(ctx)
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, fieldsOfOne*len(numbers)+1)
	for _, name := range fields(numbers) {
		names = append(names, name, name+leftField, name+endsField)
	}
	if failures {
		names = append(names, names[0]+failuresField)
	}
	all := s.conn.All()
	values := make([]*redis.SliceCmd, len(all))
	err = s.conn.EachPartition(ctx, "read jobs", all, func(p redis.Pipeliner, i int) {
		values[i] = p.HMGet(ctx, s.conn.Tag(all[i])+keys.Jobs, names...)
	})
	if err != nil {
		return nil, err
	}
	var list []dispatcher.Job
	for i, text := range records {
		j, err := decode(numbers[i], text)
		if err != nil {
			continue
		}
		for _, v := range values {
			found := texts(v)
			addPart(&j, found[fieldsOfOne*i:])
			if failures {
				addFailures(&j, found[fieldsOfOne])
			}
		}
		for _, m := range moved[j.Number] {
			j.Add(m.JobCounts)
			j.AddReasons(m.reasons)
			j.Ends.Add(m.ends)
		}
		j.Account()
		list = append(list, j)
	}
	return list, nil
}

// fieldsOfOne is the number of fields of a partition that are read for each
// job.
const fieldsOfOne = 3

// addPart adds the progress of a job in one partition.
func addPart(j *dispatcher.Job, found []string) {
	if part, ok := parsePart(found[0]); ok {
		j.Add(part.JobCounts)
	}
	left, _ := parseLeft(found[1])
	j.AddReasons(left)
	ends, _ := parseEnds(found[2])
	j.Ends.Add(ends)
}

// parseEnds reads the results of the deliveries that a job sent, in the format
// of lua/order.lua.
func parseEnds(text string) (e dispatcher.JobEnds, ok bool) {
	n, err := fmt.Sscanf(text, "%d %d %d %d", &e.Delivered, &e.Cancelled, &e.Dead, &e.TakenOver)
	return e, err == nil && n == 4
}

// parseLeft reads the reasons for leaving deliveries, in the format of
// lua/job.lua.
func parseLeft(text string) (reasons map[dispatcher.Left]int, ok bool) {
	words := strings.Fields(text)
	if len(words)%2 != 0 || len(words) > 2*reasonsMost {
		return nil, false
	}
	reasons = make(map[dispatcher.Left]int, len(words)/2)
	for i := 0; i < len(words); i += 2 {
		n, err := strconv.ParseInt(words[i+1], 10, 53)
		if err != nil || n < 0 {
			return nil, false
		}
		reasons[dispatcher.Left(words[i])] += int(n)
	}
	return reasons, true
}

// reasonsMost is more than the number of reasons.
const reasonsMost = 32

func addFailures(j *dispatcher.Job, text string) {
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		why, name, _ := strings.Cut(line, " ")
		if id, ok := dispatcher.ParseDeliveryID(name); ok && len(j.Failures) < dispatcher.MostFailures {
			j.Failures = append(j.Failures, dispatcher.JobFailure{ID: id, Why: dispatcher.Left(why)})
		}
	}
}

// movedCounts are the counts of a job in a partition before a repartition.
type movedCounts struct {
	dispatcher.JobCounts
	reasons map[dispatcher.Left]int
	ends    dispatcher.JobEnds
	field   string
}

var movedField = regexp.MustCompile(`^([0-9]{1,15}) (was|left|ends) [0-9]+ [0-9A-Za-z-]+$`)

// moved returns the counts of jobs in partitions before a repartition.
func (s *JobStore) moved(ctx context.Context) (map[int64][]movedCounts, error) {
	var names *redis.StringSliceCmd
	err := s.conn.At(ctx, "read jobs", conn.Home, func(p redis.Pipeliner) { names = p.HKeys(ctx, s.home+keys.Jobs) })
	if err != nil {
		return nil, err
	}
	found := slices.DeleteFunc(names.Val(), func(name string) bool { return !movedField.MatchString(name) })
	moved := map[int64][]movedCounts{}
	for some := range slices.Chunk(found, keptJobs) {
		var list *redis.SliceCmd
		err := s.conn.At(ctx, "read jobs", conn.Home, func(p redis.Pipeliner) { list = p.HMGet(ctx, s.home+keys.Jobs, some...) })
		if err != nil {
			return nil, err
		}
		for i, text := range texts(list) {
			m := movedField.FindStringSubmatch(some[i])
			n, _ := strconv.ParseInt(m[1], 10, 64)
			moved[n] = append(moved[n], movedOf(m[2], text, some[i]))
		}
	}
	return moved, nil
}

// movedOf parses the text of one kind of counts that were moved.
func movedOf(kind, text, field string) (m movedCounts) {
	m.field = field
	switch kind {
	case "left":
		m.reasons, _ = parseLeft(text)
		return m
	case "ends":
		m.ends, _ = parseEnds(text)
		return m
	}
	part, _ := parsePart(text)
	// The job may find the skipped deliveries again.
	part.Matched = part.Done + part.Failed + part.Left
	m.JobCounts = part.JobCounts
	return m
}

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
	r := s.conn.Send(ctx, conn.Batch{Script: jobPageScript, Calls: []conn.Call{{Partition: at.Part, Args: pageArgs(j, at, from, words(full))}}})[0]
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

package admin

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
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
	for i, r := range s.conn.Send(ctx, conn.Batch{Script: s.turn, By: by, Calls: calls}) {
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

package admin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/input"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// Limits on stored jobs. A live job costs one query at the start of each
// instance, and one goroutine in its holder.
const (
	mostLive = 100
	keptJobs = 1000
	keptFor  = 7 * 24 * time.Hour
	readMost = 50 // records of one call: each has 16 KiB at most, by the limit of the API
)

// JobStore keeps the jobs of a project.
type JobStore struct {
	queue *redisq.Store
	conn  *conn.Client
	home  string
}

// NewJobStore returns a store of jobs on top of a queue.
func NewJobStore(queue *redisq.Store) *JobStore {
	return &JobStore{queue: queue, conn: queue.Conn(), home: queue.Conn().Tag(conn.Home)}
}

// jobRecord is a job as it is stored under the project's hash tag.
type jobRecord struct {
	Kind    dispatcher.JobKind
	Filter  dispatcher.Filter
	Rate    string `json:",omitempty"`
	State   dispatcher.JobState
	Error   string `json:",omitempty"`
	By      string `json:",omitempty"`
	Holder  string `json:",omitempty"`
	Turn    int64
	Started int64
	Ended   int64 `json:",omitempty"`

	Forgotten bool `json:",omitempty"`
	Expected  *int `json:",omitempty"`
	Probe     bool `json:",omitempty"`
}

func encode(j *dispatcher.Job) string {
	b, err := json.Marshal(jobRecord{
		Kind: j.Kind, Filter: j.Filter, Rate: j.Rate.String(), State: j.State, Error: j.Error, By: j.By, Holder: j.Holder,
		Turn: j.Turn, Started: conn.ToMillis(j.StartedAt), Ended: conn.ToMillis(j.EndedAt),
		Forgotten: j.Forgotten, Expected: j.Expected, Probe: j.Probe,
	})
	if err != nil {
		panic(err) // its fields are texts, numbers and times of four digits
	}
	return string(b)
}

func decode(number int64, text string) (dispatcher.Job, error) {
	var r jobRecord
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return dispatcher.Job{}, fmt.Errorf("job %d: its record can't be read: %w", number, err)
	}
	j := dispatcher.Job{
		Number: number, Kind: r.Kind, Filter: r.Filter, State: r.State, Error: r.Error, By: r.By, Holder: r.Holder, Turn: r.Turn,
		StartedAt: conn.FromMillis(r.Started), EndedAt: conn.FromMillis(r.Ended),
		Forgotten: r.Forgotten, Expected: r.Expected, Probe: r.Probe,
	}
	j.Rate, _ = dispatcher.ParseRate(r.Rate) // none is empty
	return j, nil
}

// Add stores a new job and returns its number.
func (s *JobStore) Add(ctx context.Context, j *dispatcher.Job) error {
	if err := s.conn.Intact(ctx, s.Parts(j.Filter)...); err != nil { // the job would find nothing in lost data
		return fmt.Errorf("add job: %w", err)
	}
	number, err := s.put(ctx, j, "", "")
	switch {
	case err != nil:
		return err
	case number < 0:
		return dispatcher.ErrJobs
	}
	j.Number = number
	return nil
}

func (s *JobStore) put(ctx context.Context, j *dispatcher.Job, number, old string) (int64, error) {
	r, err := s.conn.RunHome(ctx, putJobScript, number, old, encode(j), conn.Flag(!j.State.Ended()), mostLive)
	if err != nil {
		return 0, err
	}
	n := r.Number()
	return n, r.Err
}

// Change calls change with the stored job and writes the result. It retries
// after a race. It returns an error of change unchanged.
func (s *JobStore) Change(ctx context.Context, number int64, change func(j *dispatcher.Job) error) (dispatcher.Job, error) {
	for {
		old, err := s.texts(ctx, []int64{number})
		if err != nil {
			return dispatcher.Job{}, err
		}
		if old[0] == "" {
			return dispatcher.Job{}, dispatcher.ErrNoJob
		}
		j, err := decode(number, old[0])
		if err != nil {
			return j, err
		}
		if err := change(&j); err != nil {
			return j, err
		}
		if stored, err := s.put(ctx, &j, strconv.FormatInt(number, 10), old[0]); stored != 0 || err != nil {
			return j, err
		}
	}
}

// texts returns the records of jobs, with an empty text for each missing job.
func (s *JobStore) texts(ctx context.Context, numbers []int64) ([]string, error) {
	var list *redis.SliceCmd
	err := s.conn.At(ctx, "read jobs", conn.Home, func(p redis.Pipeliner) { list = p.HMGet(ctx, s.home+keys.Jobs, fields(numbers)...) })
	if err != nil {
		return nil, err
	}
	return texts(list), nil
}

func fields(numbers []int64) []string {
	names := make([]string, len(numbers))
	for i, n := range numbers {
		names[i] = strconv.FormatInt(n, 10)
	}
	return names
}

// texts returns the values of a reply, with an empty text for each missing
// value.
func texts(list *redis.SliceCmd) []string {
	out := make([]string, len(list.Val()))
	for i, v := range list.Val() {
		out[i], _ = v.(string)
	}
	return out
}

// Job returns a job with its counts and failures.
func (s *JobStore) Job(ctx context.Context, number int64) (dispatcher.Job, error) {
	list, err := s.read(ctx, []int64{number}, true)
	if err == nil && len(list) == 0 {
		if err = s.conn.Intact(ctx); err == nil {
			err = dispatcher.ErrNoJob
		}
	}
	if err != nil {
		return dispatcher.Job{}, err
	}
	return list[0], nil
}

// jobList is the name of the list, which has no filter.
var jobList = dispatcher.ListName("jobs", nil)

// Jobs returns a page of jobs with their counts, the newest first.
func (s *JobStore) Jobs(ctx context.Context, limit int, after string) (list []dispatcher.Job, next string, err error) {
	below := int64(0) // number of the last job of the page before
	if err := s.conn.Cursors().Open(ctx, jobList, after, &below); err != nil {
		return nil, "", err
	}
	numbers, err := s.numbers(ctx)
	if err != nil {
		return nil, "", err
	}
	slices.Reverse(numbers)
	if below > 0 {
		numbers = slices.DeleteFunc(numbers, func(n int64) bool { return n >= below })
	}
	numbers, next, err = conn.CutPage(ctx, s.conn, jobList, numbers, input.PageSize(limit, input.MaxPage), func(n int64) int64 { return n })
	if err != nil {
		return nil, "", err
	}
	for some := range slices.Chunk(numbers, readMost) {
		jobs, err := s.read(ctx, some, false)
		if err != nil {
			return nil, "", err
		}
		list = append(list, jobs...)
	}
	if len(list) == 0 {
		err = s.conn.Intact(ctx)
	}
	return list, next, err
}

// numbers returns the numbers of all jobs, the oldest first.
func (s *JobStore) numbers(ctx context.Context) (list []int64, err error) {
	var names *redis.StringSliceCmd
	err = s.conn.At(ctx, "read jobs", conn.Home, func(p redis.Pipeliner) { names = p.HKeys(ctx, s.home+keys.Jobs) })
	for _, name := range conn.Value(names) {
		if n, err := strconv.ParseInt(name, 10, 64); err == nil {
			list = append(list, n)
		}
	}
	slices.Sort(list)
	return list, err
}

// Live returns the jobs that have not ended, without their counts, and the
// names of the instances.
func (s *JobStore) Live(ctx context.Context) (list []dispatcher.Job, instances []string, err error) {
	var live *redis.SliceCmd
	var names *redis.StringSliceCmd
	err = s.conn.At(ctx, "read live jobs", conn.Home, func(p redis.Pipeliner) {
		live, names = p.HMGet(ctx, s.home+keys.Jobs, "live"), p.HKeys(ctx, s.home+keys.Instances)
	})
	if err != nil {
		return nil, nil, err
	}
	var numbers []int64
	for word := range strings.FieldsSeq(texts(live)[0]) {
		if n, err := strconv.ParseInt(word, 10, 64); err == nil {
			numbers = append(numbers, n)
		}
	}
	if len(numbers) == 0 {
		return nil, names.Val(), nil
	}
	records, err := s.texts(ctx, numbers)
	if err != nil {
		return nil, nil, err
	}
	for i, text := range records {
		if j, err := decode(numbers[i], text); err == nil && !j.State.Ended() {
			list = append(list, j)
		}
	}
	return list, names.Val(), nil
}

// Forget removes jobs that ended long ago. If there are still too many, it
// removes the oldest ones.
func (s *JobStore) Forget(ctx context.Context, now time.Time) error {
	numbers, err := s.numbers(ctx)
	if err != nil {
		return err
	}
	var gone []int64
	for from := 0; from < len(numbers); from += readMost {
		some := numbers[from:min(from+readMost, len(numbers))]
		records, err := s.texts(ctx, some)
		if err != nil {
			return err
		}
		young := false
		for i, n := range some {
			j, err := decode(n, records[i])
			old := err != nil || j.State.Ended() && j.EndedAt.Before(now.Add(-keptFor))
			if old || len(numbers)-from-i > keptJobs && j.State.Ended() {
				gone = append(gone, n)
			} else {
				young = true
			}
		}
		if young && len(numbers)-from <= keptJobs {
			break // later jobs began later, and a job takes hours at most
		}
	}
	if len(gone) > 0 {
		err := s.conn.At(ctx, "forget jobs", conn.Home, func(p redis.Pipeliner) { p.HDel(ctx, s.home+keys.Jobs, fields(gone)...) })
		if err != nil {
			return err
		}
	}
	return s.sweep(ctx)
}

// sweep removes the fields of forgotten jobs from the partitions. It reads all
// fields, because a delivery may end after its job was forgotten.
func (s *JobStore) sweep(ctx context.Context) error {
	var last *redis.StringCmd
	err := s.conn.At(ctx, "forget jobs", conn.Home, func(p redis.Pipeliner) { last = p.HGet(ctx, s.home+keys.Jobs, "n") })
	if err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	newest, _ := last.Int64() // jobs that are added during the run have higher numbers
	numbers, err := s.numbers(ctx)
	if err != nil {
		return err
	}
	gone := func(field string) bool {
		word, _, _ := strings.Cut(field, " ")
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			return word == SentField && len(numbers) == 0
		}
		_, known := slices.BinarySearch(numbers, n)
		return n <= newest && !known
	}
	all := s.conn.All()
	names := make([]*redis.StringSliceCmd, len(all)+1)
	err = s.conn.EachPartition(ctx, "forget jobs", all, func(p redis.Pipeliner, i int) { names[i] = p.HKeys(ctx, s.conn.Tag(all[i])+keys.Jobs) })
	if err != nil {
		return err
	}
	err = s.conn.At(ctx, "forget jobs", conn.Home, func(p redis.Pipeliner) { names[len(all)] = p.HKeys(ctx, s.home+keys.Jobs) })
	if err != nil {
		return err
	}
	remove := func(p redis.Pipeliner, key string, list *redis.StringSliceCmd) {
		for some := range slices.Chunk(slices.DeleteFunc(list.Val(), func(field string) bool { return !gone(field) }), keptJobs) {
			p.HDel(ctx, key, some...)
		}
	}
	err = s.conn.EachPartition(ctx, "forget jobs", all, func(p redis.Pipeliner, i int) { remove(p, s.conn.Tag(all[i])+keys.Jobs, names[i]) })
	if err != nil {
		return err
	}
	return s.conn.At(ctx, "forget jobs", conn.Home, func(p redis.Pipeliner) { remove(p, s.home+keys.Jobs, names[len(all)]) })
}

// JobNames are a forgotten tenant and subject, with a time range.
type JobNames struct {
	Tenant, Subject string // empty: none; if both are set, a message must have both to be forgotten
	Since           time.Time
	Before          time.Time // zero: the range has no end
	By              string    // the caller, as in scripts
	Now             time.Time
}

// HideNames replaces forgotten names by hashes in the filters of jobs that
// began within the time range. It stops jobs that have not ended, because with
// hashes they would find nothing. It returns the number of changed jobs and may
// be repeated.
func (s *JobStore) HideNames(ctx context.Context, n JobNames) (changed int, err error) {
	if n.Tenant == "" && n.Subject == "" {
		return 0, nil
	}
	numbers, err := s.numbers(ctx)
	if err != nil {
		return 0, err
	}
	for some := range slices.Chunk(numbers, readMost) {
		records, err := s.texts(ctx, some)
		if err != nil {
			return changed, err
		}
		for i, number := range some {
			j, err := decode(number, records[i])
			if err != nil || !n.hide(&j) {
				continue // an unreadable record is removed when it is old
			}
			if err := s.hide(ctx, number, n); err != nil {
				return changed, err
			}
			changed++
		}
	}
	return changed, nil
}

// hide changes one job. It makes the partitions refuse the job's earlier turns.
func (s *JobStore) hide(ctx context.Context, number int64, n JobNames) error {
	ran := false
	j, err := s.Change(ctx, number, func(j *dispatcher.Job) error {
		n.hide(j)
		if ran = !j.State.Ended(); ran {
			j.Turn++
			j.State, j.Holder, j.EndedAt = dispatcher.JobStopped, "", n.Now
		}
		return nil
	})
	if errors.Is(err, dispatcher.ErrNoJob) {
		return nil // the job was old and is removed
	}
	if err == nil && ran {
		if _, err = s.Turn(ctx, n.By, &j); errors.Is(err, dispatcher.ErrJobTurn) {
			return nil
		}
	}
	return err
}

// hide changes the filter of a job. It reports whether the filter had a
// forgotten name.
func (n JobNames) hide(j *dispatcher.Job) bool {
	began := j.StartedAt
	if began.Before(n.Since) || !n.Before.IsZero() && !began.Before(n.Before) {
		return false
	}
	f := &j.Filter
	named := false
	switch {
	case n.Subject == "":
		f.Tenants, named = hidden(f.Tenants, n.Tenant)
	case n.Tenant == "" || len(f.Tenants) == 0 || slices.Contains(f.Tenants, n.Tenant):
		f.Subjects, named = hidden(f.Subjects, n.Subject)
	}
	j.Forgotten = j.Forgotten || named
	return named
}

// hidden returns a list of names with one name replaced by its hash. A person
// who has the name can check it by the hash.
func hidden(names []string, name string) ([]string, bool) {
	at := slices.Index(names, name)
	if at < 0 {
		return names, false
	}
	sum := sha256.Sum256([]byte(name))
	names = slices.Clone(names)
	names[at] = "sha256:" + hex.EncodeToString(sum[:])
	return names, true
}

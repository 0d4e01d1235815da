package admin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

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

package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/outage"
)

// atOnce is the number of slots of an instance. Each running job keeps a node of the store
// busy with short scripts. A job gives its slot to another one while it waits for its rate
// or for a lane.
const atOnce = 8

// forgetEvery is the time between two deletions of jobs that ended long ago.
const forgetEvery = time.Hour

// searchAgain is the wait before another search for jobs without a holder, if the store did
// not reply.
const searchAgain = 5 * time.Second

// Run runs this instance's jobs, and takes over jobs of instances that are gone, until ctx
// ends. Then it gives up its jobs, so that other instances take them over.
func (s *Jobs) Run(ctx context.Context) error {
	var working sync.WaitGroup
	defer working.Wait()
	slots := make(chan struct{}, atOnce)
	guard := time.NewTicker(max(s.o.PollEvery, searchAgain))
	defer guard.Stop()
	again := time.NewTimer(0)
	defer again.Stop()
	for forgot := (time.Time{}); ; {
		guarded := false
		select {
		case <-ctx.Done():
			return nil
		case <-s.begun:
			for _, w := range s.takeNew() {
				working.Go(func() { s.carryOut(ctx, w, slots) })
			}
			continue
		case <-s.wake:
		case <-guard.C:
			guarded = true
		case <-again.C:
		}
		s.searchBegins()
		working.Go(func() {
			defer s.searchEnded()
			if !s.takeOverAll(ctx) || !guarded && !s.notifyEnded(ctx) {
				again.Reset(searchAgain)
			}
		})
		if now := time.Now(); now.Sub(forgot) > forgetEvery {
			forgot = now
			working.Go(func() { s.report(ctx, "forget jobs", s.store.Forget(ctx, s.o.Now())) })
		}
	}
}

// searchBegins counts a search for jobs.
func (s *Jobs) searchBegins() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.searches, s.asked = s.searches+1, false
}

func (s *Jobs) searchEnded() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.searches--
}

func (s *Jobs) report(ctx context.Context, stage string, err error) {
	if ctx.Err() == nil {
		s.down.Report(stage, err)
	}
}

// carryOut runs a job until it has ended, or another instance has it. If this instance
// stops first, the job has no holder afterwards.
func (s *Jobs) carryOut(ctx context.Context, w *jobWorker, slots chan struct{}) {
	defer s.forget(w)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(w.life, stop)()
	if w.slots = slots; w.takeSlot(ctx) {
		w.work(ctx)
		w.freeSlot()
	}
	if w.ended {
		return
	}
	after, cancel := outage.Within(context.WithoutCancel(ctx))
	defer cancel()
	err := w.change(after, func(j *dispatcher.Job) { j.Holder = "" })
	if err != nil && !errors.Is(err, dispatcher.ErrJobTurn) {
		s.log.Warn("could not give up a job, another instance takes it over", "job", w.job.ID(), "err", err)
	}
}

// takeOverAll takes over the jobs that no living instance holds, and reports whether all
// jobs were read.
func (s *Jobs) takeOverAll(ctx context.Context) bool {
	call, cancel := outage.Within(ctx)
	defer cancel()
	live, instances, err := s.store.Live(call)
	var holders []string
	for _, j := range live {
		if s.isHere(j.Number) {
			continue
		}
		if j.Holder != s.o.Name() && slices.Contains(instances, j.Holder) {
			holders = append(holders, j.Holder)
			continue
		}
		if taken := s.takeOver(call, j); taken != nil {
			err = taken
		}
	}
	s.mu.Lock()
	s.holders = holders
	s.mu.Unlock()
	s.report(ctx, "look for jobs", err)
	return err == nil
}

// noticeWithin is the time after the end of a job in which its notice may be missing. It is
// longer than the time to detect a dead instance. Only the last endedMost jobs are checked.
const (
	noticeWithin = 10 * time.Minute
	endedMost    = 50
)

// notifyEnded repeats the notices of jobs that ended recently, because an instance may have
// died before its notice was stored. Each is stored once. It reports whether the jobs were
// read.
func (s *Jobs) notifyEnded(ctx context.Context) bool {
	call, cancel := outage.Within(ctx)
	defer cancel()
	list, _, err := s.store.Jobs(call, endedMost, "")
	for i := range list {
		if j := &list[i]; j.State.Ended() && s.o.Now().Sub(j.EndedAt) < noticeWithin {
			s.notify(j)
		}
	}
	s.report(ctx, "look for jobs", err)
	return err == nil
}

// notify sends the notice that a job ended.
func (s *Jobs) notify(j *dispatcher.Job) {
	detail := fmt.Sprintf("%s, %s by %s: %d done, %d failed, %d left", j.ID(), j.Kind, j.By, j.Done, j.Failed, j.Left)
	if j.Error != "" {
		detail += ": " + j.Error
	}
	s.o.Notify(dispatcher.News{
		Notice: dispatcher.NoticeJob, At: j.EndedAt, Key: fmt.Sprintf("%d_%d", j.Number, j.Turn), State: string(j.State),
		Since: j.StartedAt, Count: j.Done, Job: &dispatcher.JobEnd{ID: j.ID(), Kind: j.Kind, JobCounts: j.JobCounts}, Detail: detail,
	})
}

// takeOver makes this instance the holder of a job, unless another instance was faster.
func (s *Jobs) takeOver(ctx context.Context, j dispatcher.Job) error {
	before := j.Turn
	j, err := s.store.Change(ctx, j.Number, func(now *dispatcher.Job) error {
		if now.Turn != before || now.State.Ended() {
			return dispatcher.ErrJobTurn
		}
		now.Turn++
		now.Holder = s.o.Name()
		return nil
	})
	if err == nil {
		var parts map[int]dispatcher.JobPart
		if parts, err = s.store.Turn(ctx, s.o.Name(), &j); err == nil {
			s.log.LogAttrs(ctx, slog.LevelInfo, "job taken over", slog.String("job", j.ID()))
			s.take(j, parts)
			return nil
		}
	}
	if errors.Is(err, dispatcher.ErrJobTurn) || errors.Is(err, dispatcher.ErrNoJob) {
		return nil
	}
	return err
}

// take adds a job to this instance's, and passes it to Run. An older turn of it ends by
// itself.
func (s *Jobs) take(j dispatcher.Job, parts map[int]dispatcher.JobPart) {
	w := newWorker(s, j, parts)
	s.mu.Lock()
	s.here[j.Number] = w
	s.added = append(s.added, w)
	s.mu.Unlock()
	s.begun.Set()
}

// takeNew returns the jobs that were added since the last call.
func (s *Jobs) takeNew() []*jobWorker {
	s.mu.Lock()
	defer s.mu.Unlock()
	added := s.added
	s.added = nil
	return added
}

func (s *Jobs) isHere(number int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.here[number] != nil
}

// drop cancels the run of a job that was stopped, unless it was resumed after that.
func (s *Jobs) drop(stopped *dispatcher.Job) {
	s.mu.Lock()
	w := s.here[stopped.Number]
	s.mu.Unlock()
	if w != nil && w.job.Turn < stopped.Turn {
		w.drop()
	}
}

// forget removes a turn of a job that has ended here.
func (s *Jobs) forget(w *jobWorker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.here[w.job.Number] == w {
		delete(s.here, w.job.Number)
	}
}

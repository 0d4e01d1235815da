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

// atOnce is how many jobs one instance carries out at a time: each keeps a node of
// the store busy with short scripts. Others wait for a place, which a job leaves while
// it waits for its rate or for a lane.
const atOnce = 8

// forgetEvery is how often it is looked for jobs that ended long ago.
const forgetEvery = time.Hour

// lookAgain is how soon it is looked again for jobs without a holder where the store
// did not answer.
const lookAgain = 5 * time.Second

// Run carries out this instance's jobs, and takes over those of instances that are
// gone, until ctx ends. Then it gives up those under way, so that others take them.
func (s *Jobs) Run(ctx context.Context) error {
	var working sync.WaitGroup
	defer working.Wait()
	places := make(chan struct{}, atOnce)
	guard := time.NewTicker(max(s.o.PollEvery, lookAgain))
	defer guard.Stop()
	again := time.NewTimer(0)
	defer again.Stop()
	for forgot := (time.Time{}); ; {
		guarded := false
		select {
		case <-ctx.Done():
			return nil
		case <-s.begun:
			for _, w := range s.met() {
				working.Go(func() { s.carryOut(ctx, w, places) })
			}
			continue
		case <-s.wake:
		case <-guard.C:
			guarded = true
		case <-again.C:
		}
		s.lookFrom()
		working.Go(func() {
			defer s.looked()
			if !s.look(ctx) || !guarded && !s.tellEnded(ctx) {
				again.Reset(lookAgain)
			}
		})
		if now := time.Now(); now.Sub(forgot) > forgetEvery {
			forgot = now
			working.Go(func() { s.report(ctx, "forget jobs", s.store.Forget(ctx, s.o.Now())) })
		}
	}
}

// lookFrom and looked note when it is looked for jobs.
func (s *Jobs) lookFrom() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looks, s.asked = s.looks+1, false
}

func (s *Jobs) looked() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looks--
}

func (s *Jobs) report(ctx context.Context, stage string, err error) {
	if ctx.Err() == nil {
		s.down.Report(stage, err)
	}
}

// carryOut works at a job until it has ended, or another has it. Where this instance
// stops first, the job is left without a holder.
func (s *Jobs) carryOut(ctx context.Context, w *jobWorker, places chan struct{}) {
	defer s.forget(w)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(w.life, stop)()
	if w.places = places; w.enter(ctx) {
		w.work(ctx)
		w.leave()
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

// look takes over the jobs that no living instance holds, and reports whether all
// could be looked at.
func (s *Jobs) look(ctx context.Context) bool {
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

// toldWithin is how long after a job ended its notice may be missing: longer than it takes
// to find a dead instance. Of more than endedMost at once the oldest are not looked at.
const (
	toldWithin = 10 * time.Minute
	endedMost  = 50
)

// tellEnded tells once more which jobs ended: the instance that ended one may have died
// before its notice was stored, which is kept once. It reports whether they could be read.
func (s *Jobs) tellEnded(ctx context.Context) bool {
	call, cancel := outage.Within(ctx)
	defer cancel()
	list, _, err := s.store.Jobs(call, endedMost, "")
	for i := range list {
		if j := &list[i]; j.State.Ended() && s.o.Now().Sub(j.EndedAt) < toldWithin {
			s.tell(j)
		}
	}
	s.report(ctx, "look for jobs", err)
	return err == nil
}

// tell has a notice tell that a job ended.
func (s *Jobs) tell(j *dispatcher.Job) {
	detail := fmt.Sprintf("%s, %s by %s: %d done, %d failed, %d left", j.ID(), j.Kind, j.By, j.Done, j.Failed, j.Left)
	if j.Error != "" {
		detail += ": " + j.Error
	}
	s.o.Tell(dispatcher.News{
		Notice: dispatcher.NoticeJob, At: j.EndedAt, Key: fmt.Sprintf("%d_%d", j.Number, j.Turn), State: string(j.State),
		Since: j.StartedAt, Count: j.Done, Job: &dispatcher.JobEnd{ID: j.ID(), Kind: j.Kind, JobCounts: j.JobCounts}, Detail: detail,
	})
}

// takeOver makes this instance the holder of a job, unless another was quicker.
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

// take notes that a job is this instance's, and hands it to Run. An older turn of it
// ends by itself.
func (s *Jobs) take(j dispatcher.Job, parts map[int]dispatcher.JobPart) {
	w := newWorker(s, j, parts)
	s.mu.Lock()
	s.here[j.Number] = w
	s.fresh = append(s.fresh, w)
	s.mu.Unlock()
	s.begun.Set()
}

// met takes the jobs that Run has not met yet.
func (s *Jobs) met() []*jobWorker {
	s.mu.Lock()
	defer s.mu.Unlock()
	fresh := s.fresh
	s.fresh = nil
	return fresh
}

func (s *Jobs) isHere(number int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.here[number] != nil
}

// drop ends the work at a job that was stopped, unless it was resumed since.
func (s *Jobs) drop(stopped *dispatcher.Job) {
	s.mu.Lock()
	w := s.here[stopped.Number]
	s.mu.Unlock()
	if w != nil && w.job.Turn < stopped.Turn {
		w.drop()
	}
}

// forget notes that a turn of a job has ended here.
func (s *Jobs) forget(w *jobWorker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.here[w.job.Number] == w {
		delete(s.here, w.job.Number)
	}
}

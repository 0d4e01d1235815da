package engine_test

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	d "github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/engine"
	"github.com/hookladder/hookladder/dispatcher/internal/outage"
)

// Leases that no instance knows of.

// plant leases a delivery to the instance without telling it.
func plant(q *testQueue, id string) d.DeliveryID {
	c := claimed(message(id))
	q.lease("here", c)
	return c.ID
}

func TestACallThatIsCarriedOutAfterItWasGivenUpLeavesNoLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, nil)
		r.start(t)
		pass(10 * time.Minute)
		r.queue.set(func() { r.queue.hook = failing("claim", d.ErrUnavailable) })
		r.queue.hint(r.queue.now(), 0)
		synctest.Wait()
		r.queue.set(func() { r.queue.hook = nil })
		pass(5 * time.Second)
		require.Positive(t, r.queue.count("leases"), "it has looked by now")
		plant(r.queue, "late")
		pass(engine.ReconcileEvery)
		require.Equal(t, map[d.Verdict]int{d.Back: 1, d.Delivered: 1}, r.queue.verdicts())
		pass(5 * time.Minute)
		looks := r.queue.count("leases")
		pass(time.Hour)
		require.Equal(t, looks, r.queue.count("leases"), "once all is quiet it asks no more")
		r.stop(t)
	})
}

func TestLeasesThatAFailoverBroughtBackAreHandedBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, nil)
		r.start(t)
		pass(10 * time.Minute)
		plant(r.queue, "again")
		r.queue.ears.OnGap()
		pass(2 * engine.ReconcileAfter)
		require.Equal(t, map[d.Verdict]int{d.Back: 1, d.Delivered: 1}, r.queue.verdicts())
		r.stop(t)
	})
}

func TestFaultsThatGoOnDoNotPutOffTheComparison(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, nil)
		r.start(t)
		plant(r.queue, "unknown")
		for range 20 {
			r.queue.ears.OnGap()
			pass(engine.ReconcileAfter / 4)
		}
		require.Equal(t, map[d.Verdict]int{d.Back: 1, d.Delivered: 1}, r.queue.verdicts())
		r.stop(t)
	})
}

func TestAnUnknownLeaseIsHandedBackOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, nil)
		r.sender.answer = takes(10 * time.Second)
		r.start(t)
		id := plant(r.queue, "unknown")
		r.queue.set(func() { r.queue.hook = failing("settle", d.ErrUnavailable) })
		for range 10 {
			r.queue.ears.OnGap()
			pass(2 * engine.ReconcileAfter)
		}
		require.Greater(t, r.queue.count("leases"), 5)
		for _, c := range r.queue.seen("settle") {
			require.Equal(t, 1, c.n)
		}
		r.queue.set(func() { r.queue.hook = nil })
		pass(time.Minute)
		require.Len(t, r.queue.settled[id], 2)
		require.Equal(t, map[d.Verdict]int{d.Back: 1, d.Delivered: 1}, r.queue.verdicts())
		require.Zero(t, r.Leases())
		r.stop(t)
	})
}

func TestALeaseTakenWhileLeasesAreComparedIsNotHandedBack(t *testing.T) {
	t.Parallel()
	for _, settled := range []bool{false, true} {
		t.Run(fmt.Sprintf("settled before they are: %t", settled), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newTestRig(t, nil)
				r.start(t)
				pass(time.Minute)
				answer := make(chan struct{})
				r.queue.set(func() {
					r.queue.after = func(name string) error {
						if name == "claim" {
							<-answer
						}
						return nil
					}
					r.queue.leasesRead = sync.OnceFunc(func() {
						for settled && len(r.queue.outcomes()) == 0 {
							select {
							case <-answer:
							default:
								close(answer)
							}
							runtime.Gosched() // no time goes by until it is settled
						}
					})
				})
				r.queue.fill(1)
				r.Note()
				synctest.Wait() // it is leased, but the answer is on its way
				r.queue.ears.OnGap()
				pass(2 * engine.ReconcileAfter)
				if !settled {
					close(answer)
				}
				pass(time.Minute)
				require.Positive(t, r.queue.count("leases"))
				require.Equal(t, 1, r.queue.count("settle"), "no hand-back")
				require.Equal(t, map[d.Verdict]int{d.Delivered: 1}, r.queue.verdicts())
				require.Zero(t, r.Leases())
				r.stop(t)
			})
		})
	}
}

func TestLeasesOfPartitionsThatAnswerAreHandedBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newThreeRig(t)
		r.start(t)
		pass(10 * time.Minute)
		for _, lane := range lanesOfThree {
			c := claimed(message("m"))
			c.ID.Lane = lane
			r.queue.lease("here", c)
		}
		r.queue.cutOff(1)
		r.queue.ears.OnGap()
		pass(2 * engine.ReconcileAfter)
		require.Equal(t, 2, r.queue.verdicts()[d.Back], "the others need not wait")
		looks := r.queue.count("leases")
		pass(10 * time.Minute)
		require.Less(t, r.queue.count("leases"), looks+90, "nor are they asked without end")
		r.queue.cutOff()
		pass(engine.ReconcileAgain + outage.PauseMost)
		require.Equal(t, map[d.Verdict]int{d.Back: 3, d.Delivered: 3}, r.queue.verdicts())
		r.stop(t)
	})
}

func TestASettleThatAFailoverForgetsIsFoundWithinAMinute(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{0, time.Second, 10 * time.Second, 29 * time.Second, 45 * time.Second} {
		t.Run(after.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newTestRig(t, nil)
				r.start(t)
				pass(10*time.Minute + 17*time.Second)
				r.queue.fill(1)
				r.Note()
				pass(after)
				require.Equal(t, map[d.Verdict]int{d.Delivered: 1}, r.queue.verdicts())
				plant(r.queue, "again") // and the instance did not notice
				pass(time.Minute)
				require.Equal(t, map[d.Verdict]int{d.Back: 1, d.Delivered: 2}, r.queue.verdicts())
				r.stop(t)
			})
		})
	}
}

func TestAHandBackWhoseAnswerWasLostEndsNoLaterLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, nil)
		r.sender.answer = takes(10 * time.Second)
		r.start(t)
		plant(r.queue, "unknown")
		r.queue.set(func() { r.queue.after = once("settle", d.ErrUnavailable) })
		r.queue.ears.OnGap()
		pass(time.Minute)
		require.Equal(t, 3, r.queue.count("settle"), "the hand-back, its repeat, the outcome")
		require.Len(t, r.sender.sent(), 1, "the repeat would have another attempt made beside the first")
		require.Equal(t, map[d.Verdict]int{d.Back: 1, d.Delivered: 1}, r.queue.verdicts())
		require.Zero(t, r.Leases())
		r.stop(t)
	})
}

func TestALeaseIsKnownThatWasTakenBeforeItsHandBackWasAnswered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, nil)
		r.sender.answer = takes(10 * time.Second)
		r.start(t)
		plant(r.queue, "unknown")
		answer := make(chan struct{})
		r.queue.set(func() {
			r.queue.after = func(name string) error {
				if name == "settle" {
					<-answer
				}
				return nil
			}
		})
		r.queue.ears.OnGap()
		pass(2 * engine.ReconcileAfter)
		r.Note() // as the instance that handed it back would publish
		synctest.Wait()
		require.Len(t, r.sender.sent(), 1)
		close(answer)
		r.queue.ears.OnGap()
		pass(time.Minute)
		require.Len(t, r.sender.sent(), 1, "its attempt is under way")
		require.Equal(t, map[d.Verdict]int{d.Back: 1, d.Delivered: 1}, r.queue.verdicts())
		require.Zero(t, r.Leases())
		r.stop(t)
	})
}

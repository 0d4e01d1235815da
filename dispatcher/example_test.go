package dispatcher_test

import (
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/ladder"
)

// Judge decides from the response of a receiver how its delivery continues.
func ExampleJudge() {
	waits, err := ladder.Parse("15s,3m,10m")
	if err != nil {
		panic(err)
	}
	for _, attempt := range []struct{ status, rung int }{{204, 1}, {503, 1}, {503, 2}, {503, 4}, {410, 1}} {
		o := dispatcher.Judge(dispatcher.Case{
			Answer: dispatcher.Answer{Status: attempt.status},
			Rung:   attempt.rung, Ladder: waits,
			Now: time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC),
		})
		fmt.Printf("%d %s wait=%s reason=%q\n", attempt.status, o.Verdict, o.Wait, o.Reason)
	}
	// Output:
	// 204 delivered wait=0s reason=""
	// 503 retry wait=15s reason=""
	// 503 retry wait=3m0s reason=""
	// 503 dead wait=0s reason="exhausted"
	// 410 dead wait=0s reason="gone"
}

func ExampleMatchTopic() {
	fmt.Println(dispatcher.MatchTopic("payment.*", "payment.paid"))
	fmt.Println(dispatcher.MatchTopic("payment.paid", "payment.refunded"))
	fmt.Println(dispatcher.MatchTopic("*", "payment.paid"))
	// Output:
	// true
	// false
	// true
}

func ExampleParseRate() {
	rate, err := dispatcher.ParseRate("100/s")
	fmt.Println(rate, err)
	_, err = dispatcher.ParseRate("100")
	fmt.Println(err)
	// Output:
	// 100/s <nil>
	// is not a rate: write 100/s, 600/m or 50/h
}

// A link opens pages for a merchant until the API key of its maker is removed.
func ExampleAccessKeys_OfLink() {
	key := dispatcher.NewAccessKey("owner-1", sha256.Sum256([]byte("an API key")))
	token := key.NewLink()
	fmt.Println(len(token) == dispatcher.TokenLength, dispatcher.ValidLinkID(dispatcher.LinkID(token)))

	maker, ok := dispatcher.AccessKeys{key}.OfLink(token)
	fmt.Println(maker.Owner, ok)

	_, ok = dispatcher.AccessKeys{}.OfLink(token) // the key was removed
	fmt.Println(ok)
	_, ok = dispatcher.AccessKeys{dispatcher.NewAccessKey("owner-2", sha256.Sum256([]byte("another one")))}.OfLink(token)
	fmt.Println(ok)
	// Output:
	// true true
	// owner-1 true
	// false
	// false
}

// The record of a session is signed, so a record written by hand opens nothing.
func ExampleAccessKey_SignSession() {
	key := dispatcher.NewAccessKey("owner-1", sha256.Sum256([]byte("an API key")))
	signature := key.SignSession("owner-1", "2026-11-26T12:00:00Z")
	fmt.Println(dispatcher.SameToken(signature, key.SignSession("owner-1", "2026-11-26T12:00:00Z")))
	fmt.Println(dispatcher.SameToken(signature, key.SignSession("owner-1", "2036-11-26T12:00:00Z")))
	// Output:
	// true
	// false
}

func ExampleDurations_Quantile() {
	var took dispatcher.Durations
	for range 95 {
		took.Add(30 * time.Millisecond)
	}
	for range 5 {
		took.Add(20 * time.Second)
	}
	for _, q := range []float64{0.5, 0.95, 0.99} {
		at, more := took.Quantile(q)
		fmt.Println(q, at, more)
	}
	// Output:
	// 0.5 50ms false
	// 0.95 5s true
	// 0.99 5s true
}

// Each instance counts on its own, and the sum is the minute of the project.
func ExampleMinute_Merge() {
	minute := dispatcher.Minute{Accepted: 100, Delivered: 80, Failed: 20}
	minute.Merge(dispatcher.Minute{Accepted: 50, Delivered: 49, Failed: 2, Dead: 1})
	fmt.Println(minute.Accepted, minute.Delivered, minute.Failed, minute.Dead)
	// Output: 150 129 22 1
}

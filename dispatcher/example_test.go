package dispatcher_test

import (
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

package ladder_test

import (
	"fmt"
	"time"

	"github.com/hookladder/hookladder/ladder"
)

func Example() {
	l, err := ladder.Parse("15s, 3m/10m 1d")
	if err != nil {
		fmt.Println(err)
		return
	}
	for attempt := 1; ; attempt++ {
		wait, ok := l.Next(attempt)
		if !ok {
			fmt.Printf("attempt %d was the last\n", attempt)
			break
		}
		fmt.Printf("attempt %d failed: again after %s\n", attempt, ladder.FormatDuration(wait))
	}
	// Output:
	// attempt 1 failed: again after 15s
	// attempt 2 failed: again after 3m
	// attempt 3 failed: again after 10m
	// attempt 4 failed: again after 1d
	// attempt 5 was the last
}

func ExampleParse() {
	_, err := ladder.Parse("15s, 3 minutes")
	fmt.Println(err)
	// Output: rung 3 "minutes": not a duration; use a duration such as 15s, 1h30m or 1d, or a number of seconds such as 0.5
}

func ExampleDefault() {
	l := ladder.Default()
	fmt.Println(l)
	fmt.Println(l.Len()+1, "attempts within", l.Total())
	// Output:
	// 15s,3m,10m,30m,30m,1h,2h,6h,15h
	// 10 attempts within 25h13m15s
}

func ExampleLadder_Cut() {
	fmt.Println(ladder.Default().Cut(4))
	// Output: 15s,3m,10m
}

func ExampleLadder_Faster() {
	fmt.Println(ladder.Default().Faster(1000).Total())
	// Output: 1m30.795s
}

func ExampleJittered() {
	// The last argument comes from rand.Float64 in earnest.
	fmt.Println(ladder.Jittered(10*time.Minute, 0.1, 0.5))
	// Output: 10m30s
}

package dispatcher_test

import (
	"fmt"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

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

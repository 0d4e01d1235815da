package trace_test

import (
	"fmt"

	"github.com/hookladder/hookladder/dispatcher/trace"
)

func ExampleParse() {
	c, ok := trace.Parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	fmt.Println(ok, c.Flags&trace.Sampled == trace.Sampled, c)
	_, ok = trace.Parse("00-00000000000000000000000000000000-b7ad6b7169203331-01")
	fmt.Println(ok)
	// Output:
	// true true 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
	// false
}

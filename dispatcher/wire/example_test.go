package wire_test

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

func ExampleParseDuration() {
	for _, text := range []string{`"1h30m"`, `"2d"`, `90`, `"soon"`} {
		d, err := wire.ParseDuration([]byte(text))
		fmt.Println(d, err)
	}
	// Output:
	// 1h30m0s <nil>
	// 48h0m0s <nil>
	// 1m30s <nil>
	// 0s duration "soon": not a duration; use a duration such as 15s, 1h30m or 1d, or a number of seconds such as 0.5
}

// A number in a body stays as it is, however long.
func ExampleMessage() {
	var m wire.Message
	if err := json.Unmarshal([]byte(`{"topic":"payment.paid","delay":"30m","body":{"amount":12345678901234567890}}`), &m); err != nil {
		panic(err)
	}
	fmt.Println(m.Topic, string(m.Body))
	// Output: payment.paid {"amount":12345678901234567890}
}

// Spreadsheets calculate cells that begin with =, so NewCSV disarms them.
func ExampleNewCSV() {
	var text strings.Builder
	out := wire.NewCSV(&text, []string{"id", "last_error"})
	if err := out.Write([]string{"order_17", "=1+1"}); err != nil {
		panic(err)
	}
	if err := out.Flush(); err != nil {
		panic(err)
	}
	fmt.Printf("%q", text.String())
	// Output: "id,last_error\r\norder_17,'=1+1\r\n"
}

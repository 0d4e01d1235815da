// Command sign prints callbacks for verify.mjs: the first genuine one, or with
// -all a list of all cases and what each of them is.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/hookladder/hookladder/deploy/interop"
)

func main() {
	all := flag.Bool("all", false, "print every case")
	flag.Parse()
	if err := write(*all); err != nil {
		fmt.Fprintln(os.Stderr, "sign:", err)
		os.Exit(1)
	}
}

func write(all bool) error {
	cases, err := interop.Cases(time.Now())
	if err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	if all {
		return out.Encode(cases)
	}
	return out.Encode(cases[0].Callback)
}

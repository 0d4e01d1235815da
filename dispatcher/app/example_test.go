package app_test

import (
	"fmt"

	"github.com/hookladder/hookladder/dispatcher/app"
)

func ExampleParseProxy() {
	proxy, err := app.ParseProxy("http://user:hunter2@proxy.internal:3128")
	if err != nil {
		panic(err)
	}
	fmt.Println(proxy.Host, proxy.Redacted())
	_, err = app.ParseProxy("ftp://user:hunter2@proxy.internal") // the error does not repeat the password
	fmt.Println(err)
	// Output:
	// proxy.internal:3128 http://user:xxxxx@proxy.internal:3128
	// it must begin with http:// or https://
}

// The name of a key is what the audit log shows.
func ExampleParseKeys() {
	_, err := app.ParseKeys("a-key-of-the-shop:publish:shop,a-key-of-the-operators:read+admin:ops")
	fmt.Println(err)
	_, err = app.ParseKeys("a-key-of-the-shop:everything:shop")
	fmt.Println(err)
	// Output:
	// <nil>
	// entry 1: has an unknown scope: known are publish, read, bodies, tick, consume, consume@<queue> and admin, with + between
}

package success_test

import (
	"fmt"

	"github.com/hookladder/hookladder/dispatcher/success"
)

func ExampleParse() {
	for _, text := range []string{"2xx", `{"body":{"path":"code","equals":"SUCCESS"}}`, `{"body":{"matches":"("}}`} {
		rule, err := success.Parse(text)
		if err != nil {
			fmt.Println("error:", err)
			continue
		}
		fmt.Println(rule)
	}
	// Output:
	// {"status":["2xx"]}
	// {"status":["2xx"],"body":{"path":"code","equals":"SUCCESS"}}
	// error: success: $.body.matches: error parsing regexp: missing closing ): `(`
}

// Some receivers respond with 200 and report a failure in the body.
func ExampleRule_Judge() {
	rule, err := success.Parse(`{"status":["200"],"body":{"path":"code","equals":"SUCCESS"}}`)
	if err != nil {
		panic(err)
	}
	result, _ := rule.Judge(200, []byte(`{"code":"SUCCESS"}`))
	fmt.Println(result == success.Met)
	result, why := rule.Judge(200, []byte(`{"code":"FAIL"}`))
	fmt.Println(result == success.WrongBody, why)
	result, why = rule.Judge(204, nil)
	fmt.Println(result == success.WrongStatus, why)
	// Output:
	// true
	// true code in the body is not "SUCCESS"
	// true 200
}

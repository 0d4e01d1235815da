package inspect

import (
	"strconv"
	"strings"
	"time"
)

// A content is the text that is signed around the body.
type content struct{ head, tail string }

// otherIDs are headers that receivers use as the id by mistake.
var otherIDs = []string{"svix-id", "x-request-id", "idempotency-key", "x-correlation-id", "hookladder-id", "x-message-id"}

// contents returns the right content first, and then the mistakes in it.
func (c *callback) contents() assumptions[content] {
	right := ""
	if c.signsID {
		right = c.id + "."
	}
	if c.signsTime {
		right += c.timestamp + c.separator
	}
	all := assumptions[content]{{value: content{head: right}}}
	add := func(head, tail, says string) {
		all.add(OtherContent, content{head, tail}, "sign "+c.signs+", with the headers' own text", "is of "+says)
	}
	seconds := c.timestamp
	n, err := unixSeconds(c.timestamp)
	if err != nil && n > 0 {
		seconds = strconv.FormatInt(n, 10)
		add(strings.Replace(right, c.timestamp, seconds, 1), "", "the timestamp in whole seconds, which is not what its header has")
	}
	for _, name := range otherIDs {
		if value := c.Header.Get(name); value != "" && c.signsID {
			add(value+"."+c.timestamp+".", "", "the id in "+name)
		}
	}
	add("", "", "the body alone")
	add(seconds+".", "", "timestamp.body, without the id")
	add(seconds+",", "", "timestamp,body, with a comma between")
	add(c.id+"."+seconds+".", "", "id.timestamp.body")
	add(c.id+".", "", "id.body, without the timestamp")
	add(seconds+"."+c.id+".", "", "timestamp.id.body, in another order")
	add(c.id+seconds, "", "the parts without dots between")
	add(seconds, "", "timestamp and body without a dot between")
	add("", "."+seconds, "body.timestamp, in another order")
	add("", "."+seconds+"."+c.id, "body.timestamp.id, in another order")
	add(c.id+"."+seconds+"000.", "", "the timestamp in milliseconds")
	add(seconds+"000.", "", "the timestamp in milliseconds")
	add(c.id+"."+time.Unix(n, 0).UTC().Format(time.RFC3339)+".", "", "the timestamp as a date")
	return all
}

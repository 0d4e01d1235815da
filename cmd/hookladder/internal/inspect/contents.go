package inspect

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// A content is the text that is signed around the body.
type content struct {
	deviation
	head, tail string
}

// otherIDs are headers that receivers use as the id by mistake.
var otherIDs = []string{"svix-id", "x-request-id", "idempotency-key", "x-correlation-id", "hookladder-id", "x-message-id"}

// contents returns the right content first, and then the mistakes in it.
func (c *callback) contents() []content {
	all := []content{{head: c.head()}}
	add := func(head, tail, says string) {
		if !slices.ContainsFunc(all, func(one content) bool { return one.head == head && one.tail == tail }) {
			all = append(all, content{deviation{OtherContent, "is of " + says, "sign " + c.signs + ", with the headers' own text"}, head, tail})
		}
	}
	seconds := c.timestamp
	n, err := unixSeconds(c.timestamp)
	if err != nil && n > 0 {
		seconds = strconv.FormatInt(n, 10)
		add(strings.Replace(c.head(), c.timestamp, seconds, 1), "", "the timestamp in whole seconds, which is not what its header has")
	}
	for _, name := range otherIDs {
		if value := c.Header.Get(name); value != "" && c.signsID {
			add(value+"."+c.timestamp+".", "", "the id in "+name)
		}
	}
	date := c.id + "." + time.Unix(n, 0).UTC().Format(time.RFC3339) + "."
	for _, row := range []struct{ head, tail, says string }{
		{"", "", "the body alone"},
		{seconds + ".", "", "timestamp.body, without the id"},
		{seconds + ",", "", "timestamp,body, with a comma between"},
		{c.id + "." + seconds + ".", "", "id.timestamp.body"},
		{c.id + ".", "", "id.body, without the timestamp"},
		{seconds + "." + c.id + ".", "", "timestamp.id.body, in another order"},
		{c.id + seconds, "", "the parts without dots between"},
		{seconds, "", "timestamp and body without a dot between"},
		{"", "." + seconds, "body.timestamp, in another order"},
		{"", "." + seconds + "." + c.id, "body.timestamp.id, in another order"},
		{c.id + "." + seconds + "000.", "", "the timestamp in milliseconds"},
		{seconds + "000.", "", "the timestamp in milliseconds"},
		{date, "", "the timestamp as a date"},
	} {
		add(row.head, row.tail, row.says)
	}
	return all
}

// head returns the text that the scheme signs before the body.
func (c *callback) head() (head string) {
	if c.signsID {
		head = c.id + "."
	}
	if c.signsTime {
		head += c.timestamp + c.separator
	}
	return head
}

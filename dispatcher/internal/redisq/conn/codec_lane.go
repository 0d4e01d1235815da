package conn

import (
	"regexp"
	"strconv"
	"strings"
)

// laneNumbers is the number of numbers at the start of a text of :lane.
const laneNumbers = 9

var laneText = regexp.MustCompile(`^[0-9]+( [0-9]+){8}`)

// LaneWhole reports whether the scripts can read a text of :lane. Only they write and
// parse it; lua/state.lua names its fields.
func LaneWhole(text string) bool {
	return laneText.MatchString(text) && numbersFit(text, laneNumbers)
}

// NumbersMost is 2^53. All our numbers are smaller, because Lua would round this one.
const NumbersMost = 1 << 53

// numbersFit reports whether the first numbers of a text are all small enough to be ours.
func numbersFit(text string, numbers int) bool {
	for i, word := range strings.Fields(text) {
		if n, err := strconv.ParseInt(word, 10, 64); i < numbers && (err != nil || n >= NumbersMost) {
			return false
		}
	}
	return true
}

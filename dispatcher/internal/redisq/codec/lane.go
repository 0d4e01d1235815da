package codec

import (
	"regexp"
	"strconv"
	"strings"
)

// laneNumbers is how many numbers a text of :lane begins with.
const laneNumbers = 9

var laneText = regexp.MustCompile(`^[0-9]+( [0-9]+){8}`)

// LaneWhole reports whether the scripts can read a text of :lane. Only they write and
// parse it; lua/state.lua names its fields.
func LaneWhole(text string) bool {
	return laneText.MatchString(text) && numbersFit(text, laneNumbers)
}

// NumbersMost is 2^53. No number that we write is as large, because Lua would round it.
const NumbersMost = 1 << 53

// numbersFit reports whether none of the first numbers of a text is too large to be ours.
func numbersFit(text string, numbers int) bool {
	for i, word := range strings.Fields(text) {
		if n, err := strconv.ParseInt(word, 10, 64); i < numbers && (err != nil || n >= NumbersMost) {
			return false
		}
	}
	return true
}

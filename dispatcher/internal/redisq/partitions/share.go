package partitions

// leastKept is how much finished work a partition keeps at least, whatever its share of the
// limit. Otherwise one busy destination would be forgotten within seconds.
const leastKept = 10_000

// Share is the part of a limit that one of several partitions has.
func Share(limit, partitions int) int {
	return max(limit/partitions, min(limit, leastKept))
}

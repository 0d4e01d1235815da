package conn

// leastKept is the minimum of finished deliveries that a partition keeps, whatever its share of the
// limit. Without it, the deliveries of one busy destination would be removed within seconds.
const leastKept = 10_000

// ShareOf returns the part of a limit for one of several partitions.
func ShareOf(limit, partitions int) int {
	return max(limit/partitions, min(limit, leastKept))
}

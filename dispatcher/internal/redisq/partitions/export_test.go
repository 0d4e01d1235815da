package partitions

import "time"

// SetWall sets what the host's clock shows.
func (s *Set) SetWall(wall func(time.Time) time.Time) { s.wall = wall }

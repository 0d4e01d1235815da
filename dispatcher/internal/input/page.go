package input

import "cmp"

// The numbers of entries on a page of every list.
const (
	UsualPage = 50  // if the caller does not say
	MaxPage   = 500 // but for the lists whose entries cost more
)

// PageSize returns the number of entries of a page: the usual one if none is requested, and
// at most most.
func PageSize(requested, most int) int { return min(cmp.Or(max(requested, 0), UsualPage), most) }

package console

import (
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// nowPage is what concerns a person at this moment.
type nowPage struct {
	Stats wire.Stats
}

// now serves GET /console/.
func now(v *visit) (pageAnswer, error) {
	stats, err := v.Stats(v.ctx)
	if err != nil {
		return pageAnswer{}, err
	}
	stats.Now = wire.Time{} // the page changes with what is counted, not with the clock
	return pageAnswer{template: "now", title: "Now", section: "now", body: nowPage{Stats: stats}}, nil
}

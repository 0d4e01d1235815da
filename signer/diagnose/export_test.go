package diagnose

import "time"

// Judge is the result of a trial that wants an answer within a time.
func Judge(within, took time.Duration) CheckResult {
	t := trial{take: true, points: 5, within: within, says: "sent", cure: "cure"}
	return t.judge([]answer{{status: 200, took: took}}, nil)
}

// Names are the trials that there are.
func Names() (all []string) {
	for _, t := range trials {
		all = append(all, t.name)
	}
	return all
}

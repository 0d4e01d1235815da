package explain

import "fmt"

// retry returns the action that attempts the delivery, with its effect does.
func (f Facts) retry(does string) string {
	switch {
	case f.For == Terminal:
		return fmt.Sprintf("`hookladder retry %s --destination %s` %s", f.message(), f.Delivery.Destination, does)
	case does == "attempts it now":
		return "“Attempt now” does not wait for that"
	}
	return "“Send again” " + does
}

// resume returns the action that resumes the lane.
func (f Facts) resume(does string) string {
	switch {
	case f.For == Terminal:
		return fmt.Sprintf("`hookladder resume %s` %s", f.Delivery.Destination, does)
	case f.bare():
		return "“Resume” of its lane " + does
	}
	return "“Resume” of its endpoint " + does
}

// verify returns the actions that release a lane whose URL a link set.
func (f Facts) verify() string {
	switch f.For {
	case Terminal:
		return fmt.Sprintf("`hookladder endpoints test %s` sends one, `hookladder resume %s` does without", f.Delivery.Destination, f.Delivery.Destination)
	case Merchant:
		return "“Send a test” of its endpoint sends one"
	}
	return "“Send a test” of its endpoint sends one, “Resume” does without"
}

// resumeAll returns the action that resumes all lanes.
func (f Facts) resumeAll() string {
	if f.For == Terminal {
		return "`hookladder resume '*'` lets all of them go on"
	}
	return "“Resume all” in System lets all of them go on"
}

// update returns the action that changes a field of the lane's endpoint; empty: it has none.
func (f Facts) update(flag, does string) string {
	switch {
	case f.Lane.Endpoint == "":
		return ""
	case f.For == Terminal:
		return fmt.Sprintf("`hookladder endpoints update %s %s` %s", f.Lane.Endpoint, flag, does)
	}
	return "“Edit” of its endpoint " + does
}

// cancel returns the action that cancels the delivery.
func (f Facts) cancel() string {
	if f.For == Terminal {
		return "`hookladder cancel " + f.message() + "` ends it"
	}
	return "“Cancel” ends it"
}

// enabled returns the cure if the endpoint has to be enabled first.
func (f Facts) enabled(again string) string {
	switch {
	case f.Lane.State == "deleted":
		return "its endpoint was deleted"
	case f.Lane.State != "disabled":
		return again
	case f.For == Terminal:
		return fmt.Sprintf("it is disabled%s: `hookladder resume %s`, then %s", f.since(), f.Delivery.Destination, again)
	case f.For == Merchant:
		return fmt.Sprintf("it is disabled%s: ask for it to be enabled, then %s", f.since(), again)
	}
	return fmt.Sprintf("it is disabled%s: “Resume” of its endpoint, then %s", f.since(), again)
}

// mask removes our own settings and names, because a merchant must not see them.
func (f *Facts) mask() {
	l := *f.Lane
	l.By, l.Fails, l.Rate, l.MaxInFlight = "", 0, "", 0
	f.Lane = &l
	f.Instances = nil
	if f.Delivery.DeadReason == "refused" {
		f.Delivery.LastError = ""
	}
	switch f.Delivery.WaitingFor {
	case "rate", "sealed", "missing", "limit", "permits", "consumer":
		f.Delivery.WaitingFor = "turn"
	}
}

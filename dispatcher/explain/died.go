package explain

import "strings"

// died returns the meaning of dead_reason, and a cure if the endpoint exists and is enabled.
func (f Facts) died() (how, cure string) {
	d, again := f.Delivery, f.retry("starts a new ladder")
	how = "died" + f.ended()
	after := " after " + times(d.Attempts, "attempt", "attempts")
	switch d.DeadReason {
	case "exhausted":
		if f.pull() {
			return how + after + ", the last of its ladder" + f.answer(), "once its handler works again, " + again
		}
		return how + after + ", the last of its ladder" + f.answer(), f.advised("once "+f.place()+" answers again, ", again)
	case "gone":
		return how + ", since " + f.place() + " answered that it is gone (410)", again
	case "expired":
		after += f.expired()
		if f.For == Merchant {
			return how + after, ""
		}
		return how + after, "publish it anew under another id"
	case "refused":
		if f.For == Merchant { // the error names an address
			return how + ", since its address may not be called", f.allowed() + "; then " + again
		}
		return how + ", since its address may not be called" + f.answer(), f.allowed() + "; then " + again
	case "disabled":
		switch {
		case f.bare() && f.For == Merchant:
			return how + ", since no attempt at " + f.place() + " succeeded for too long", "once it answers again, " + again
		case f.bare():
			return how + ", since no attempt at " + f.place() + " succeeded for DISABLE_AFTER", "once it answers again, " + again
		case f.Lane.Why == "failing" && f.Lane.State == "disabled":
			return how + ", since its endpoint " + f.place() + " was disabled: none of its attempts succeeded for too long", again
		}
		return how + ", since its endpoint " + f.place() + " was disabled", again
	case "overflow":
		if f.For == Merchant {
			return how + " unattempted, since too much waited for " + f.place(), "once less waits, " + again
		}
		return how + " unattempted, since as much waited for " + f.place() + " as ENDPOINT_MAX_WAITING allows", "once less waits, " + again
	case "poison":
		if f.For == Merchant {
			return how + ", since it could not be attempted", again
		}
		return how + ", since three instances died while they held it", "look for the cause in their logs; then " + again
	case "rejected":
		if f.pull() {
			return how + after + ", since the program that took it gave it up" + f.answer(), again
		}
		return how + after + ", since " + f.place() + " asked for no further one (webhook-delivery: abort-message)" + f.answer(), again
	}
	return how + after + f.answer(), again
}

// expired returns the reason for a death by expiry. It mostly comes before the expiry, because
// the next retry would be too late.
func (f Facts) expired() string {
	if f.Delivery.EndedAt.IsZero() || f.Expires.IsZero() || !f.Delivery.EndedAt.Before(f.Expires.Time) {
		return ", since it had expired" + f.at("at", f.Expires)
	}
	return ", because its next attempt would have been after it expires" + f.at("at", f.Expires)
}

// allowed returns the cure for an address that may not be called.
func (f Facts) allowed() string {
	if f.For == Merchant {
		return "correct the URL: its host needs a public address"
	}
	if strings.Contains(f.Delivery.LastError, "our own listener") {
		return "correct the URL: it leads back to Hookladder, which never calls itself"
	}
	if strings.Contains(f.Delivery.LastError, "LINK_ALLOW_NETS") {
		return "correct the URL, confirm it, or allow the address for links with LINK_ALLOW_NETS"
	}
	return "correct the URL, or allow the address with ALLOW_NETS"
}

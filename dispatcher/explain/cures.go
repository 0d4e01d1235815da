package explain

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

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

// advised returns a cure behind what has to be mended before. If that is not known, it is the
// cure behind otherwise.
func (f Facts) advised(otherwise, cure string) string {
	if first := f.advice(); first != "" {
		return first + "; then " + cure
	}
	return otherwise + cure
}

// advice returns what a receiver has to mend, by its last response; empty: that does not say it.
func (f Facts) advice() string {
	if f.pull() {
		return ""
	}
	switch f.Delivery.LastStatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		text := "its receiver has to verify with " + f.secret()
		if f.For != Merchant {
			text += ", and `hookladder verify` explains a request that it saved"
		}
		return text
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return "its receiver takes no POST at " + f.called() + ": correct the URL or the receiver"
	case http.StatusRequestEntityTooLarge:
		return "its receiver, or a proxy before it, has to take a body of this size"
	case http.StatusUnsupportedMediaType:
		return "its receiver has to take the content type " + cmp.Or(f.Content, "of the message")
	case 0:
	default:
		return ""
	}
	switch last := f.latest(); dispatcher.Class(last.Class) {
	case dispatcher.ClassTLS:
		return "the TLS of its server has to be mended"
	case dispatcher.ClassTimeout:
		limit := (time.Duration(last.DurationMS) * time.Millisecond).Round(time.Second)
		return "its receiver has to respond within its time limit of " + limit.String() + ": store the message, respond, and do the work later"
	}
	return ""
}

// latest returns the last attempt that is known.
func (f Facts) latest() (last wire.Attempt) {
	for _, a := range f.Delivery.History {
		if a.Attempt >= last.Attempt {
			last = a
		}
	}
	return last
}

// called returns the URL of the delivery without the parts that are mostly secret.
func (f Facts) called() string {
	u, err := url.Parse(f.Delivery.URL)
	if err != nil || u.Host == "" {
		return "its URL"
	}
	return u.Scheme + "://" + u.Host + u.EscapedPath()
}

// secret names the secret that signs for the destination.
func (f Facts) secret() string {
	mark := ""
	if f.Secret != "" {
		mark = " (fingerprint " + f.Secret + ")"
	}
	switch {
	case f.For == Terminal && f.Lane.Endpoint != "":
		return "the secret" + mark + " that `hookladder endpoints secret " + cmp.Or(f.Lane.UID, f.Lane.Endpoint) + "` shows"
	case f.For == Terminal && f.Lane.Tenant != "":
		return "SIGNING_SECRET (with SIGNING_DERIVE: what `hookladder secret --tenant " + f.Lane.Tenant + "` prints)"
	case f.For == Terminal:
		return "SIGNING_SECRET"
	case f.Lane.Endpoint != "":
		return "its endpoint's secret" + mark
	}
	return "the right secret"
}

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

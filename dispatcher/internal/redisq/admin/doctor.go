package admin

import (
	"cmp"
	"context"
	"errors"
	"hash/maphash"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/wait"
)

// doctorName is the doctor's instance name in the events that its scripts publish.
const doctorName = "doctor"

// Examination configures Examine.
type Examination struct {
	Fix    bool          // repair every finding that has a cure
	Report func(Finding) // called once for each finding
	Still  time.Duration // how long an instance may be without a heartbeat; 0: 7 s
}

// Finding is one fault in the stored data.
type Finding struct {
	Kind      string `json:"kind"`      // no_place, two_places …, see meanings
	Partition int    `json:"partition"` // -1: the whole project
	Subject   string `json:"subject"`   // the name of a delivery, message, lane, endpoint, instance or key
	What      string `json:"what"`      // the fault, as a sentence
	Cure      string `json:"cure"`      // the effect of a repair; empty: a person must decide
	Fixed     bool   `json:"repaired"`
}

// Examined has the counts of an examination.
type Examined struct {
	Partitions int `json:"partitions"`
	Messages   int `json:"messages"` // including ids with only the digest left
	Lanes      int `json:"lanes"`
	Findings   int `json:"-"` // the report lists them
	Fixed      int `json:"repaired"`
	Unjudged   int `json:"unjudged"` // partitions whose counters could not be compared, because they were always busy
}

// Examine checks all data of a project, page by page, while instances work. A page is
// read first. Then one script checks the suspects of the page again, and repairs them. A
// repair may cause one attempt too many, but it never loses a delivery.
func Examine(ctx context.Context, s *redisq.Store, e Examination) (Examined, error) {
	d := newDoctor(newStore(s), e)
	err := d.examine(ctx)
	return d.out, err
}

// doctor is one examination.
type doctor struct {
	walker
	e        Examination
	out      Examined
	reported map[Finding]bool // reported findings, because a walk may see one twice
	seed     maphash.Seed
	wait     func(ctx context.Context, d time.Duration) bool // between two reads of the instances

	lanes [][]string // by partition
}

func newDoctor(s *projectStore, e Examination) *doctor {
	if e.Still == 0 {
		e.Still = wait.DeadFor
	}
	d := &doctor{walker: walker{s: s, by: doctorName}, e: e, reported: map[Finding]bool{}, seed: maphash.MakeSeed(), wait: wait.Sleep}
	d.out.Partitions = s.conn.Partitions()
	return d
}

func (d *doctor) examine(ctx context.Context) error {
	if err := d.readKeys(ctx); err != nil {
		return err
	}
	err := d.examinePartitions(ctx)
	var lost *dispatcher.Emptied
	if loss := d.s.conn.Loss(); errors.As(err, &lost) || err == nil && loss != nil {
		d.report(-1, "store", "emptied", cmp.Or(lost, loss).Error(), false)
		return nil // data that depend on the lost ones can't be checked
	}
	return err
}

// readKeys reads the names of all keys of the project, and reports unknown keys.
func (d *doctor) readKeys(ctx context.Context) error {
	return d.readRings(ctx, func(key located, kind string) {
		n := key.partition
		if kind == "foreign_part" {
			n = -1
		}
		d.report(n, key.whole, kind, "", false)
	})
}

// examinePartitions checks the keys of each partition, and then the keys of the project.
func (d *doctor) examinePartitions(ctx context.Context) error {
	d.lanes = make([][]string, d.s.conn.Partitions())
	for n := range d.s.conn.Partitions() {
		if err := d.examinePartition(ctx, n); err != nil {
			return d.s.conn.InPartition(n, err)
		}
	}
	return d.project(ctx)
}

// report reports a finding. fixed: it was repaired.
func (d *doctor) report(partition int, subject, kind, detail string, fixed bool) {
	m := meanings[kind]
	f := Finding{Kind: kind, Partition: partition, Subject: subject, What: m.what, Cure: m.cure, Fixed: fixed && m.cure != ""}
	if detail != "" {
		f.What += ": " + detail
	}
	key := Finding{Kind: kind, Partition: partition, Subject: subject}
	if d.reported[key] {
		return
	}
	d.reported[key] = true
	d.out.Findings++
	if f.Fixed {
		d.out.Fixed++
	}
	if d.e.Report != nil {
		d.e.Report(f)
	}
}

// readFaults reads the subject, kind and detail of each fault up to the end of the
// response.
func readFaults(a *conn.Reply, do func(subject, kind, detail string)) error {
	for a.More() {
		do(a.Text(), a.Text(), a.Text())
	}
	return a.Err
}

// meaning is the text of a kind of finding.
type meaning struct{ what, cure string }

// meanings has all kinds. A kind without a cure needs a person's decision.
var meanings = map[string]meaning{
	"no_place":         {"the message names this delivery, but no list or set has it, so it would never be attempted", "it is added to the set of its state, or to the ready list if the state is unknown"},
	"two_places":       {"the delivery is in several lists or sets", "one entry is kept, so that it is not lost and least likely attempted twice"},
	"no_record":        {"the message record of the delivery is missing", "the delivery is forgotten, and the next one of its ordering key continues"},
	"not_named":        {"the list of destinations of the message lacks this delivery", "the destination is added to the message"},
	"no_lanes":         {"the list of destinations of the message is missing, and no delivery of it was found", ""},
	"leftover":         {"attempts or a list entry are stored for a delivery that does not exist", "they are removed"},
	"unlisted":         {"the list of its destination or tenant lacks the delivery, or has it with a wrong time", "it is added with its time of acceptance"},
	"astray_shelf":     {"the list of a tenant has a delivery that does not exist, or belongs to another tenant", "it is removed from the list"},
	"unfound":          {"the delivery can't be found by its subject", "it is added to the list of its subject"},
	"astray_digits":    {"the last digits of an order number find a subject that no message has", "they are removed from their list"},
	"astray_subject":   {"the list of a subject has a delivery that does not exist, or has another subject", "it is removed from the list"},
	"unused":           {"the lane is recorded as in use, but it has no data", "the record is removed"},
	"mark":             {"the delivery is marked to end, but in its state no script does so", "it ends as marked"},
	"in_line":          {"the delivery has ended, but still blocks the next one of its ordering key", "it is removed, and the next one continues"},
	"no_line":          {"the delivery is missing in the list of its ordering key, so others overtake it", "it is added at the end of the list"},
	"ahead":            {"Redis' clock was ahead when an attempt of the delivery failed, so it waits too long", "it waits from now on, as long as it should have waited after that attempt"},
	"ahead_accepted":   {"Redis' clock was ahead when deliveries were accepted, so those with a delay wait too long, and those with a deliver_at do not: hookladder retry sends one now", ""},
	"reason":           {"the dead reason does not match the state of the delivery", "a dead delivery gets the reason of an exhausted ladder, any other starts its ladder again"},
	"no_token":         {"the delivery is leased by a taker, but no taker can settle it", "the lease ends now"},
	"token":            {"a taker's lease is stored for a delivery that has ended, or does not exist", "the lease is removed"},
	"no_expiry":        {"the message expires, but the delivery would not end then", "its expiry is scheduled"},
	"expiry":           {"an expiry is scheduled for a delivery that has ended, or does not exist", "the expiry is removed"},
	"key_wait":         {"a delivery counts as one that waits for an encryption key, but it has ended, or does not exist", "it is counted no more"},
	"timer":            {"the partition's timer for expired leases and messages is missing or wrong", "the timer is set to the first of them"},
	"no_delivery":      {"the message has no delivery", "the message is forgotten"},
	"no_body":          {"the body of the message is missing: each delivery that is attempted dies with the reason poison", ""},
	"body":             {"a body is stored without its message", "the body is removed"},
	"fan":              {"a list of destinations is stored without its message", "the list is removed"},
	"seen":             {"the list of known message ids has this id, but should not", "it is removed from the list"},
	"unseen":           {"the message id would be kept forever, because the list of known ids lacks it", "it is added to the list"},
	"broken_record":    {"the record can't be decoded", ""},
	"broken_value":     {"the stored value can't be decoded", "the value is removed, and its state starts again"},
	"wrong_type":       {"the Redis key has a wrong type, so it has no data of Hookladder", "the key is deleted"},
	"score":            {"the score is not a valid time", "the score is set to the current time"},
	"broken_name":      {"the entry is not the name of a delivery", "the entry is removed"},
	"counts":           {"the counter is wrong", "the counter is corrected"},
	"stuck":            {"deliveries wait in the lane, but no instance would claim them", "the lane gets its turn"},
	"turn":             {"the lane has a turn that it should not have", "its turn is corrected"},
	"held":             {"the list of paused lanes does not match the limits of the lane", "the entry is written again, as paused since now"},
	"unknown_lane":     {"the state of the lane would be kept forever, because no trim would check it", "it is added to the lanes that are checked"},
	"no_name":          {"the lane has no record of its destination", "the destination is taken from its first message"},
	"wrong_partition":  {"the lane is in a wrong partition: its deliveries are attempted, but new ones go to another partition", ""},
	"limits":           {"the lane's copy of the endpoint's limits is missing or old", "the limits are copied to the lane"},
	"half_deleted":     {"the endpoint was deleted, but its lane was not marked as deleted", "the lane is marked, and its waiting deliveries are cancelled"},
	"broken_end":       {"the record of the deleted endpoint has no valid version", "the record is removed"},
	"index":            {"an index of endpoints does not match the record of the endpoint", "the index is corrected"},
	"same_uid":         {"another endpoint has the same uid: delete one of the two", ""},
	"astray":           {"an index of endpoints has an entry without a matching endpoint", "the entry is removed"},
	"unopened":         {"no key of ENCRYPTION_KEY decrypts the endpoint, so nothing is sent to it: set its key, or run doctor --seal if it was stored without a key", ""},
	"unopened_headers": {"no key of ENCRYPTION_KEY decrypts the headers of messages, and those that are not finished wait until it is set or you cancel them", ""},
	"no_endpoint":      {"the lane belongs to an endpoint that does not exist", "the lane is marked as deleted"},
	"no_endpoint_work": {"deliveries wait in the lane of an endpoint that does not exist: create the endpoint again, or cancel them", ""},
	"dead_instance":    {"the instance sends no heartbeat, and no other instance has taken over its leases", "its leased deliveries return to their lanes"},
	"unarchived":       {"the log is kept for an archive, but no running instance has one: start one with ARCHIVE_URL", "the log is no longer kept for an archive"},
	"unmet_instance":   {"the instance has a description, but it never sent a heartbeat", "the description is removed"},
	"foreign_key":      {"this version does not use the key", ""},
	"emptied":          {"data were lost, and neither restored nor given up, so some checks were skipped", ""},
	"torn":             {"an error, mostly a right that was taken away, ended a script in its middle: nothing is done in this partition until it is repaired, which an instance does when the user of Redis has all rights", "the partition is repaired, and goes on"},
	"foreign_part":     {"the key belongs to a partition that does not exist", ""},
}

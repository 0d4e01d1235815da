package admin

import (
	"cmp"
	"context"
	_ "embed" // the scripts
	"errors"
	"hash/maphash"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
)

// doctorName stands for the instance in what the doctor's scripts publish.
const doctorName = "doctor"

// Examination says how the keys are examined.
type Examination struct {
	Fix   bool          // what can be repaired is
	Tell  func(Finding) // is called for each finding, once
	Still time.Duration // how long an instance's number may stand still; 0: 7 s
}

// Finding is one thing that is not as it should be.
type Finding struct {
	Kind      string `json:"kind"`      // one of a closed set: no_place, two_places …
	Partition int    `json:"partition"` // -1: it is the project's
	Subject   string `json:"subject"`   // a delivery, message, lane, endpoint, instance or key
	What      string `json:"what"`      // what is wrong, in plain words
	Cure      string `json:"cure"`      // what a repair does; empty: a person has to decide
	Fixed     bool   `json:"repaired"`
}

// Examined counts what was looked at.
type Examined struct {
	Partitions int `json:"partitions"`
	Messages   int `json:"messages"` // and ids of which only the digest is left
	Lanes      int `json:"lanes"`
	Findings   int `json:"-"` // the report lists them
	Fixed      int `json:"repaired"`
	Unjudged   int `json:"unjudged"` // partitions whose counts could not be compared, since they never were at rest
}

// Examine looks through all that is kept, in pages, while others work: what a
// page makes suspicious is judged, and repaired, in one script. A repair may
// cause an attempt too many; it never loses a delivery.
func Examine(ctx context.Context, s *redisq.Store, e Examination) (Examined, error) {
	d := newDoctor(newStore(s), e)
	err := d.look(ctx)
	return d.out, err
}

// doctor is one examination.
type doctor struct {
	walker
	e    Examination
	out  Examined
	told map[Finding]bool // what was told, so that what is met twice is told once
	seed maphash.Seed
	wait func(ctx context.Context, d time.Duration) bool // between two readings of the instances

	lanes [][]string // of each partition
}

func newDoctor(s *projectStore, e Examination) *doctor {
	if e.Still == 0 {
		e.Still = dispatcher.DeadFor
	}
	d := &doctor{walker: walker{s: s, by: doctorName}, e: e, told: map[Finding]bool{}, seed: maphash.MakeSeed(), wait: conn.Sleep}
	d.out.Partitions = len(s.tags)
	return d
}

func (d *doctor) look(ctx context.Context) error {
	if err := d.readKeys(ctx); err != nil {
		return err
	}
	err := d.lookThrough(ctx)
	var lost *dispatcher.Emptied
	if loss := d.s.conn.Loss(); errors.As(err, &lost) || err == nil && loss != nil {
		d.find(-1, "store", "emptied", cmp.Or(lost, loss).Error(), false)
		return nil // what needs the lost data can't be examined
	}
	return err
}

// readKeys goes through the names of all keys of the project, and tells those
// that nothing explains.
func (d *doctor) readKeys(ctx context.Context) error {
	return d.readRings(ctx, func(key located, kind string) {
		n := key.partition
		if kind == "foreign_part" {
			n = -1
		}
		d.find(n, key.whole, kind, "", false)
	})
}

// lookThrough goes through what the keys' names led to.
func (d *doctor) lookThrough(ctx context.Context) error {
	d.lanes = make([][]string, len(d.s.tags))
	for n := range d.s.tags {
		whole, err := d.values(ctx, n)
		if err != nil {
			return d.s.conn.InPartition(n, err)
		}
		if !whole {
			continue
		}
		for _, step := range []func(context.Context, int) error{d.places, d.records, d.shelves, d.counts, d.turns} {
			if err := step(ctx, n); err != nil {
				return d.s.conn.InPartition(n, err)
			}
		}
	}
	return d.project(ctx)
}

// find tells a finding. fixed: it was repaired.
func (d *doctor) find(partition int, subject, kind, detail string, fixed bool) {
	m := meanings[kind]
	f := Finding{Kind: kind, Partition: partition, Subject: subject, What: m.what, Cure: m.cure, Fixed: fixed && m.cure != ""}
	if detail != "" {
		f.What += ": " + detail
	}
	key := Finding{Kind: kind, Partition: partition, Subject: subject}
	if d.told[key] {
		return
	}
	d.told[key] = true
	d.out.Findings++
	if f.Fixed {
		d.out.Fixed++
	}
	if d.e.Tell != nil {
		d.e.Tell(f)
	}
}

// readFaults reads subject, kind and detail of each fault to the answer's end.
func readFaults(a *conn.Reply, do func(subject, kind, detail string)) error {
	for a.More() {
		do(a.Text(), a.Text(), a.Text())
	}
	return a.Err
}

// meaning is what a kind of finding means.
type meaning struct{ what, cure string }

// meanings are all kinds. One without a cure is for a person to decide.
var meanings = map[string]meaning{
	"no_place":         {"the message still names it, but it is in no place, so that it would never be attempted", "it goes back to its place, or to ready where that is unknown"},
	"two_places":       {"it is in several places", "one is kept, by which it is not lost and least likely attempted twice"},
	"no_record":        {"it waits or ended without its message, which is gone", "it is forgotten, and the next of its line goes on"},
	"not_named":        {"its message does not know of it", "the message names its destination again"},
	"no_lanes":         {"the message's list of destinations is gone, and nothing of it is in any place", ""},
	"leftover":         {"its attempts or its entry in the list of its destination are kept, and it is not", "they are forgotten"},
	"unlisted":         {"the list of its destination or of its tenant does not have it, or at another time than that of its acceptance", "it is listed there"},
	"astray_shelf":     {"a list by tenants names what is not there, or is another's", "it is taken off the list"},
	"unfound":          {"it is not found by its subject", "it is noted by that"},
	"astray_subject":   {"a list by subjects names it, and it is gone or has another subject", "it is taken off the list"},
	"unused":           {"the lane is noted as in use, and nothing of it is kept", "the note is removed"},
	"mark":             {"it is marked as ended at a place where no script carries that out", "it ends as marked"},
	"in_line":          {"it ended and still stands in its line, which holds those behind it", "it leaves, and the next goes on"},
	"no_line":          {"it has an ordering key and stands in no line, so that others overtake it", "it falls in at the end"},
	"reason":           {"its reason of death is not what its place says", "one that is dead has exhausted its ladder, another begins a new one"},
	"no_token":         {"it is taken by a lease that nobody can give back", "the lease ends now"},
	"token":            {"a lease is noted of it, though it ended or is not kept", "the note is removed"},
	"no_expiry":        {"its message expires, and nothing would end it then", "it ends when its message expires"},
	"expiry":           {"it is noted that it expires, though it ended or is not kept", "the note is removed"},
	"timer":            {"no mover comes when the first lease ends that does so by itself, or the first delivery expires, or one comes for nothing", "one comes when it ends"},
	"no_delivery":      {"the message is kept without a delivery", "it is forgotten"},
	"no_body":          {"its body is gone, and nothing can be sent without it: what is attempted dies as poison", ""},
	"body":             {"a body is kept without its message", "it is forgotten"},
	"fan":              {"a list of destinations is kept without its message", "it is forgotten"},
	"seen":             {"it is listed among the ids that are known still, and should not be", "it is taken off the list"},
	"unseen":           {"its id would be known for ever", "it is listed among those that are forgotten in time"},
	"broken_record":    {"its record can't be read", ""},
	"broken_value":     {"what is noted of it can't be read", "it is taken away, and begins anew"},
	"wrong_type":       {"the key is of another type than ours, so it holds nothing of ours", "it is removed"},
	"score":            {"its time is none", "it gets the present one"},
	"broken_name":      {"it names no delivery", "it is removed"},
	"counts":           {"a count is not what there is", "the difference is added"},
	"stuck":            {"deliveries wait in the lane, and no instance would claim from it", "it gets its turn"},
	"turn":             {"the lane has a turn that it should not have", "it has its right one"},
	"held":             {"the list of lanes that are held is not what the lane's limits say", "it is written anew, as held since now"},
	"unknown_lane":     {"the lane's state would be kept for ever", "it is noted among those that are looked at"},
	"no_name":          {"the lane does not say where its messages go", "it is named as the first of them says"},
	"wrong_partition":  {"the lane lies in a partition that is not its own; what is there is delivered, what is published comes elsewhere", ""},
	"limits":           {"the lane does not know its endpoint's limits", "they are copied to it"},
	"half_deleted":     {"its endpoint was deleted, and the lane was not told", "what waits in it is cancelled"},
	"broken_end":       {"it is noted as deleted, at a version that can't be read", "the note is removed"},
	"index":            {"an index of endpoints is not what the endpoint's record says", "it is written as the record says"},
	"same_uid":         {"another endpoint is found by its uid: delete the one that is not needed", ""},
	"astray":           {"an index of endpoints names what is not there, or is not as the index says", "it is taken off the index"},
	"unopened":         {"no ENCRYPTION_KEY opens the endpoint, so nothing is sent to it: set the key; of one that was stored without a key doctor --seal takes the record as it is", ""},
	"no_endpoint":      {"the lane is of an endpoint that is not there", "it ends"},
	"no_endpoint_work": {"the lane is of an endpoint that is not there, and deliveries wait in it: make the endpoint anew, or cancel them", ""},
	"dead_instance":    {"the instance does not beat any more, and no other took over from it", "what it held goes back to its lanes"},
	"unarchived":       {"what happens is kept for an archive, and no instance has one: start one with ARCHIVE_URL", "nothing is kept for it any more"},
	"unmet_instance":   {"the instance told of itself and never was there", "that is forgotten"},
	"foreign_key":      {"no part of this version explains the key", ""},
	"emptied":          {"data were lost, and neither restored nor given up, so not all could be examined", ""},
	"foreign_part":     {"the key is of a partition that there is not", ""},
}

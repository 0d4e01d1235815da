package app

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
	"github.com/hookladder/hookladder/dispatcher/internal/embedded"
	"github.com/hookladder/hookladder/dispatcher/internal/postgres"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/admin"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/home"
	"github.com/hookladder/hookladder/dispatcher/outbox"
)

// Finding is a fault in the store's keys.
type Finding = admin.Finding

// Examined counts the keys that an examination read.
type Examined = admin.Examined

// Doctor examines the store of the options while instances work. If there is an archive, it
// first queries the archive to check whether the store lost its data. It calls hear with the
// state of the store. Then it examines all keys and reports each finding. With fix it
// repairs the faults that can be repaired.
func Doctor(ctx context.Context, o Options, fix bool, hear func(dispatcher.StoreInfo), report func(Finding)) (out Examined, err error) {
	err = withStore(ctx, o, func(store *redisq.Store) error {
		if o.Archive.URL != "" {
			if err := learnLoss(ctx, store, o); err != nil {
				return err
			}
		}
		info, err := store.Store(ctx)
		if err != nil {
			return err
		}
		if o.Archive.URL != "" {
			info.Checks = append(slices.Clone(info.Checks), comparisonCheck(ctx, store, o))
		}
		hear(info)
		if fix {
			store.Audit().Record(ctx, dispatcher.AuditEntry{By: dispatcher.System, What: "doctor.fix"})
		}
		out, err = admin.Examine(ctx, store, admin.Examination{Fix: fix, Report: report})
		return err
	})
	return out, err
}

// comparisonCheck reports the progress of the comparison between archive and store.
func comparisonCheck(ctx context.Context, store *redisq.Store, o Options) dispatcher.Check {
	c := dispatcher.Check{Name: "archive", Holds: dispatcher.Unknown}
	var due int
	var left float64
	err := withReader(o, func(r *postgres.Reader) (err error) {
		due, left, err = stillToCompare(ctx, store, r)
		return err
	})
	if err != nil {
		c.Detail = "it is not known whether the archive was compared with the store: " + err.Error()
		return c
	}
	if due == 0 {
		c.Holds, c.Detail = dispatcher.Yes, "the archive was compared with the store since the last gap in the log"
		return c
	}
	c.Detail = fmt.Sprintf("%d of %d partitions are still to be compared with the archive, %.0f %% of the deliveries: an instance with ARCHIVE_URL does that",
		due, store.Partitions(), math.Ceil(100*left))
	return c
}

// stillToCompare counts the partitions that must still be compared with the archive after the
// last gap in their log. left is their share of all deliveries.
func stillToCompare(ctx context.Context, store *redisq.Store, r *postgres.Reader) (due int, left float64, err error) {
	states, err := admin.NewFeed(store).ReadStates(ctx, store.Partitions())
	if err != nil {
		return 0, 0, err
	}
	all, err := r.Comparisons(ctx)
	for i := range states {
		k := slices.IndexFunc(all, func(c archive.Comparison) bool { return c.Partition == states[i].Partition })
		switch {
		case k < 0:
			due, left = due+1, left+1
		case all[k].Due(&states[i]):
			due, left = due+1, left+all[k].Left
		}
	}
	return due, left / float64(max(len(states), 1)), err
}

// SealEndpoints encrypts and signs each endpoint with the first key, unless that is done
// already. It includes endpoints that were stored without a key. It reports each endpoint, with
// an error if that failed.
func SealEndpoints(ctx context.Context, o Options, report func(id string, err error)) error {
	return withStore(ctx, o, func(store *redisq.Store) error {
		store.Audit().Record(ctx, dispatcher.AuditEntry{By: dispatcher.System, What: "doctor.seal"})
		return admin.SealEndpoints(ctx, store, report)
	})
}

// SealMessages encrypts the headers of each message with the first key, unless that is done
// already, and counts the changed messages. It calls fail for each message that no key
// decrypts.
func SealMessages(ctx context.Context, o Options, fail func(err error)) (sealed int, err error) {
	err = withStore(ctx, o, func(store *redisq.Store) error {
		sealed, err = admin.SealMessages(ctx, store, fail)
		return err
	})
	return sealed, err
}

// SealedArchive is the result of SealArchive.
type SealedArchive struct {
	Sealed    int // messages whose headers were encrypted again
	Left      int // messages whose headers no key decrypts
	Endpoints int // endpoints that the archive still has as they were encrypted before
}

// errNoArchiveURL reports that the store has an archive that this command does not know.
var errNoArchiveURL = errors.New("this store has an archive, and ARCHIVE_URL is not set: run this with it too, or what the archive has still needs the older keys")

// SealArchive does what SealMessages does in the archive, for each message that a restore could put
// back into the store. It comes after SealEndpoints and SealMessages, and first waits until the
// archive has all of the log: an instance may have read a record before that was changed. wait is
// called while it waits.
func SealArchive(ctx context.Context, o Options, wait func()) (out SealedArchive, err error) {
	err = withStore(ctx, o, func(store *redisq.Store) error {
		switch {
		case o.Archive.URL == "" && store.Conn().Archives():
			return errNoArchiveURL
		case o.Archive.URL == "":
			return nil
		}
		vault, err := postgres.OpenVault(ctx, archiveOptions(o))
		if errors.Is(err, postgres.ErrNothing) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("ARCHIVE_URL: %w", err)
		}
		defer vault.Close()
		out, err = sealArchive(ctx, store, vault, o, wait)
		return err
	})
	return out, err
}

func sealArchive(ctx context.Context, store *redisq.Store, vault *postgres.Vault, o Options, wait func()) (out SealedArchive, err error) {
	all, err := awaitArchive(ctx, store, wait)
	if err == nil && !all {
		err = errors.New("the archive does not take in the store's log, so it may still get records that need the older keys: see that an instance with ARCHIVE_URL runs and PostgreSQL answers, then run this again")
	}
	if err != nil {
		return out, err
	}
	release, err := vault.Lock(ctx)
	if err != nil {
		return out, err
	}
	defer release()
	now, err := vault.Ends(ctx, nil)
	if err != nil {
		return out, err
	}
	box, keep := store.Endpoints.Box(), o.Engine.Keep
	sealed, err := vault.SealHeads(ctx, now.Now.Add(-keep.Dead), keep.DeadMax, func(id string, head []byte) ([]byte, error) {
		record, err := conn.SealRecord(id, string(head), box)
		return []byte(record), err
	})
	out.Sealed, out.Left = sealed.Sealed, sealed.Left
	if err != nil {
		return out, err
	}
	list, _, err := vault.Endpoints(ctx)
	for i := range list {
		if !list[i].Deleted && home.EndpointSealedBy(string(list[i].Record)) != box.First() {
			out.Endpoints++
		}
	}
	return out, err
}

// withStore opens the store of the options, calls do, and closes the store. Instances may work
// at the same time.
func withStore(ctx context.Context, o Options, do func(*redisq.Store) error) (err error) {
	url, end, err := joinURL(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	store, err := openAny(ctx, url, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	return do(store)
}

// The states of a part in a report about an upgrade.
const (
	UpgradeOK          = "ok"
	UpgradeAttention   = "attention"
	UpgradeNotExamined = "not_examined"
)

// UpgradeReport describes an upgrade of running instances to this version, before it.
type UpgradeReport struct {
	Version   string            `json:"version"`
	Store     UpgradePart       `json:"store"`
	Archive   UpgradePart       `json:"archive"`
	Outbox    UpgradePart       `json:"outbox"`
	Instances []RunningInstance `json:"instances"`
	Rollback  bool              `json:"rollback"` // an older version works with the data afterwards
}

// UpgradePart is the store, the archive or the outbox.
type UpgradePart struct {
	State   string          `json:"state"`
	Detail  string          `json:"detail"`
	Changes []UpgradeChange `json:"changes"`
	Err     error           `json:"-"` // why a part that is configured was not examined
}

// UpgradeChange is a change that this version makes.
type UpgradeChange struct {
	What  string `json:"what"`
	Waits string `json:"waits,omitempty"` // the part that waits meanwhile
	Final string `json:"final,omitempty"` // why it can't be rolled back
}

// RunningInstance is an instance with a heartbeat.
type RunningInstance struct {
	Name    string `json:"name"`
	Version string `json:"version"` // empty: it is not known
}

// BeforeUpgrade reports the changes that this version would make to the data of running
// instances. It writes nothing.
func BeforeUpgrade(ctx context.Context, o Options) UpgradeReport {
	r := UpgradeReport{Version: o.Version, Instances: []RunningInstance{}, Rollback: true}
	r.Store, r.Instances = storeBefore(ctx, o)
	r.Archive = archiveBefore(ctx, o)
	r.Outbox = outboxBefore(ctx, o)
	for _, c := range append(r.Store.Changes, r.Archive.Changes...) {
		r.Rollback = r.Rollback && c.Final == ""
	}
	return r
}

// notExamined returns a part that was not examined because of an error.
func notExamined(err error) UpgradePart {
	return UpgradePart{State: UpgradeNotExamined, Detail: err.Error(), Changes: []UpgradeChange{}, Err: err}
}

// unset returns a part that is not configured.
func unset(setting string) UpgradePart {
	return UpgradePart{State: UpgradeNotExamined, Detail: setting + " is not set", Changes: []UpgradeChange{}}
}

// part returns a part with its pending changes.
func part(detail string, pending []dispatcher.Upgrade) UpgradePart {
	p := UpgradePart{State: UpgradeOK, Detail: detail, Changes: []UpgradeChange{}}
	for _, c := range pending {
		p.Changes = append(p.Changes, UpgradeChange{What: fmt.Sprintf("%d %s", c.To, c.What), Waits: c.Waits, Final: c.Final})
		if c.Waits != "" || c.Final != "" {
			p.State = UpgradeAttention
		}
	}
	return p
}

// errIdleData reports that nothing runs on DATA_DIR. Starting its server would write.
var errIdleData = fmt.Errorf("%w: no instance runs on DATA_DIR, and its Redis is not started for a look", dispatcher.ErrUnavailable)

func storeBefore(ctx context.Context, o Options) (UpgradePart, []RunningInstance) {
	url, running := o.RedisURL, []RunningInstance{}
	if o.DataDir != "" {
		if url = embedded.Running(ctx, o.DataDir); url == "" {
			return notExamined(errIdleData), running
		}
	}
	p, err := admin.Inspect(ctx, storeOptions(url, o))
	if err != nil {
		return notExamined(named(o, err)), running
	}
	for _, i := range p.Instances {
		running = append(running, RunningInstance{Name: i.Name, Version: i.Version})
	}
	writes := dispatcher.NewestUpgrade(dispatcher.StoreUpgrades())
	layout, err := strconv.Atoi(p.Layout)
	switch {
	case p.Layout == "":
		return part("the project is new", nil), running
	case err != nil || layout > writes:
		return UpgradePart{State: UpgradeAttention, Changes: []UpgradeChange{},
			Detail: fmt.Sprintf("the layout is %q, newer than this version's %d: this version does not start", p.Layout, writes)}, running
	case layout < dispatcher.StoreUpgrades()[0].To:
		return UpgradePart{State: UpgradeAttention, Changes: []UpgradeChange{},
			Detail: fmt.Sprintf("the layout is %d, older than the first one that this version reads, %d: this version does not start", layout, dispatcher.StoreUpgrades()[0].To)}, running
	}
	return part(fmt.Sprintf("the layout is %d, and this version writes %d", layout, writes), dispatcher.UpgradesAfter(dispatcher.StoreUpgrades(), layout)), running
}

func archiveBefore(ctx context.Context, o Options) UpgradePart {
	if o.Archive.URL == "" {
		return unset("ARCHIVE_URL")
	}
	var version int
	err := withReader(o, func(r *postgres.Reader) (err error) {
		version, err = r.Version(ctx)
		return err
	})
	switch makes := dispatcher.NewestUpgrade(dispatcher.ArchiveUpgrades()); {
	case err != nil:
		return notExamined(fmt.Errorf("ARCHIVE_URL: %w", err))
	case version == 0:
		return part("there are no tables yet, and this version makes them", nil)
	case version > makes:
		return part(fmt.Sprintf("the tables have migration %d, and this version knows %d", version, makes), nil)
	default:
		return part(fmt.Sprintf("the tables have migration %d, and this version has %d", version, makes), dispatcher.UpgradesAfter(dispatcher.ArchiveUpgrades(), version))
	}
}

func outboxBefore(ctx context.Context, o Options) UpgradePart {
	if o.OutboxURL == "" {
		return unset("OUTBOX_URL")
	}
	rows, err := postgres.NewOutbox(o.OutboxURL, o.MaxBody)
	if err != nil {
		return notExamined(fmt.Errorf("OUTBOX_URL: %w", err))
	}
	defer rows.Close()
	found, err := rows.Differences(ctx, outbox.Schema())
	switch {
	case err != nil:
		return notExamined(fmt.Errorf("OUTBOX_URL: %w: %s", dispatcher.ErrUnavailable, strings.Join(strings.Fields(err.Error()), " ")))
	case len(found) == 0:
		return part("the tables and functions are those of this version", nil)
	}
	p := UpgradePart{State: UpgradeAttention, Detail: "apply the schema again: hookladder outbox schema prints it, and publishing waits a moment for its locks", Changes: []UpgradeChange{}}
	for _, what := range found {
		p.Changes = append(p.Changes, UpgradeChange{What: what})
	}
	return p
}

// ErrNoArchive reports that an archive is needed, and none is configured.
var ErrNoArchive = errors.New("ARCHIVE_URL is not set: there is nothing to upgrade")

// Upgrade makes the changes that an instance does not make, because they can't be rolled back. It
// returns the migrations of the archive before and after.
func Upgrade(ctx context.Context, o Options) (before, after int, err error) {
	if o.Archive.URL == "" {
		return 0, 0, ErrNoArchive
	}
	return postgres.Upgrade(ctx, archiveOptions(o))
}

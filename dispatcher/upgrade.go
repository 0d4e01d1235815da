package dispatcher

import "fmt"

// Upgrade is a change that a version made to the data of others: to the layout of the store, or to
// the tables of the archive. A change that an older version can't work with is final. A running
// instance never makes a final change: hookladder doctor --upgrade does.
type Upgrade struct {
	To      int    // the layout that it makes, or the number of the migration
	Version string // the first version that made it
	What    string // one clause
	Waits   string // the part that waits while it is made; empty: nothing for longer than a moment
	Final   string // why an older version can't work afterwards; empty: it can
}

// StoreUpgrades lists the layouts of the store. The last one is written by this version.
func StoreUpgrades() []Upgrade {
	return []Upgrade{
		{To: 6, Version: "0.2.0", What: "the first layout that later versions read"},
	}
}

// ArchiveUpgrades lists the migrations of the archive, one for each file.
func ArchiveUpgrades() []Upgrade {
	return []Upgrade{
		{To: 1, Version: "0.2.0", What: "makes the tables"},
		{To: 2, Version: "0.2.0", What: "adds the topic, tenant and subject to the ends of deliveries that died at once", Waits: "the archive, while it rewrites these rows"},
		{To: 3, Version: "0.2.0", What: "adds the name and epoch of a pause, and the store of an endpoint"},
		{To: 4, Version: "0.2.0", What: "adds the gaps of the log"},
		{To: 5, Version: "0.2.0", What: "adds the end of the data that a partition lost"},
		{To: 6, Version: "0.2.0", What: "adds the count of dropped lines"},
		{To: 7, Version: "0.2.0", What: "adds the time of acceptance to ends, and its indexes", Waits: "the archive, while it rewrites the ends and builds indexes"},
		{To: 8, Version: "0.2.0", What: "adds the token of a subject, and its index", Waits: "the archive, while it builds an index"},
		{To: 9, Version: "0.2.0", What: "adds the oldest migration that a program must know"},
	}
}

// NewestUpgrade returns the layout or migration that this version writes.
func NewestUpgrade(all []Upgrade) int { return all[len(all)-1].To }

// UpgradesAfter returns the changes that are still to be made to data of a number.
func UpgradesAfter(all []Upgrade, number int) []Upgrade {
	for i, c := range all {
		if c.To > number {
			return all[i:]
		}
	}
	return nil
}

// UpgradeTo returns the change of a number, or none.
func UpgradeTo(all []Upgrade, number int) []Upgrade {
	for i, c := range all {
		if c.To == number {
			return all[i : i+1]
		}
	}
	return nil
}

// FirstFinalUpgrade returns an error for the first final change of pending ones, or nil.
func FirstFinalUpgrade(pending []Upgrade) error {
	for _, c := range pending {
		if c.Final != "" {
			return fmt.Errorf("change %d %s, and can't be rolled back: %s. Back up the data, stop the older instances, and run hookladder doctor --upgrade with this version", c.To, c.What, c.Final)
		}
	}
	return nil
}

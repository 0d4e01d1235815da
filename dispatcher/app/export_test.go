package app

// What the tests of this package look at from inside.
var (
	Loopback      = loopback
	JudgeStore    = judgeStore
	StoreWarnings = storeWarnings
)

// Shared is how descriptors are shared out.
type Shared struct{ Attempts, Idle, Accepted, Reserve int }

// ShareDescriptors shares a limit out.
func ShareDescriptors(limit, permits, connections int) (Shared, error) {
	d, err := shareDescriptors(limit, permits, connections)
	return Shared{d.attempts, d.idle, d.accepted, d.reserve}, err
}

// Budget fits options into a limit of descriptors.
func Budget(o *Options, limit int) error {
	_, err := o.budget(limit)
	return err
}

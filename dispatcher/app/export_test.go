package app

// What the tests of this package look at from inside.
var (
	Loopback      = loopback
	JudgeStore    = judgeStore
	StoreWarnings = storeWarnings
)

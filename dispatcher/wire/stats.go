package wire

// Stats describes the whole queue.
type Stats struct {
	Counts      map[string]int64 `json:"counts" doc:"Deliveries by status."`
	Dead        map[string]int64 `json:"dead" doc:"Dead deliveries by reason."`
	Ends        Ends             `json:"ends"`
	InFlight    int64            `json:"in_flight"`
	OldestDueAt Time             `json:"oldest_due_at" nullable:"true" doc:"null: nothing is due."`
	Now         Time             `json:"now" doc:"By the store's clock."`
	Instances   int              `json:"instances"`
	Retention   float64          `json:"retention_seconds" doc:"For how long finished deliveries are kept whole by now, in the partition that keeps them least long."`
	Store       Store            `json:"store"`
	PausedLanes int              `json:"paused_lanes" doc:"How many lanes are paused; * counts as one."`
	Paused      []LaneState      `json:"paused" doc:"* where all are paused, and the 50 that were paused last."`
	Lanes       []LaneState      `json:"lanes" doc:"The 50 with the most waiting, those that are paused first."`
}

// Instance is a process that serves or dispatches.
type Instance struct {
	Name      string `json:"name"`
	Version   string `json:"version"`
	StartedAt Time   `json:"started_at" nullable:"true" doc:"By the store's clock. null: it is not known."`
	SeenAt    Time   `json:"seen_at" nullable:"true" doc:"When the instance that answers saw its last beat, by the store's clock; a beat comes every 2 s. null: it saw none yet."`
	Permits   int    `json:"permits" doc:"How many deliveries it may have in flight; 0: it accepts only."`
	InFlight  int    `json:"in_flight" doc:"How many it has."`
	Holding   int    `json:"holding" doc:"In how many partitions of the store these lie. 0: nothing is in flight here."`
}

// InstancePage is a page of the list of instances, the last started first.
type InstancePage struct {
	Data       []Instance `json:"data"`
	NextCursor *string    `json:"next_cursor" nullable:"true" doc:"null: this is the last page."`
}

// Ends counts all deliveries that ever ended undelivered. The counts include deliveries that were
// retried or deleted later, because the store keeps only counts.
type Ends struct {
	Dead      map[string]int64 `json:"dead" doc:"By reason."`
	Cancelled int64            `json:"cancelled"`
}

// HeaderStore is a header of each response of hookladder dev, whose store is InMemory. A response
// of a store that keeps its data has no such header.
const (
	HeaderStore = "Hookladder-Store"
	InMemory    = "memory"
)

// Store is the store's report about itself. Unknown fields are omitted.
type Store struct {
	Kind       string  `json:"kind"`
	Version    string  `json:"version,omitzero"`
	Mode       string  `json:"mode" words:"store-mode"`
	Nodes      int     `json:"nodes" doc:"Masters that hold partitions."`
	UsedBytes  *int64  `json:"used_bytes,omitzero" nullable:"false"`
	MaxBytes   *int64  `json:"max_bytes,omitzero" nullable:"false" doc:"0: no limit."`
	AppendOnly *bool   `json:"append_only,omitzero" nullable:"false"`
	Fsync      string  `json:"fsync,omitzero"`
	Eviction   string  `json:"eviction,omitzero"`
	Durability string  `json:"durability" doc:"What a publish waits for: none, fsync or replicas:<n>."`
	Durable    string  `json:"durable" words:"holds" doc:"Whether that holds now."`
	WouldLose  string  `json:"would_lose" words:"store-loss" doc:"What is lost of what was acknowledged if the host of its master dies."`
	Checks     []Check `json:"checks" doc:"What it should be able to, or be set to."`
}

// Check is one ability or setting that the store should have.
type Check struct {
	Name   string `json:"name"`
	Holds  string `json:"holds" words:"holds"`
	Needed bool   `json:"needed" doc:"no is a reason not to start."`
	Detail string `json:"detail"`
}

// Tick is the response to a call that waited until nothing was due.
type Tick struct {
	Attempted int   `json:"attempted" doc:"Attempts that this instance made meanwhile, also those that failed, and whoever asked for them."`
	Delivered int   `json:"delivered" doc:"Deliveries of these that succeeded."`
	Dead      int   `json:"dead" doc:"Deliveries that died meanwhile, for whatever reason."`
	NextDueAt *Time `json:"next_due_at" doc:"When to call again: the earliest time at which something may be attempted. It is not later than now where the time was over before all was done, and at most a minute from now while another instance holds deliveries. null: nothing waits for a time, so call again when something was published, retried or resumed."`
}

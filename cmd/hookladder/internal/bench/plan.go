package bench

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/hookladder/hookladder/ladder"
)

// Costs are the measured costs of one delivery, from its publish to its outcome, in
// microseconds of CPU.
type Costs struct {
	Serve   float64 // of serve
	Redis   float64 // of one Redis server with one partition
	Cluster float64 // Redis' cost in a cluster with 128 partitions, all nodes together, as a multiple of Redis
}

// Load is the load that a plan is for.
type Load struct {
	PerDay  float64       // deliveries
	Waiting float64       // messages that wait for their due time at most
	Peak    float64       // the busiest second has this many times the mean
	Body    float64       // bytes of a body
	Answer  time.Duration // time until a receiver responds
}

// Check returns an error if a load is not valid.
func (l Load) Check() error {
	var errs []error
	if l.PerDay <= 0 {
		errs = append(errs, errors.New("--per-day must be above 0"))
	}
	if l.Waiting < 0 {
		errs = append(errs, errors.New("--waiting must be at least 0"))
	}
	if l.Peak < 1 {
		errs = append(errs, errors.New("--peak must be at least 1"))
	}
	return errors.Join(errs...)
}

// Numbers of the documents speed, isolation and archive, measured with bodies of 1 KiB.
const (
	messageBytes   = 1631 - 1024 // of Redis' memory, without the body
	retained       = 100_000     // RETENTION_MAX: finished deliveries in Redis
	knownBytes     = 128         // of an id in DEDUP_MAX, reckoned and not measured
	known          = 1_000_000   // DEDUP_MAX
	serveBytes     = 48 << 20    // of serve without attempts
	attemptBytes   = 37 << 10    // of an attempt that waits, with TLS; without it 18 KiB
	archiveBytes   = 2000 - 1024 // of a row in PostgreSQL with its indexes, without the body
	archiveMicros  = 20          // of PostgreSQL's CPU
	busy           = 0.5         // share of a core that a plan uses at the peak; the rest is for failures
	clusterLeast   = 3           // masters of the smallest cluster
	redisHeadroom  = 1.5         // for fragmentation, and for the rewrite of the append-only file
	serveInstances = 2           // so that one may fail
	daysOfMonth    = 30
	micros         = 1e6
)

// Rate predicts the deliveries a second of one machine whose cores serve and Redis share.
// Receivers and publishers are elsewhere. A Redis server uses at most one core.
func (c Costs) Rate(cores, masters int) float64 {
	redis := c.redis(masters)
	return min(float64(cores)*micros/(c.Serve+redis), float64(masters)*micros/redis)
}

// redis returns the CPU time of Redis for a delivery, all masters together.
func (c Costs) redis(masters int) float64 {
	if masters > 1 {
		return c.Redis * c.Cluster
	}
	return c.Redis
}

// Plan is what a load needs.
type Plan struct {
	Load      Load
	Costs     Costs
	Mean      float64 // deliveries a second
	Peak      float64
	Instances int
	Cores     float64 // of all instances at the peak
	InFlight  float64 // attempts of all instances at the peak
	Memory    float64 // bytes of each instance
	Masters   int
	RedisCPU  float64 // cores of all masters at the peak
	Redis     float64 // bytes of all masters together, with headroom
	Archive   float64 // bytes that PostgreSQL grows by in a month
	Postgres  float64 // cores of PostgreSQL at the mean rate
}

// PlanFor calculates what a load needs.
func PlanFor(c Costs, l Load) Plan {
	p := Plan{Load: l, Costs: c, Mean: l.PerDay / (24 * time.Hour).Seconds(), Masters: 1, Instances: serveInstances}
	p.Peak = p.Mean * l.Peak
	p.Cores = p.Peak * c.Serve / micros
	p.InFlight = math.Ceil(p.Peak * l.Answer.Seconds())
	p.Memory = serveBytes + p.InFlight/float64(p.Instances-1)*(attemptBytes+l.Body)
	if p.Peak*c.Redis > busy*micros {
		p.Masters = max(clusterLeast, int(math.Ceil(p.Peak*c.redis(clusterLeast)/(busy*micros))))
	}
	p.RedisCPU = p.Peak * c.redis(p.Masters) / micros
	kept := l.Waiting + min(l.PerDay, retained)
	p.Redis = redisHeadroom * (kept*(messageBytes+l.Body) + min(l.PerDay, known)*knownBytes)
	p.Archive = l.PerDay * daysOfMonth * (archiveBytes + l.Body)
	p.Postgres = p.Mean * archiveMicros / micros
	return p
}

// String formats a plan for people.
func (p Plan) String() string {
	size := func(bytes float64) string { return humanize.IBytes(uint64(bytes)) }
	count := func(n float64) string { return humanize.Comma(int64(math.Ceil(n))) }
	cores := func(n float64) string { return fmt.Sprintf("%.2f", n) }
	store := "one Redis"
	if p.Masters > 1 {
		store = fmt.Sprintf("a cluster of %d masters", p.Masters)
	}
	rows := [][2]string{
		{"deliveries", fmt.Sprintf("%s a day, %s a second, %s at the peak", count(p.Load.PerDay), count(p.Mean), count(p.Peak))},
		{"measured here", fmt.Sprintf("serve %.1f µs and Redis %.1f µs of CPU a delivery, in a cluster %.1f µs", p.Costs.Serve, p.Costs.Redis, p.Costs.redis(clusterLeast))},
		{"serve", fmt.Sprintf("%d instances, so that one may fail; %s cores at the peak in all", p.Instances, cores(p.Cores))},
		{"", fmt.Sprintf("%s attempts under way at the peak if receivers respond in %s; %s for each instance", count(p.InFlight), ladder.FormatDuration(p.Load.Answer), size(p.Memory))},
		{"Redis", fmt.Sprintf("%s; %s cores at the peak; %s of memory", store, cores(p.RedisCPU), size(p.Redis))},
		{"PostgreSQL", fmt.Sprintf("only with an archive: %s cores; it grows by %s a month", cores(p.Postgres), size(p.Archive))},
	}
	text := &strings.Builder{}
	for _, row := range rows {
		fmt.Fprintf(text, "%-14s  %s\n", row[0], row[1])
	}
	return text.String()
}

// Package settings reads the settings of the environment once, and reports all mistakes together.
package settings

import (
	"log/slog"
	"net/netip"
	"net/url"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/app"
	"github.com/hookladder/hookladder/dispatcher/success"
	"github.com/hookladder/hookladder/ladder"
	"github.com/hookladder/hookladder/signer"
)

// Settings has all settings of the environment. Its tags are the table of settings: the variable,
// the default, and the accepted values, in words or from min to max. The tags also mark secrets,
// and settings that <name>_FILE may read from a file.
type Settings struct {
	Listen      string                `env:"LISTEN" envDefault:"127.0.0.1:8080" accepts:"host:port, or off to dispatch only"`
	Port        int                   `env:"PORT" min:"1" max:"65535"`
	Project     string                `env:"PROJECT" envDefault:"default" accepts:"1 to 64 of A-Z a-z 0-9 _ -"`
	RedisURL    string                `env:"REDIS_URL" url:"true" secret:"true" file:"true" accepts:"redis://, rediss:// or unix:// and the rest of a Redis URL"`
	RedisMode   string                `env:"REDIS_MODE" envDefault:"auto" accepts:"auto, single, cluster or sentinel"`
	RedisMaster string                `env:"REDIS_MASTER" accepts:"the name that sentinels have for the master"`
	RedisCA     string                `env:"REDIS_CA_FILE" accepts:"a file of PEM certificates"`
	DataDir     string                `env:"DATA_DIR" accepts:"a folder for the files of a Redis of its own, in place of REDIS_URL"`
	Partitions  int                   `env:"PARTITIONS" min:"1" max:"1024"`
	Durability  dispatcher.Durability `env:"DURABILITY" envDefault:"none" accepts:"none, fsync or replicas:<n> with an n from 1 to 9"`

	APIKeys       app.Keys        `env:"API_KEYS" secret:"true" file:"true" accepts:"key:scope+scope[:name] with commas between"`
	SigningSecret []signer.Secret `env:"SIGNING_SECRET" secret:"true" file:"true" accepts:"whsec_ and the base64 of 24 to 75 bytes, several with spaces between"`
	SigningDerive string          `env:"SIGNING_DERIVE" envDefault:"none" accepts:"none or tenant"`
	EncryptionKey Sealing         `env:"ENCRYPTION_KEY" secret:"true" file:"true" accepts:"the base64 of 32 bytes, several with spaces between"`

	Ladder          ladder.Ladder  `env:"LADDER" envDefault:"15s,3m,10m,30m,30m,1h,2h,6h,15h" accepts:"waits such as 15s, 3m, 1d or seconds, with commas between"`
	LadderJitter    float64        `env:"LADDER_JITTER" envDefault:"0" min:"0" max:"1"`
	Success         *success.Rule  `env:"SUCCESS" envDefault:"2xx" accepts:"statuses such as 2xx,404 or a success as JSON"`
	AttemptTimeout  time.Duration  `env:"ATTEMPT_TIMEOUT" envDefault:"15s" min:"1s" max:"60s"`
	MaxInFlight     int            `env:"MAX_IN_FLIGHT" envDefault:"4096" min:"0" max:"65536"`
	MaxConns        int            `env:"MAX_CONNECTIONS" min:"1" max:"1000000"`
	TrustedProxies  []netip.Prefix `env:"TRUSTED_PROXIES" accepts:"networks such as 10.0.0.0/8,fd00::/8"`
	LaneMaxInFlight int            `env:"ENDPOINT_MAX_IN_FLIGHT" envDefault:"128" min:"1" max:"65536"`
	MaxWaiting      int            `env:"ENDPOINT_MAX_WAITING" envDefault:"0" min:"0" max:"1000000000"`
	MaxBytes        Size           `env:"MAX_IN_FLIGHT_BYTES" envDefault:"128MiB" min:"1MiB" max:"1TiB"`
	FanoutMax       int            `env:"FANOUT_MAX" envDefault:"1000" min:"1" max:"1000000"`
	ClaimBatch      int            `env:"CLAIM_BATCH" envDefault:"64" min:"1" max:"64"`
	Breaker         Breaker        `env:"BREAKER" envDefault:"20/30s" accepts:"failures and the first wait such as 20/30s, or off"`
	FailingAfter    time.Duration  `env:"FAILING_AFTER" envDefault:"6h" min:"0s" max:"365d"`
	DisableAfter    time.Duration  `env:"DISABLE_AFTER" envDefault:"5d" min:"0s" max:"365d"`
	QuickRetries    int            `env:"QUICK_RETRIES" envDefault:"1" min:"0" max:"5"`

	OpsURL string `env:"OPS_URL" url:"true" secret:"true" file:"true" accepts:"an http or https URL"`

	PublicURL    PublicURL `env:"PUBLIC_URL" url:"true" accepts:"an http or https URL such as https://hooks.example, with a path or without"`
	Console      string    `env:"CONSOLE" envDefault:"on" accepts:"on or off"`
	ConsoleName  string    `env:"CONSOLE_NAME" accepts:"1 to 64 characters, none of them a control character"`
	ConsoleLogo  string    `env:"CONSOLE_LOGO" url:"true" accepts:"an https URL, or data:image/png;base64, and a picture, together at most 64 KiB"`
	ConsoleColor string    `env:"CONSOLE_COLOR" accepts:"# and 6 hex digits such as #3f4bd1"`

	UserAgent    string                  `env:"USER_AGENT" accepts:"1 to 256 printable ASCII characters"`
	HeaderPrefix dispatcher.HeaderPrefix `env:"HEADER_PREFIX" envDefault:"hookladder-" accepts:"2 to 32 of a-z 0-9 -, with - at its end"`

	AllowNets   []app.Net `env:"ALLOW_NETS" accepts:"networks such as 10.0.0.0/8,fd00::/8, each with a port if only that is meant: 127.0.0.0/8:9000"`
	LinkNets    []app.Net `env:"LINK_ALLOW_NETS" accepts:"networks such as 10.0.0.0/8,fd00::/8, each with a port if only that is meant: 127.0.0.0/8:9000"`
	HTTPSOnly   bool      `env:"HTTPS_ONLY" envDefault:"false" accepts:"true or false"`
	EgressProxy *url.URL  `env:"EGRESS_PROXY" url:"true" secret:"true" file:"true" accepts:"the URL of a proxy such as http://user:password@proxy.example:3128"`
	EgressCA    string    `env:"EGRESS_CA_FILE" accepts:"a file of PEM certificates"`
	EgressCert  string    `env:"EGRESS_CERT_FILE" accepts:"a file of PEM certificates that belong to EGRESS_KEY_FILE"`
	EgressKey   string    `env:"EGRESS_KEY_FILE" accepts:"a file with the PEM key of EGRESS_CERT_FILE"`

	MaxBody Size `env:"MAX_BODY" envDefault:"256KiB" min:"1KiB" max:"4MiB"`
	Excerpt Size `env:"EXCERPT" envDefault:"1KiB" min:"0B" max:"64KiB"`

	Retention     time.Duration `env:"RETENTION" envDefault:"24h" min:"1s" max:"365d"`
	RetentionMax  int           `env:"RETENTION_MAX" envDefault:"100000" min:"0" max:"1000000000"`
	DedupMax      int           `env:"DEDUP_MAX" envDefault:"1000000" min:"0" max:"1000000000"`
	DeadRetention time.Duration `env:"DEAD_RETENTION" envDefault:"720h" min:"1s" max:"365d"`
	DeadMax       int           `env:"DEAD_MAX" envDefault:"250000" min:"0" max:"1000000000"`

	ArchiveURL       string `env:"ARCHIVE_URL" url:"true" secret:"true" file:"true" accepts:"postgres://user:password@host/database"`
	ArchiveBodies    string `env:"ARCHIVE_BODIES" envDefault:"all" accepts:"all, failed or none"`
	ArchiveBacklog   Size   `env:"ARCHIVE_BACKLOG" envDefault:"256MiB" min:"1MiB" max:"1TiB"`
	ArchiveRetention Age    `env:"ARCHIVE_RETENTION" envDefault:"0" min:"0" max:"100y"`
	OutboxURL        string `env:"OUTBOX_URL" url:"true" secret:"true" file:"true" accepts:"postgres://user:password@host/database"`

	Wake          string        `env:"WAKE" envDefault:"auto" accepts:"auto or poll"`
	GuardInterval time.Duration `env:"GUARD_INTERVAL" envDefault:"1m" min:"1s" max:"1h"`
	ShutdownGrace time.Duration `env:"SHUTDOWN_GRACE" envDefault:"20s" min:"0s" max:"1h"`
	ShutdownDelay time.Duration `env:"SHUTDOWN_DELAY" envDefault:"0s" min:"0s" max:"60s"`
	MetricsListen string        `env:"METRICS_LISTEN" accepts:"host:port, where /metrics, /healthz and /readyz are open to everybody"`
	LogLevel      slog.Level    `env:"LOG_LEVEL" envDefault:"info" accepts:"debug, info, warn or error"`
	LogFormat     string        `env:"LOG_FORMAT" envDefault:"json" accepts:"json or text"`

	Traces Traces `env:"-"` // by the standard variables of OpenTelemetry, which are not in the table
}

// Size is a number of bytes, written 256KiB.
type Size int64

// Age is the longest age of something, written 90d or 7y. A year has 365 days.
type Age time.Duration

// Breaker is the number of failures after which a destination is paused, and the wait, written
// 20/30s. The zero Breaker never opens.
type Breaker struct {
	Failures int           // in a row
	Wait     time.Duration // the first wait
}

// PublicURL is the URL of the API from outside. A path at its end has no trailing slash. The zero
// PublicURL is unset.
type PublicURL struct{ URL *url.URL }

// Sealing encrypts data in the store. The zero Sealing encrypts nothing.
type Sealing struct{ Box *app.Seal }

package main

import (
	"io"
	"log/slog"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/app"
)

// listenOff is the LISTEN of a process that serves no API.
const listenOff = "off"

// options are the settings as the process wants them.
func options(s settings, found []foundSetting) app.Options {
	listen := listenAddr(s, found)
	if listen == listenOff {
		listen = ""
	}
	return app.Options{
		Listen:          listen,
		Keys:            s.APIKeys,
		MaxConnections:  s.MaxConns,
		MetricsListen:   s.MetricsListen,
		RedisURL:        s.RedisURL,
		RedisMode:       s.RedisMode,
		RedisMaster:     s.RedisMaster,
		RedisCAFile:     s.RedisCA,
		DataDir:         s.DataDir,
		Durability:      s.Durability,
		Poll:            s.Wake == wakePoll,
		Project:         s.Project,
		Partitions:      s.Partitions,
		LaneMaxInFlight: s.LaneMaxInFlight,
		MaxWaiting:      s.MaxWaiting,
		Seal:            s.EncryptionKey.box,
		BreakerFailures: s.Breaker.failures,
		BreakerWait:     s.Breaker.wait,
		QuickRetries:    s.QuickRetries,
		AllowNets:       s.AllowNets,
		HTTPSOnly:       s.HTTPSOnly,
		Proxy:           s.EgressProxy,
		CAFile:          s.EgressCA,
		CertFile:        s.EgressCert,
		KeyFile:         s.EgressKey,
		MaxBody:         int(s.MaxBody),
		Version:         version,
		Engine: dispatcher.Options{
			Secrets:      s.SigningSecret,
			DeriveTenant: s.SigningDerive == deriveTenant,
			Ladder:       s.Ladder,
			Jitter:       s.LadderJitter,
			Success:      s.Success,
			Timeout:      s.AttemptTimeout,
			MaxInFlight:  s.MaxInFlight,
			MaxBytes:     int64(s.MaxBytes),
			FanoutMax:    s.FanoutMax,
			ClaimBatch:   s.ClaimBatch,
			Excerpt:      int(s.Excerpt),
			PollEvery:    s.GuardInterval,
			Grace:        s.ShutdownGrace,
			Keep: dispatcher.Keep{
				Finished:    s.Retention,
				FinishedMax: s.RetentionMax,
				SeenMax:     s.DedupMax,
				Dead:        s.DeadRetention,
				DeadMax:     s.DeadMax,
			},
		},
	}
}

// newLog makes the logger that LOG_LEVEL and LOG_FORMAT ask for. Without
// LOG_FORMAT a person at a terminal gets text.
func newLog(s settings, found []foundSetting, out io.Writer) *slog.Logger {
	text := s.LogFormat == "text"
	for _, c := range found {
		if c.Name == "LOG_FORMAT" && c.Source == sourceDefault && onTerminal(out) {
			text = true
		}
	}
	o := &slog.HandlerOptions{Level: s.LogLevel}
	if text {
		return slog.New(slog.NewTextHandler(out, o))
	}
	return slog.New(slog.NewJSONHandler(out, o))
}

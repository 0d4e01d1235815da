package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// urls are the settings that are URLs, with what is before a password and behind it.
var urls = map[string][2]string{
	"REDIS_URL":                          {"redis://user:", "@127.0.0.1:1"},
	"ARCHIVE_URL":                        {"postgres://user:", "@127.0.0.1:1/d"},
	"OUTBOX_URL":                         {"postgres://user:", "@127.0.0.1:1/d"},
	"OPS_URL":                            {"https://user:", "@ops.example/hook"},
	"PUBLIC_URL":                         {"https://user:", "@hooks.example"},
	"CONSOLE_LOGO":                       {"https://user:", "@cdn.example/logo.png"},
	"EGRESS_PROXY":                       {"http://user:", "@proxy.example:3128"},
	"OTEL_EXPORTER_OTLP_ENDPOINT":        {"http://user:", "@collector.example:4318"},
	"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": {"http://user:", "@collector.example:4318/v1/traces"},
	"OTEL_EXPORTER_OTLP_HEADERS":         {"Authorization: Bearer ", "="},
}

func FuzzNoPartOfAMistypedSecretIsPrinted(f *testing.F) {
	for _, before := range []string{"", "12345/", "12345?", "12345#", "p@ss/", "%zz", " ", "\\", "12/x@h/", "\n"} {
		for _, after := range []string{"", "/", "?x=1", "#", "@", ":", "@h/", "%"} {
			f.Add(before, after)
		}
	}
	const mark = "tailsecretpart"
	f.Fuzz(func(t *testing.T, before, after string) {
		var environ []string
		for name, around := range urls {
			environ = append(environ, name+"="+around[0]+before+mark+after+around[1])
		}
		got := command(t, append(environ, "OTEL_TRACES_EXPORTER=otlp"), "", "config")
		require.NotContains(t, got.out+got.err, mark)
		var files []string // the same, given to the variables for a file
		for name, around := range urls {
			files = append(files, name+"_FILE="+around[0]+before+mark+after+around[1])
		}
		got = command(t, files, "", "config")
		require.NotContains(t, got.out+got.err, mark)
		got = command(t, []string{"HOOKLADDER_URL=http://user:" + before + mark + after + "@127.0.0.1:1"}, "", "ping")
		require.Equal(t, exitUsage, got.code)
		require.NotContains(t, got.out+got.err, mark)
	})
}

func TestAMistypedStoreIsABadSetting(t *testing.T) {
	for _, text := range []string{
		"redis://:12345/tailsecretpart@127.0.0.1:1", "redis://:12345?tailsecretpart=1@127.0.0.1:1", "redis://:p@ss/tailsecretpart@127.0.0.1:1",
		"redis://:12345/tailsecretpart", "redis://:12345?tailsecretpart=1", "redis://:12345#tailsecretpart",
	} {
		got := command(t, []string{"REDIS_URL=" + text}, "", "serve")
		require.Equal(t, exitUsage, got.code, text)
		require.Contains(t, got.err, "REDIS_URL", text)
		require.NotContains(t, got.err, "tailsecretpart", text)
	}
}

package main

import (
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/signer"
)

func TestSendHasAFlagForEachFieldOfAMessage(t *testing.T) {
	other := map[string]string{"headers": "header", "raw_body": "raw", "raw_body_base64": "body-file"}
	flags := newSend(world{}).Flags()
	fields := reflect.TypeFor[wire.Message]()
	for n := range fields.NumField() {
		name, _, _ := strings.Cut(fields.Field(n).Tag.Get("json"), ",")
		flag := strings.ReplaceAll(name, "_", "-")
		if other[name] != "" {
			flag = other[name]
		}
		require.NotNil(t, flags.Lookup(flag), "no --%s for %s", flag, name)
	}
}

func TestTheShellIsOfferedTheValuesOfFlags(t *testing.T) {
	t.Parallel()
	for line, want := range map[string][]string{
		"listen --signature":             schemeNames(),
		"endpoints create --signature":   schemeNames(),
		"endpoints update m --signature": schemeNames(),
		"secret --scheme":                schemeNames(),
		"listen --status":                {"204\tdelivered", "410\tgone: dead at once"},
		"endpoints update m --unset":     {"rate", "headers"},
		"completion":                     {"bash", "zsh", "fish", "powershell"},
	} {
		got := command(t, nil, "", append([]string{"__complete"}, append(strings.Fields(line), "")...)...)
		require.Equal(t, exitOK, got.code)
		for _, one := range want {
			require.Contains(t, "\n"+got.out, "\n"+one, line)
		}
	}
	require.Len(t, schemeNames(), len(signer.Schemes))
	for _, args := range [][]string{{"--help"}, nil} {
		require.Contains(t, command(t, nil, "", args...).out, "hookladder completion bash")
	}
	require.Contains(t, section(t, "Commands"), "hookladder completion bash")
}

func TestItsVersionIsAFlagToo(t *testing.T) {
	t.Parallel()
	got := command(t, nil, "", "--version")
	require.Equal(t, exitOK, got.code)
	require.Equal(t, command(t, nil, "", "version").out, got.out)
	require.Regexp(t, `^hookladder \d+\.\d+\.\d+`, got.out)
}

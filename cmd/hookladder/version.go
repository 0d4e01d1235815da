package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is the one being worked on, or released by a tag of the same name.
const version = "0.1.0"

func newVersion(world) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version, and what it was built from",
		Example: "  hookladder version",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), versionLine())
			return err
		},
	}
}

func versionLine() string {
	return fmt.Sprintf("hookladder %s%s, %s %s/%s", version, revision(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// builtFrom is the commit, where a build without .git was told it:
// -ldflags "-X main.builtFrom=<commit>".
var builtFrom string

// shownCommit is how much of a commit's name tells it from all others.
const shownCommit = 12

// revision is the commit the binary was built from, where the build knew it.
func revision() string {
	if builtFrom != "" {
		return " (" + builtFrom[:min(len(builtFrom), shownCommit)] + ")"
	}
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	of := map[string]string{}
	for _, s := range build.Settings {
		of[s.Key] = s.Value
	}
	commit := of["vcs.revision"]
	if commit == "" {
		return ""
	}
	text := " (" + commit[:min(len(commit), shownCommit)]
	if of["vcs.modified"] == "true" {
		text += ", changed"
	}
	return text + ")"
}

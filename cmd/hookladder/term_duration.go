package main

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/hookladder/hookladder/ladder"
)

// durationVar adds a flag with a duration, such as 5d, 1d12h, 1.5s, or a number of seconds.
func durationVar(flags *pflag.FlagSet, to *time.Duration, name string, usual time.Duration, usage string) {
	*to = usual
	flags.Var((*durationFlag)(to), name, usage)
	if usual == 0 {
		flags.Lookup(name).DefValue = "" // or the help would say (default 0s)
	}
}

// A durationFlag is the value of such a flag.
type durationFlag time.Duration

// String is the duration as people write it.
func (d *durationFlag) String() string { return ladder.FormatDuration(time.Duration(*d)) }

// Set reads it.
func (d *durationFlag) Set(text string) error {
	read, err := ladder.ParseDuration(text)
	if err == nil {
		*d = durationFlag(read)
	}
	return err
}

// Type is the name of the value in the help.
func (d *durationFlag) Type() string { return "duration" }

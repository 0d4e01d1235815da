//go:build !race

package main_test

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// goDurations are the functions that read or write durations in Go's own form. It
// has no days, and writes 1h as 1h0m0s. Package ladder has the form that people see.
var goDurations = []string{
	"(time.Duration).String", "time.ParseDuration", "flag.Duration", "flag.DurationVar",
	"(*github.com/spf13/pflag.FlagSet).Duration", "(*github.com/spf13/pflag.FlagSet).DurationP",
	"(*github.com/spf13/pflag.FlagSet).DurationVar", "(*github.com/spf13/pflag.FlagSet).DurationVarP",
}

func TestTheHouseReadsAndWritesDurationsInOneForm(t *testing.T) {
	h, _ := mustTypeOurs(t)
	require.Empty(t, h.goDurations(),
		"use ladder.FormatDuration, ladder.ParseDuration and term.DurationVar, which know days and write no zero parts")
}

// inGoForm are the folders that may use it: those that may not import package
// ladder, and those whose words only developers of this module read.
var inGoForm = []string{"ladder", "signer", "deploy", "cmd/hookladder/internal/bench", "dispatcher/internal/queuetest", "dispatcher/internal/redisq/redisqtest"}

// goDurations are the places where a package proper uses Go's form of durations.
func (h *typedHouse) goDurations() (found []string) {
	for _, p := range h.packages {
		within := func(folder string) bool { return p.folder == folder || strings.HasPrefix(p.folder, folder+"/") }
		if p.test || slices.ContainsFunc(inGoForm, within) {
			continue
		}
		for _, file := range p.files {
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.Ident:
					if f, ok := p.info.Uses[n].(*types.Func); ok && slices.Contains(goDurations, f.FullName()) {
						found = append(found, h.fset.Position(n.Pos()).String()+": "+f.FullName())
					}
				case *ast.CallExpr:
					if p.printsDuration(n) {
						found = append(found, h.fset.Position(n.Pos()).String()+": a duration is printed")
					}
				}
				return true
			})
		}
	}
	slices.Sort(found)
	return found
}

// printsDuration reports whether a call gives a duration to a parameter that takes
// any value, as those of package fmt do.
func (p *typedPackage) printsDuration(call *ast.CallExpr) bool {
	s, ok := p.info.TypeOf(call.Fun).(*types.Signature)
	if !ok || !s.Variadic() || call.Ellipsis.IsValid() {
		return false
	}
	last := s.Params().At(s.Params().Len() - 1).Type().(*types.Slice)
	if i, ok := last.Elem().Underlying().(*types.Interface); !ok || !i.Empty() {
		return false
	}
	for _, arg := range call.Args[min(s.Params().Len()-1, len(call.Args)):] {
		if t := p.info.TypeOf(arg); t != nil && t.String() == "time.Duration" {
			return true
		}
	}
	return false
}

// The rule about durations finds an offence.
func TestTheRuleAboutDurationsOfTheHouseCanFail(t *testing.T) {
	h := mustTypeHouse(t, map[string]string{
		"dispatcher/a.go": "package a; import (\"fmt\"; \"time\")\n" +
			"func printed(d time.Duration) string { return fmt.Sprintf(\"%v\", d) }\n" +
			"func written(d time.Duration) string { return d.String() }\n" +
			"func read(s string) { _, _ = time.ParseDuration(s) }\n" +
			"func fine(d time.Duration) string { return fmt.Sprint(d.Seconds()) }",
	})
	require.Equal(t, []string{
		"dispatcher/a.go:2:47: a duration is printed",
		"dispatcher/a.go:3:49: (time.Duration).String",
		"dispatcher/a.go:4:35: time.ParseDuration",
	}, h.goDurations())
}

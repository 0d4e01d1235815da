//go:build unix

package kit

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Revision is the commit that Binary reports, as builds without git do.
const Revision = "0123456789abcdef"

// Binary returns the path of the real program, built with the race detector, for chaos. All
// test packages share one build in the folder for temporary files. go build does not build
// again until the sources change.
var Binary = sync.OnceValues(func() (string, error) { return hookladder(raceFlags...) })

// raceFlags are RACE of the Makefile, so that the program and the tests use the same compiled
// packages.
var raceFlags = []string{"-race", "-gcflags=github.com/yuin/gopher-lua/...=-race=false"}

// FastBinary is the program as a release has it, for tests of behaviour and benchmarks. It needs
// a fifth of the CPU time.
var FastBinary = sync.OnceValues(func() (string, error) { return hookladder() })

// buildWithin bounds a build, with the wait for the same build of another process. With the race
// detector it takes minutes on a busy machine.
const buildWithin = 20 * time.Minute

func hookladder(flags ...string) (path string, err error) {
	return Build("./cmd/hookladder", append(slices.Clone(flags), "-ldflags", "-w -X main.builtFrom="+Revision)...)
}

// Build builds a program of this module and returns its path. Without -race among the flags it
// builds as a release does, so both use the same compiled packages. Later processes with
// the same arguments use the same build.
func Build(program string, flags ...string) (path string, err error) {
	module, err := moduleDir()
	if err != nil {
		return "", err
	}
	more, err := exec.Command("go", "env", "GOFLAGS").Output()
	if err != nil {
		return "", fmt.Errorf("build %s: %w", program, err)
	}
	// Each user, copy of the module, program and set of flags has a folder of its
	// own.
	key := sha256.Sum256(fmt.Append(nil, module, program, flags, string(more)))
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("hookladder-kit-%d-%x", os.Getuid(), key[:6]))
	if err := errors.Join(os.MkdirAll(dir, 0o700), os.Chmod(dir, 0o700)); err != nil { // fails if the folder belongs to another user
		return "", fmt.Errorf("build %s: %w", program, err)
	}
	lock, err := os.Create(filepath.Join(dir, "lock"))
	if err != nil {
		return "", fmt.Errorf("build %s: %w", program, err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }() // Close also unlocks it
	ctx, cancel := context.WithTimeout(context.Background(), buildWithin)
	defer cancel()
	for {
		err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			break
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) || !Rest(ctx, longestWait) {
			return "", fmt.Errorf("build %s: wait at most %s for another build: %w", program, buildWithin, err)
		}
	}
	path = filepath.Join(dir, filepath.Base(program))
	args := append([]string{"build", "-buildvcs=false", "-trimpath", "-o", path}, flags...)
	env := []string{"GOWORK=off", "CGO_ENABLED=0"} // with the versions of go.mod alone, as users build it
	if slices.Contains(flags, "-race") {
		env[1] = "CGO_ENABLED=1" // which the detector needs
	}
	cmd := exec.CommandContext(ctx, "go", append(args, program)...)
	cmd.Dir = module
	cmd.Env = append(cmd.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s within %s: %w: %s", program, buildWithin, err, out)
	}
	if strings.Contains(string(more), "-cover") {
		return covered(path, filepath.Join(module, "bin", "cover", "program"))
	}
	return path, nil
}

// BuildAlone builds a program in a module of its own, in a folder, as a user's, and returns its path.
// The module needs what this one needs, in the same versions, so nothing is downloaded. A workspace
// joins both, and no replaced module: its packages would have other paths, and each would be compiled
// again.
func BuildAlone(ctx context.Context, dir, text string) (path string, err error) {
	top, err := moduleDir()
	if err != nil {
		return "", err
	}
	module, err := os.ReadFile(filepath.Join(top, "go.mod"))
	if err != nil {
		return "", fmt.Errorf("build a program alone: %w", err)
	}
	sums, err := os.ReadFile(filepath.Join(top, "go.sum"))
	if err != nil {
		return "", fmt.Errorf("build a program alone: %w", err)
	}
	_, needs, _ := strings.Cut(string(module), "\n") // without its name
	version := regexp.MustCompile(`(?m)^go .*$`).FindString(needs)
	for name, text := range map[string]string{
		"main.go": text, "go.sum": string(sums), "go.mod": "module alone\n" + needs,
		"go.work": fmt.Sprintf("%s\nuse (\n\t.\n\t%q\n)\n", version, top),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return "", fmt.Errorf("build a program alone: %w", err)
		}
	}
	path = filepath.Join(dir, "alone")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-w", "-o", path, ".") // as tests are linked
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK="+filepath.Join(dir, "go.work"), "CGO_ENABLED=0") // as Build compiles the packages
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build a program alone: %w: %s", err, out)
	}
	return path, nil
}

// covered returns the path of a script that runs a program and has it write its coverage
// into a folder. Tests give most programs an environment of their own, without GOCOVERDIR.
func covered(program, into string) (string, error) {
	script := filepath.Join(filepath.Dir(program), "covered", filepath.Base(program))
	text := fmt.Sprintf("#!/bin/sh\nGOCOVERDIR='%s' exec '%s' \"$@\"\n", into, program)
	if err := errors.Join(os.MkdirAll(into, 0o700), os.MkdirAll(filepath.Dir(script), 0o700)); err != nil {
		return "", fmt.Errorf("measure %s: %w", program, err)
	}
	// A renamed file is always complete, for processes that run it now.
	if err := errors.Join(os.WriteFile(script+".new", []byte(text), 0o700), os.Rename(script+".new", script)); err != nil {
		return "", fmt.Errorf("measure %s: %w", program, err)
	}
	return script, nil
}

// moduleDir returns the nearest folder with the program's source, from the working
// folder upwards. Tests in modules of their own build the same program.
func moduleDir() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "cmd", "hookladder", "main.go")); err == nil {
			return dir, nil
		}
		above := filepath.Dir(dir)
		if above == dir {
			return "", errors.New("find the module: no cmd/hookladder above the working folder")
		}
		dir = above
	}
}

// Command mutants changes the scripts of the queue and the code around them, one place at a
// time, and runs the tests that should notice. A change that no test notices is a survivor:
// either a rule without a test, or code that makes no difference. survivors.txt lists those
// that make none, with the reason.
//
//	go run ./deploy/mutants                                  # all mutants: many hours
//	go run ./deploy/mutants -sample 40 -seed 7               # forty of them
//	go run ./deploy/mutants -files 'lua/(settle|claim)\.lua' # all of two scripts
//	go run ./deploy/mutants -files verdict -match 'attempts = math.max'
//
// It exits 1 if a survivor is not in the list. With -score it may be some of them: a random sample
// meets old gaps too, and a run each night is there to notice that tests got worse. It changes no
// file of the checkout.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

const survivorsFile = "deploy/mutants/survivors.txt"

// addressKiB limits the addresses of one run of tests: 8 GiB. A usual run takes 2.
const addressKiB = "8388608"

// redisqFolder has the scripts and the verbs of the queue, engineFolder the stages that call them.
const (
	redisqFolder = "dispatcher/internal/redisq"
	engineFolder = "dispatcher/internal/engine"
)

// files are those that are changed: what decides about leases, outcomes and places of
// deliveries.
var files = []string{
	redisqFolder + "/lua/*.lua", redisqFolder + "/conn/lua/*.lua", redisqFolder + "/admin/lua/job_*.lua",
	redisqFolder + "/claim.go", redisqFolder + "/settle.go", redisqFolder + "/reap.go",
	engineFolder + "/settle.go", engineFolder + "/take.go",
	engineFolder + "/reap.go", engineFolder + "/lease.go",
}

// connScripts are the scripts of the connection itself, beside the parts that all scripts share.
// They decide nothing about deliveries.
var connScripts = []string{"identify.lua", "meta.lua", "probe.lua", "which_server.lua"}

// A suite is a run of tests. Suites of one kind of mutant run in their order, the fastest
// first, until one fails.
type suite struct {
	folder string
	args   []string
}

var suites = map[string][]suite{
	"lua": {
		{redisqFolder, []string{"-test.run=^TestQueueModel$/^redis$"}},
		{redisqFolder, []string{"-test.run=" + queueTests + "/^(redis$|[^m].*)"}},
		{redisqFolder + "/admin", []string{"-test.run=" + jobTests}},
		{redisqFolder, []string{"-test.skip=^TestQueueModel$|" + queueTests}},
		{redisqFolder + "/admin", []string{"-test.skip=" + jobTests}},
	},
	"redisq": {
		{redisqFolder, []string{"-test.run=^TestQueueModel$/^redis$"}},
		{redisqFolder, []string{"-test.run=^TestQueue$/^redis$"}},
		{redisqFolder, []string{"-test.short", "-test.skip=^TestQueue"}},
	},
	"engine": {
		{engineFolder, []string{"-test.run=" + engineTests}},
		{engineFolder, []string{"-test.skip=" + engineTests}},
	},
}

// Tests of which some notice most of the mutants of scripts.
const (
	queueTests = "^(TestQueue|TestDeliveriesMakeTheMovesOfTheTable)$"
	jobTests   = "^(TestJobs|TestAJobOutlivesARepartition)$"
)

// engineTests are the tests of the engine that notice most of its mutants.
const engineTests = "Lease|Outcome|Settle|Death|Reap|Taken|Suspect|Stop|Attempt|Claim|Fenced|Bodies|Permit"

func kindOf(m mutant) string {
	switch {
	case strings.HasSuffix(m.file, ".lua"):
		return "lua"
	case strings.HasPrefix(m.file, engineFolder):
		return "engine"
	default:
		return "redisq"
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

type options struct {
	only, match *regexp.Regexp
	sample      int
	seed        uint64
	at          int
	each        time.Duration
	score       float64
}

func run(ctx context.Context) error {
	only := flag.String("files", "", "only files whose path matches this regular expression")
	match := flag.String("match", "", "only mutants whose old line matches this regular expression")
	o := options{}
	flag.IntVar(&o.sample, "sample", 0, "so many mutants, drawn by -seed (0: all)")
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().Unix()), "draws the sample, and the model's steps")
	flag.IntVar(&o.at, "parallel", 2, "mutants that are tried at once")
	flag.DurationVar(&o.each, "timeout", 10*time.Minute, "when the tests of a mutant are taken to hang, which they notice")
	flag.Float64Var(&o.score, "score", 1, "fail if a smaller share of the mutants is killed, of those that are not listed")
	flag.Parse()
	var err error
	if o.only, err = regexp.Compile(*only); err != nil {
		return err
	}
	if o.match, err = regexp.Compile(*match); err != nil {
		return err
	}
	known, err := readSurvivors()
	if err != nil {
		return err
	}
	all, err := choose(o)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return errors.New("no mutant matches")
	}
	work, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	b := &bench{work: work, o: o}
	if err := b.build(ctx, all); err != nil {
		return err
	}
	return b.tryAll(ctx, all, known)
}

// choose returns the mutants to try. A sample is in random order.
func choose(o options) (all []mutant, err error) {
	for _, pattern := range files {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("%s is not here: run this from the repository's root, and keep the list of files true", pattern)
		}
		for _, file := range found {
			if !o.only.MatchString(file) || slices.Contains(connScripts, filepath.Base(file)) {
				continue
			}
			mutants, err := mutantsOf(file)
			if err != nil {
				return nil, err
			}
			all = append(all, slices.DeleteFunc(mutants, func(m mutant) bool { return !o.match.MatchString(m.old) })...)
		}
	}
	if o.sample > 0 && o.sample < len(all) {
		rand.New(rand.NewPCG(o.seed, 0)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		all = all[:o.sample]
	}
	return all, nil
}

// bench builds test binaries and runs them.
type bench struct {
	work string
	o    options

	building sync.Mutex // one build at a time: it uses all processors
}

// scriptsEnv is where a test binary for scripts reads them from, in place of those that it embeds.
const scriptsEnv = "MUTANT_SCRIPTS"

// build compiles the test binaries for mutants of scripts, which read the scripts from a
// folder. So all of these mutants need one build.
func (b *bench) build(ctx context.Context, all []mutant) error {
	if !slices.ContainsFunc(all, func(m mutant) bool { return kindOf(m) == "lua" }) {
		return nil
	}
	replaced := map[string]string{}
	sources, err := filepath.Glob(redisqFolder + "/*.go")
	if err != nil {
		return err
	}
	deeper, err := filepath.Glob(redisqFolder + "/*/*.go")
	if err != nil {
		return err
	}
	folders := map[string]bool{}
	for _, file := range append(sources, deeper...) {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		changed, ok := readsFiles(string(text))
		if !ok {
			continue
		}
		folder := filepath.Dir(file)
		if replaced[file], err = b.write(file, []byte(changed)); err != nil {
			return err
		}
		if !folders[folder] {
			folders[folder] = true
			pkg := regexp.MustCompile(`(?m)^package (\w+)$`).FindStringSubmatch(changed)[1]
			helper := fmt.Sprintf(reader, pkg, scriptsEnv, folder)
			if replaced[folder+"/mutant_scripts.go"], err = b.write(folder+"/mutant_scripts.go", []byte(helper)); err != nil {
				return err
			}
		}
	}
	for _, s := range suites["lua"] {
		if err := b.compile(ctx, s.folder, b.binary("lua", s.folder), replaced); err != nil {
			return err
		}
	}
	return nil
}

// reader is the function by which a package reads its scripts.
const reader = `package %s

import (
	"io/fs"
	"os"
)

type mutantScripts struct{}

func (mutantScripts) Open(string) (fs.File, error) { return nil, fs.ErrNotExist }

func (mutantScripts) ReadFile(name string) ([]byte, error) {
	if text, err := os.ReadFile(os.Getenv(%q) + "/%s/" + name); err == nil {
		return text, nil
	}
	return os.ReadFile(os.Getenv("MUTANT_ROOT") + "/%[3]s/" + name)
}
`

var embedsFolder = regexp.MustCompile(`(?m)^//go:embed lua/\*\.lua\nvar (\w+) embed\.FS`)

// readsFiles returns a Go file that reads the scripts that it embeds from files.
func readsFiles(text string) (changed string, ok bool) {
	changed = embedsFolder.ReplaceAllString(text, "var $1 mutantScripts\n\nvar _ embed.FS")
	return changed, changed != text
}

func (b *bench) binary(kind, folder string) string {
	return filepath.Join(b.work, kind+"-"+strings.ReplaceAll(folder, "/", "-")+".test")
}

// write puts a text into the work folder and returns its path.
func (b *bench) write(name string, text []byte) (string, error) {
	path := filepath.Join(b.work, "overlay", name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	return path, os.WriteFile(path, text, 0o644)
}

var errBuild = errors.New("it does not compile")

// compile builds the tests of a package with some files replaced.
func (b *bench) compile(ctx context.Context, folder, to string, replaced map[string]string) error {
	b.building.Lock()
	defer b.building.Unlock()
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	absolute := map[string]string{}
	for file, by := range replaced {
		absolute[filepath.Join(root, file)] = by
	}
	list, err := json.Marshal(map[string]any{"Replace": absolute})
	if err != nil {
		return err
	}
	overlay, err := b.write(filepath.Base(to)+".json", list)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-ldflags=-w", "-overlay", overlay, "-o", to, "./"+folder)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %w\n%s", errBuild, err, out)
	}
	return nil
}

// A fate is what became of a mutant.
type fate struct {
	mutant
	killed bool
	by     string // the first test that failed, or why the mutant was no program
	after  time.Duration
	err    error // of ours
}

// tryAll tries the mutants and prints their fates.
func (b *bench) tryAll(ctx context.Context, all []mutant, known map[string]string) error {
	todo, done := make(chan mutant), make(chan fate)
	var workers sync.WaitGroup
	for n := range max(b.o.at, 1) {
		workers.Go(func() {
			for m := range todo {
				done <- b.try(ctx, m, n)
			}
		})
	}
	go func() {
		defer close(todo)
		for _, m := range all {
			select {
			case todo <- m:
			case <-ctx.Done():
				return
			}
		}
	}()
	go func() { workers.Wait(); close(done) }()

	killed, equal, survived := 0, 0, []fate{}
	for f := range done {
		switch why, listed := known[f.key()]; {
		case f.err != nil && ctx.Err() != nil:
			continue
		case f.err != nil:
			return f.err
		case f.killed:
			killed++
			fmt.Printf("killed    %s:%d after %.0f s by %s\n", f.file, f.line, f.after.Seconds(), f.by)
			if listed {
				fmt.Printf("          survivors.txt lists it (%s): take it out\n", why)
			}
		case listed:
			equal++
			fmt.Printf("equal     %s:%d (%s)\n", f.file, f.line, why)
		default:
			survived = append(survived, f)
			fmt.Printf("SURVIVED  %s:%d\n          %s\n", f.file, f.line, f.key())
		}
	}
	score := float64(killed) / float64(max(killed+len(survived), 1))
	fmt.Printf("%d mutants of seed %d: %d killed, %d are listed as equal, %d survived: a score of %.2f\n",
		killed+equal+len(survived), b.o.seed, killed, equal, len(survived), score)
	if ctx.Err() != nil {
		return fmt.Errorf("stopped after %d of %d mutants", killed+equal+len(survived), len(all))
	}
	if len(survived) > 0 && score < b.o.score {
		return fmt.Errorf("%d mutants survived: write the test that kills each, or list it in %s with the reason", len(survived), survivorsFile)
	}
	return nil
}

// try runs the suites of a mutant until one fails.
func (b *bench) try(ctx context.Context, m mutant, worker int) (f fate) {
	f = fate{mutant: m}
	began := time.Now()
	defer func() { f.after = time.Since(began) }()
	root, err := os.Getwd()
	if err != nil {
		f.err = err
		return f
	}
	kind := kindOf(m)
	scripts := filepath.Join(b.work, fmt.Sprint("scripts-", worker))
	if kind == "lua" {
		if f.err = os.RemoveAll(scripts); f.err == nil {
			f.err = os.MkdirAll(filepath.Join(scripts, filepath.Dir(m.file)), 0o755)
		}
		if f.err == nil {
			f.err = os.WriteFile(filepath.Join(scripts, m.file), m.text, 0o644)
		}
		if f.err != nil {
			return f
		}
	}
	for i, s := range suites[kind] {
		binary := b.binary(kind, s.folder)
		if kind != "lua" {
			binary = b.binary(fmt.Sprint(kind, "-", worker), s.folder)
		}
		if kind != "lua" && i == 0 { // its suites have one folder
			at, err := b.write(fmt.Sprintf("worker-%d/%s", worker, m.file), m.text)
			if err == nil {
				err = b.compile(ctx, s.folder, binary, map[string]string{m.file: at})
			}
			if errors.Is(err, errBuild) {
				f.killed, f.by = true, "the compiler"
				return f
			} else if err != nil {
				f.err = err
				return f
			}
		}
		args := append([]string{"-test.failfast", "-test.timeout=" + b.o.each.String()}, s.args...)
		// A mutant may collect without an end, so its memory is bounded.
		cmd := exec.CommandContext(ctx, "sh", append([]string{"-c", `ulimit -v "$0" && exec "$@"`, addressKiB, binary}, args...)...)
		cmd.Dir = s.folder
		cmd.Env = append(os.Environ(), scriptsEnv+"="+scripts, "MUTANT_ROOT="+root)
		out, err := cmd.CombinedOutput()
		if ctx.Err() != nil {
			f.err = ctx.Err()
			return f
		}
		if err != nil {
			f.killed, f.by = true, firstFailure(out)
			return f
		}
	}
	return f
}

var failedTest = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

// firstFailure returns the deepest name among the first failed tests.
func firstFailure(out []byte) string {
	if bytes.Contains(out, []byte("Error compiling script")) {
		return "Lua's compiler"
	}
	name := "the end of the tests"
	for _, found := range failedTest.FindAllSubmatch(out, -1) {
		if n := string(found[1]); name == "the end of the tests" || strings.HasPrefix(n, name) {
			name = n
		}
	}
	return name
}

// readSurvivors returns the listed mutants and the reason of each. A line is
// "<key>: because <reason>"; one that begins with # is a comment.
func readSurvivors() (map[string]string, error) {
	f, err := os.Open(survivorsFile)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	known := map[string]string{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		at := strings.LastIndex(line, ": because ")
		if at < 0 {
			return nil, fmt.Errorf("%s: no reason: %s", survivorsFile, line)
		}
		known[line[:at]] = line[at+2:]
	}
	return known, lines.Err()
}

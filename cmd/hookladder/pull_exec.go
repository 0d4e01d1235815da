package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/ladder"
)

// Exit statuses with a meaning: EX_DATAERR of sysexits.h, and the statuses of a shell that
// can't run a program.
const (
	exitDead   = 65
	exitNoRun  = 126
	exitNoFind = 127
)

// errNoProgram means that the program could not be started.
var errNoProgram = errors.New("the program can't be started")

// execHandler runs a program for each delivery, with the body as standard input. Exit status 0
// means delivered, 65 means dead, and any other status means that it failed.
type execHandler struct {
	Command string // of the shell
	Timeout time.Duration
	Environ []string // it gets these and HOOKLADDER_...
	Out     io.Writer
	Err     io.Writer

	mu sync.Mutex // keeps the lines of parallel programs whole
}

// shownError is the most bytes of a program's last line that are stored as the error.
const shownError = 1 << 10

// Handle runs the program for one delivery.
func (e *execHandler) Handle(ctx context.Context, d *wire.TakenDelivery) (wire.Settlement, error) {
	ctx, cancel := context.WithTimeout(ctx, e.Timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", e.Command)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 5 * time.Second
	cmd.Stdin = bytes.NewReader(d.Bytes())
	said := &tailBuffer{most: shownError}
	cmd.Stdout, cmd.Stderr = &sharedWriter{mu: &e.mu, out: e.Out}, io.MultiWriter(&sharedWriter{mu: &e.mu, out: e.Err}, said)
	cmd.Env = append(append([]string{}, e.Environ...),
		"HOOKLADDER_DELIVERY_ID="+d.ID, "HOOKLADDER_MESSAGE_ID="+d.Message.ID, "HOOKLADDER_TOPIC="+d.Message.Topic,
		"HOOKLADDER_TENANT="+d.Message.Tenant, "HOOKLADDER_SUBJECT="+d.Message.Subject,
		"HOOKLADDER_ATTEMPT="+strconv.Itoa(d.Attempt), "HOOKLADDER_CONTENT_TYPE="+d.Message.ContentType)
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return failedSettlement("the program took longer than %s", ladder.FormatDuration(e.Timeout)), nil
	case err == nil, errors.Is(err, exec.ErrWaitDelay): // a child process still has its output open
		return wire.Settlement{Outcome: deliveredOutcome}, nil
	case !errors.As(err, &exit):
		return failedSettlement("%v: %v", errNoProgram, err), fmt.Errorf("%w: %w", errNoProgram, err)
	}
	s := failedSettlement("%s%s", exit, said.last())
	switch exit.ExitCode() {
	case exitDead:
		s.Outcome = deadOutcome
	case exitNoRun, exitNoFind:
		return s, fmt.Errorf("%w: %s", errNoProgram, s.Error)
	}
	return s, nil
}

// sharedWriter writes to an output of several writers.
type sharedWriter struct {
	mu  *sync.Mutex
	out io.Writer
}

func (s *sharedWriter) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.Write(b)
}

// tailBuffer keeps the end of the written text.
type tailBuffer struct {
	most int
	kept []byte
}

func (t *tailBuffer) Write(b []byte) (int, error) {
	t.kept = append(t.kept, b...)
	if len(t.kept) > 2*t.most {
		t.kept = append(t.kept[:0], t.kept[len(t.kept)-t.most:]...)
	}
	return len(b), nil
}

// last is the last line that is not empty, behind a colon.
func (t *tailBuffer) last() string {
	text := strings.TrimSpace(strings.ToValidUTF8(string(t.kept), "\uFFFD"))
	if text = text[strings.LastIndexByte(text, '\n')+1:]; text == "" {
		return ""
	}
	return ": " + text[max(len(text)-t.most, 0):]
}

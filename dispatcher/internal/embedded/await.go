package embedded

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher/internal/wait"
	"github.com/hookladder/hookladder/ladder"
)

const (
	pollEvery    = 20 * time.Millisecond // a server with an empty file responds after some 20 ms
	maxStall     = time.Minute           // the longest time without progress of the load; a file of 1 GiB takes some ten seconds
	queryTimeout = time.Second           // the server is on this machine
)

// await returns when the server responds for the first time.
func (r *Redis) await(ctx context.Context, c *child) error {
	logged, loaded, progress := false, int64(-1), time.Now()
	for {
		_, err := query(ctx, r.socket, "PING")
		if err == nil {
			return nil
		}
		if errors.Is(err, errLoading) {
			bytes, total := r.loading(ctx)
			if !logged {
				r.o.Log.Info("embedded redis loads its file", "bytes", total)
				logged = true
			}
			if bytes > loaded {
				loaded, progress = bytes, time.Now()
			}
		}
		if time.Since(progress) > maxStall {
			return fmt.Errorf("%s has made no progress for %s: %w", filepath.Base(r.program), ladder.FormatDuration(maxStall), err)
		}
		select {
		case <-c.exited:
			return r.refusal(c)
		default:
		}
		if !wait.Sleep(ctx, pollEvery) {
			return fmt.Errorf("wait for %s: %w", filepath.Base(r.program), context.Cause(ctx))
		}
	}
}

// loading returns how many bytes of its file the server has read; -1: the server does not
// report it.
func (r *Redis) loading(ctx context.Context) (bytes, total int64) {
	bytes, total = -1, -1
	text, err := query(ctx, r.socket, "INFO persistence")
	if err != nil {
		return bytes, total
	}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			continue
		}
		switch name {
		case "loading_loaded_bytes":
			bytes = n
		case "loading_total_bytes":
			total = n
		}
	}
	return bytes, total
}

// refusal returns the reason why the server ended before it responded, and the cure.
func (r *Redis) refusal(c *child) error {
	err := fmt.Errorf("%s ended: %w", filepath.Base(r.program), c.death())
	if !c.output.damaged() {
		return err
	}
	check := strings.Replace(filepath.Base(r.program), "-server", "-check-aof", 1)
	manifest := filepath.Join(r.dir, "appendonlydir", "appendonly.aof.manifest")
	return fmt.Errorf("%w; its append-only file is damaged: copy %s, then run %s --fix %s, which removes the changes after the damage", err, r.dir, check, manifest)
}

var errLoading = errors.New("it loads its file")

// query sends one command on a connection of its own and returns the text of the
// response. It does not use a client of Redis, because the client would wait between its
// retries while the server starts, and would send commands that a loading server refuses.
func query(ctx context.Context, socket, command string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", socket)
	if err != nil {
		return "", err
	}
	defer conn.Close() //nolint:errcheck // it was only read
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })()
	if _, err := io.WriteString(conn, command+"\r\n"); err != nil {
		return "", err
	}
	answer := bufio.NewReader(conn)
	line, err := answer.ReadString('\n')
	if err != nil {
		return "", err
	}
	line = strings.TrimSpace(line)
	switch {
	case strings.HasPrefix(line, "-LOADING"):
		return "", errLoading
	case strings.HasPrefix(line, "$"):
		length, err := strconv.Atoi(line[1:])
		if err != nil || length < 0 {
			return "", fmt.Errorf("unexpected answer %q", line)
		}
		text := make([]byte, length)
		_, err = io.ReadFull(answer, text)
		return string(text), err
	case strings.HasPrefix(line, "+"):
		return line[1:], nil
	}
	return "", errors.New(strings.TrimPrefix(line, "-"))
}

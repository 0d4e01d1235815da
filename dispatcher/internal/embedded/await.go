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

	"github.com/hookladder/hookladder/ladder"
)

const (
	pollEvery = 20 * time.Millisecond // a server with nothing to load answers after some 20 ms
	stallMost = time.Minute           // without a byte more loaded; a file of 1 GiB takes some ten seconds
	askWithin = time.Second           // it is on this machine
)

// await returns when the server answers for the first time.
func (r *Redis) await(ctx context.Context, c *child) error {
	told, loaded, progress := false, int64(-1), time.Now()
	for {
		_, err := ask(ctx, r.socket, "PING")
		if err == nil {
			return nil
		}
		if errors.Is(err, errLoading) {
			bytes, total := r.loading(ctx)
			if !told {
				r.o.Log.Info("embedded redis loads its file", "bytes", total)
				told = true
			}
			if bytes > loaded {
				loaded, progress = bytes, time.Now()
			}
		}
		if time.Since(progress) > stallMost {
			return fmt.Errorf("%s makes no progress since %s: %w", filepath.Base(r.program), ladder.FormatDuration(stallMost), err)
		}
		select {
		case <-c.exited:
			return r.refusal(c)
		default:
		}
		if err := pause(ctx, pollEvery); err != nil {
			return fmt.Errorf("wait for %s: %w", filepath.Base(r.program), err)
		}
	}
}

// loading is how many bytes of its file the server has read; -1: it does not tell.
func (r *Redis) loading(ctx context.Context) (bytes, total int64) {
	bytes, total = -1, -1
	text, err := ask(ctx, r.socket, "INFO persistence")
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

// refusal is why the server ended before it answered, and what helps.
func (r *Redis) refusal(c *child) error {
	err := fmt.Errorf("%s ended: %w", filepath.Base(r.program), c.death())
	if !c.output.damaged() {
		return err
	}
	check := strings.Replace(filepath.Base(r.program), "-server", "-check-aof", 1)
	manifest := filepath.Join(r.dir, "appendonlydir", "appendonly.aof.manifest")
	return fmt.Errorf("%w; its append-only file is damaged: copy %s, then run %s --fix %s, which cuts what follows the damage", err, r.dir, check, manifest)
}

var errLoading = errors.New("it is loading")

// ask asks the server one thing, on a connection of its own, and answers its
// words. The server may not be there yet, or may know few commands yet: a client
// of Redis would wait between its attempts.
func ask(ctx context.Context, socket, command string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", socket)
	if err != nil {
		return "", err
	}
	defer conn.Close() //nolint:errcheck // it was only asked
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

package redisq_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// front is a proxy to a server that answers some commands itself. It stands for
// a real proxy, or for a node in a state that a test can't bring about.
type front struct {
	target string
	answer func(command []string) string // in the form of the protocol; empty: the server answers
	addr   string
	open   sync.WaitGroup
}

// newFront listens in front of a server until the test ends. answer may be
// called by several connections at the same time.
func newFront(t testing.TB, target string, answer func(command []string) string) *front {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	f := &front{target: target, answer: answer, addr: ln.Addr().String()}
	var mu sync.Mutex // guards lines
	var lines []net.Conn
	t.Cleanup(func() {
		_ = ln.Close()
		mu.Lock()
		for _, line := range lines {
			_ = line.Close()
		}
		mu.Unlock()
		f.open.Wait()
	})
	f.open.Go(func() {
		for {
			near, err := ln.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", target)
			if err != nil {
				_ = near.Close()
				continue
			}
			mu.Lock()
			lines = append(lines, near, far)
			mu.Unlock()
			f.open.Go(func() {
				_ = f.serve(near, far) // ends with either side
				_ = near.Close()
				_ = far.Close()
			})
		}
	})
	return f
}

// url is the address of the front.
func (f *front) url() string { return "redis://" + f.addr }

// serve handles one command after another.
func (f *front) serve(near, far net.Conn) error {
	in, back := bufio.NewReader(near), bufio.NewReader(far)
	for {
		command, raw, err := readCommand(in)
		if err != nil {
			return err
		}
		reply := f.answer(command)
		if reply == "" {
			if _, err := io.WriteString(far, raw); err != nil {
				return err
			}
			if reply, err = readReply(back); err != nil {
				return err
			}
		}
		if _, err := io.WriteString(near, reply); err != nil {
			return err
		}
	}
}

// readCommand reads a list of texts. raw is the form in which it was sent.
func readCommand(r *bufio.Reader) (words []string, raw string, err error) {
	head, err := r.ReadString('\n')
	if err != nil {
		return nil, "", err
	}
	n, err := strconv.Atoi(strings.TrimSpace(head[1:]))
	if err != nil {
		return nil, "", fmt.Errorf("command %q: %w", head, err)
	}
	raw = head
	for range n {
		text, err := readReply(r)
		if err != nil {
			return nil, "", err
		}
		raw += text
		_, word, _ := strings.Cut(text, "\r\n")
		words = append(words, strings.TrimSuffix(word, "\r\n"))
	}
	words[0] = strings.ToUpper(words[0])
	return words, raw, nil
}

// readReply reads one value in the form in which it was sent.
func readReply(r *bufio.Reader) (string, error) {
	head, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	n, _ := strconv.Atoi(strings.TrimSpace(head[1:])) // of the kinds with a length
	switch head[0] {
	case '$', '=', '!':
		if n < 0 {
			return head, nil
		}
		body := make([]byte, n+2)
		_, err = io.ReadFull(r, body)
		return head + string(body), err
	case '%':
		n *= 2
	case '*', '~', '>':
	default:
		return head, nil
	}
	var all strings.Builder
	all.WriteString(head)
	for range n {
		part, err := readReply(r)
		if err != nil {
			return "", err
		}
		all.WriteString(part)
	}
	return all.String(), nil
}

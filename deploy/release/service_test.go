//go:build ship

package release_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// secret signs the callbacks of these tests, and key is a key of the API.
const (
	secret = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
	key    = "kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk"
)

// killedAfter is the longest stop that the unit and the image allow.
const killedAfter = 50 * time.Second

// freePort returns the address of a port of this machine.
func freePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

// A receiver keeps the ids of the callbacks that it got.
type receiver struct {
	*httptest.Server
	mu  sync.Mutex
	ids []string // guarded by mu
}

func newReceiver(t testing.TB) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.ids = append(r.ids, req.Header.Get("webhook-id"))
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) got(id string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, one := range r.ids {
		if one == id {
			n++
		}
	}
	return n
}

// A service is a running `hookladder serve`.
type service struct {
	url   string
	cmd   *exec.Cmd
	log   *buffer
	ended chan error
}

// buffer is written by a process while a test reads it.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// start runs a command that serves the API at address, and waits until it is ready.
func start(t testing.TB, cmd *exec.Cmd, address string) *service {
	t.Helper()
	s := &service{url: "http://" + address, cmd: cmd, log: &buffer{}, ended: make(chan error, 1)}
	cmd.Stdout, cmd.Stderr = s.log, s.log
	require.NoError(t, cmd.Start())
	go func() { s.ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-s.ended
	})
	until(t, func() error {
		select {
		case err := <-s.ended:
			s.ended <- err
			require.Fail(t, "it ended", "%v\n%s", err, s.log)
		default:
		}
		_, err := s.call(http.MethodGet, "/readyz", "")
		return err
	})
	return s
}

// stop sends SIGTERM. The process has to end in order before it would be killed.
func (s *service) stop(t testing.TB) {
	t.Helper()
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case err := <-s.ended:
		s.ended <- err
		require.NoError(t, err, "%s", s.log)
	case <-time.After(killedAfter):
		require.Fail(t, "it does not stop", "%s", s.log)
	}
}

// call returns the body of a response with status 2xx.
func (s *service) call(method, path, body string) (string, error) {
	req, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err == nil && res.StatusCode/100 != 2 {
		err = fmt.Errorf("%s %s: %s: %s", method, path, res.Status, text)
	}
	return string(text), err
}

// deliver publishes a message, and waits until the receiver has it and the API knows that.
func (s *service) deliver(t testing.TB, r *receiver, id string) {
	t.Helper()
	_, err := s.call(http.MethodPost, "/v1/messages", fmt.Sprintf(`{"id":%q,"topic":"order.paid","url":%q,"body":{"n":1}}`, id, r.URL+"/hooks"))
	require.NoError(t, err)
	until(t, func() error { return s.delivered(id) })
	require.Equal(t, 1, r.got(id))
}

// delivered returns an error if a message is not delivered.
func (s *service) delivered(id string) error {
	text, err := s.call(http.MethodGet, "/v1/messages/"+id, "")
	if err == nil && !strings.Contains(text, `"status":"delivered"`) {
		err = fmt.Errorf("%s is not delivered: %s", id, text)
	}
	return err
}

// processStatus returns a line of the kernel's description of the process.
func (s *service) processStatus(t testing.TB, name string) []string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) > 0 && words[0] == name+":" {
			return words[1:]
		}
	}
	require.Fail(t, "the kernel does not report "+name)
	return nil
}

// until polls as long as something fails.
func until(t testing.TB, try func() error) {
	t.Helper()
	untilWithin(t, patience, try)
}

func untilWithin(t testing.TB, most time.Duration, try func() error) {
	t.Helper()
	end := time.After(most)
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-end:
			require.NoError(t, err)
		case <-poll.C:
		}
	}
}

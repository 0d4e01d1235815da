// Command miniserver runs miniredis for tests, in a process of its own. Tests
// are built with the race detector, which makes scripts in miniredis several
// times slower; this program is built without it.
//
// It reads one command a line and answers each with a line: "start" with the
// address of a new miniredis, "close ADDRESS" and "restart ADDRESS" with "ok". A
// command that fails is answered with "error: " and the reason. It ends with its
// standard input.
package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"github.com/alicebob/miniredis/v2"
)

func main() {
	servers := map[string]*miniredis.Miniredis{}
	commands := bufio.NewScanner(os.Stdin)
	for commands.Scan() {
		answer, err := run(servers, commands.Text())
		if err != nil {
			answer = "error: " + err.Error()
		}
		fmt.Println(answer)
	}
}

func run(servers map[string]*miniredis.Miniredis, command string) (answer string, err error) {
	verb, address, _ := strings.Cut(command, " ")
	if verb == "start" {
		m := miniredis.NewMiniRedis()
		if err := m.Start(); err != nil {
			return "", err
		}
		servers[m.Addr()] = m
		return m.Addr(), nil
	}
	m := servers[address]
	switch {
	case m == nil:
		return "", fmt.Errorf("no server at %q", address)
	case verb == "close":
		m.Close() // it keeps what it holds, for a restart
	case verb == "restart":
		m.Close()
		return "ok", m.Restart()
	default:
		return "", fmt.Errorf("unknown command %q", verb)
	}
	return "ok", nil
}

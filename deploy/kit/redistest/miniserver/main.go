// Command miniserver runs miniredis for tests in a process of its own. It is built
// without the race detector, because the race detector makes miniredis's scripts
// several times slower.
//
// It reads one command per line and returns one line for each. "start" returns the
// address of a new miniredis. "close ADDRESS" and "restart ADDRESS" return "ok". If a
// command fails, it returns "error: " with the reason. It exits when its standard
// input ends.
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
		m.Close() // keeps its data for a restart
	case verb == "restart":
		m.Close()
		return "ok", m.Restart()
	default:
		return "", fmt.Errorf("unknown command %q", verb)
	}
	return "ok", nil
}

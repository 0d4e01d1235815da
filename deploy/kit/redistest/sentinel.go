package redistest

import (
	"errors"
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
)

// Sentinels watch a master and replace it by a replica when it is down.
type Sentinels struct {
	t     testing.TB
	nodes []*Server
	name  string
}

// StartSentinels starts n sentinels that watch master under a name. Its replicas must
// already run. It returns when the sentinels know each other and the replicas. They
// count a master as down when it has not replied for a second. They end with the
// test.
func StartSentinels(t testing.TB, master *Server, n int, name string) *Sentinels {
	t.Helper()
	Long(t)
	s := &Sentinels{t: t, name: name}
	s.nodes = startAll(t, n, kit.RedisOptions{Bare: true, TLS: master.TLS, Args: []string{"--sentinel"}, Settings: []string{
		fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d %d", name, master.LinkPort(), n/2+1),
		"sentinel down-after-milliseconds " + name + " 1000",
		"sentinel failover-timeout " + name + " 5000",
	}})
	require.NoError(t, until("sentinels know each other and the replicas", func() (bool, error) {
		replicas, err := master.info("replication", "connected_slaves")
		if err != nil {
			return false, err
		}
		for _, node := range s.nodes {
			fields, err := node.master(name)
			if err != nil {
				return false, err
			}
			if fields["num-other-sentinels"] != strconv.Itoa(n-1) || fields["num-slaves"] != replicas || fields["flags"] != "master" {
				return false, fmt.Errorf("%s knows %s other sentinels and %s replicas of a %s",
					node.Addr(), fields["num-other-sentinels"], fields["num-slaves"], fields["flags"])
			}
		}
		return true, nil
	}))
	return s
}

// master returns the fields that a sentinel reports for a master.
func (s *Server) master(name string) (map[string]string, error) {
	v, err := s.ask("SENTINEL", "MASTER", name)
	if err != nil {
		return nil, err
	}
	fields := map[string]string{}
	switch v := v.(type) {
	case map[any]any:
		for key, value := range v {
			fields[fmt.Sprint(key)] = fmt.Sprint(value)
		}
	case []any:
		for i := 0; i+1 < len(v); i += 2 {
			fields[fmt.Sprint(v[i])] = fmt.Sprint(v[i+1])
		}
	}
	return fields, nil
}

// URL returns a URL with all sentinels in the format of REDIS_URL.
func (s *Sentinels) URL() string { return kit.URLOf(redisOf(s.nodes)) }

// Name returns the name of the master at the sentinels.
func (s *Sentinels) Name() string { return s.name }

// Nodes returns the servers of the sentinels.
func (s *Sentinels) Nodes() []*Server { return s.nodes }

// Master returns the address of the master now, as host:port.
func (s *Sentinels) Master() string {
	s.t.Helper()
	addr, err := s.addr()
	require.NoError(s.t, err)
	return addr
}

// addr queries the sentinels in turn.
func (s *Sentinels) addr() (string, error) {
	var errs []error
	for _, node := range s.nodes {
		fields, err := node.master(s.name)
		if err == nil {
			return fields["ip"] + ":" + fields["port"], nil
		}
		errs = append(errs, err)
	}
	return "", errors.Join(errs...)
}

// WaitMaster polls until all sentinels report a master at another address than than. It
// returns the new address.
func (s *Sentinels) WaitMaster(than string) (addr string) {
	s.t.Helper()
	require.NoError(s.t, until("another master", func() (bool, error) {
		addr = ""
		for _, node := range s.nodes {
			fields, err := node.master(s.name)
			if err != nil {
				continue // down
			}
			named := fields["ip"] + ":" + fields["port"]
			if named == than || addr != "" && named != addr {
				return false, fmt.Errorf("%s names %s", node.Addr(), named)
			}
			addr = named
		}
		return addr != "", nil
	}))
	return addr
}

// Failover makes a replica the master in order, and returns its address. The old
// master continues as a master until a sentinel reconfigures it, about 10 s later.
func (s *Sentinels) Failover() string {
	s.t.Helper()
	before := s.Master()
	require.NoError(s.t, until("failover", retrying(func() error {
		// A sentinel refuses if it has not heard of a replica for some
		// seconds.
		_, err := s.nodes[0].ask("SENTINEL", "FAILOVER", s.name)
		return err
	}, func() (bool, error) {
		now, err := s.addr()
		return err == nil && now != before, err
	})))
	return s.WaitMaster(before)
}

package redistest

import (
	"context"
	"os"
	"path/filepath"

	"github.com/stretchr/testify/require"
)

// FillDisk puts the server's append-only file on a full disk: /dev/full accepts no
// byte. This needs no right. The server still responds, but it refuses changes after
// the first change that it could not write.
func (s *Server) FillDisk() {
	s.t.Helper()
	ctx := context.Background()
	dirs, err := s.Client.ConfigGet(ctx, "*dir*").Result()
	require.NoError(s.t, err)
	s.FreeDisk()
	// The server creates its next file under this name, and follows the link.
	next := filepath.Join(dirs["dir"], dirs["appenddirname"], "temp-appendonly.aof.incr")
	require.NoError(s.t, os.Symlink("/dev/full", next))
	require.NoError(s.t, s.Client.ConfigSet(ctx, "appendonly", "yes").Err())
	require.NoError(s.t, until("the disk is full", func() (bool, error) {
		return s.Client.Set(ctx, "full", 1, 0).Err() != nil, nil
	}))
}

// FreeDisk turns off the server's append-only file, so that it accepts changes again.
func (s *Server) FreeDisk() {
	s.t.Helper()
	ctx := context.Background()
	require.NoError(s.t, s.Client.ConfigSet(ctx, "appendonly", "no").Err())
	require.NoError(s.t, until("the disk has room", func() (bool, error) {
		return s.Client.Del(ctx, "full").Err() == nil, nil
	}))
}

package admin_test

import (
	"testing"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

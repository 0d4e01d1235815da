package wait_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/internal/wait"
)

func TestAnInstanceIsDeadWhenItsNumberStoodStillInPunctualReadings(t *testing.T) {
	type numbers = map[string]int64
	const on, late = time.Second, 2*time.Second + time.Millisecond
	for name, c := range map[string]struct {
		since    []time.Duration
		readings []numbers
		dead     []string // after the last reading
		grown    []string // in any of them
		decided  bool
	}{
		"after as many readings as it takes":          {[]time.Duration{0, on, on}, []numbers{{"a": 1}, {"a": 1}, {"a": 1}}, []string{"a"}, nil, true},
		"not one reading sooner":                      {[]time.Duration{0, on}, []numbers{{"a": 1}, {"a": 1}}, nil, nil, false},
		"not where it grew":                           {[]time.Duration{0, on, on}, []numbers{{"a": 1}, {"a": 2}, {"a": 2}}, nil, []string{"a"}, true},
		"also where it is below what it was":          {[]time.Duration{0, on, on}, []numbers{{"a": 2}, {"a": 1}, {"a": 1}}, nil, []string{"a"}, true},
		"a late reading proves nothing":               {[]time.Duration{0, on, late}, []numbers{{"a": 1}, {"a": 1}, {"a": 1}}, nil, nil, false},
		"it is counted anew from a late one on":       {[]time.Duration{0, late, on, on}, []numbers{{"a": 1}, {"a": 1}, {"a": 1}, {"a": 1}}, []string{"a"}, nil, true},
		"one that grows is seen in a late one too":    {[]time.Duration{0, late}, []numbers{{"a": 1}, {"a": 2}}, nil, []string{"a"}, false},
		"one that comes later is alive":               {[]time.Duration{0, on, on}, []numbers{{"a": 1}, {"a": 1, "b": 1}, {"a": 1, "b": 1}}, []string{"a"}, []string{"b"}, true},
		"one that went and came back is counted anew": {[]time.Duration{0, on, on, on}, []numbers{{"a": 1}, {}, {"a": 1}, {"a": 1}}, nil, []string{"a"}, true},
		"where there is none it is decided at once":   {[]time.Duration{0}, []numbers{{}}, nil, nil, true},
		"where all grew it is decided":                {[]time.Duration{0, on}, []numbers{{"a": 1, "b": 1}, {"a": 2, "b": 2}}, nil, []string{"a", "b"}, true},
		"where one did not grow it is not":            {[]time.Duration{0, on}, []numbers{{"a": 1, "b": 1}, {"a": 2, "b": 1}}, nil, []string{"a"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := wait.NewPulses(time.Second, 2)
			var grown, dead []string
			for i, numbers := range c.readings {
				var more []string
				more, dead = p.Read(numbers, c.since[i])
				grown = append(grown, more...)
			}
			slices.Sort(grown)
			slices.Sort(dead)
			require.Equal(t, c.dead, dead)
			require.Equal(t, c.grown, grown)
			require.Equal(t, c.decided, p.Decided())
			require.Equal(t, c.decided && len(c.since) > 2, p.Complete(), "it may be decided sooner")
		})
	}
}

// An instance stops by itself before its peers find it dead, and these do so
// before the tools that a person runs.
func TestAnInstanceStopsBeforeAnotherTakesOver(t *testing.T) {
	require.Less(t, wait.BeatOld, wait.DeadReadings*wait.BeatEvery)
	require.Less(t, wait.DeadReadings*wait.BeatEvery, wait.DeadFor)
}

package conn

import "fmt"

// Mark is the progress of a repartition.
type Mark struct {
	From, To int
	Phase    Phase
}

// Phase is a part of a repartition. Each may be repeated, but not after the next one has
// begun.
type Phase int

// The phases, in order.
const (
	PhaseBegin Phase = iota // nothing has changed yet
	PhaseIDs                // known ids are copied to the partitions that may need them
	PhaseMove               // the data of lanes are moved
	PhaseCount              // counts are written again, and leftovers removed
)

// Phases are their names.
var Phases = [...]string{"begin", "ids", "move", "count"}

// String returns the name of the phase.
func (p Phase) String() string { return Phases[p] }

// String returns the text of a mark.
func (m Mark) String() string { return fmt.Sprintf("%d %d %s", m.From, m.To, m.Phase) }

// parseMark parses the text of a mark.
func parseMark(text string) (Mark, error) {
	var m Mark
	var word string
	if _, err := fmt.Sscanf(text, "%d %d %s", &m.From, &m.To, &word); err == nil && m.From > 0 && m.To > 0 {
		for p, name := range Phases {
			if name == word {
				m.Phase = Phase(p)
				return m, nil
			}
		}
	}
	return m, fmt.Errorf("its mark of a repartition is %q, which this version does not know", text)
}

// underWay returns an error while a repartition has not ended, because some deliveries
// are in partitions that no instance would poll.
func underWay(meta Meta) error {
	m, marked, err := meta.Mark()
	if err != nil || !marked {
		return err
	}
	if m.Phase == PhaseBegin {
		return fmt.Errorf("a repartition from %d to %d partitions was begun, and moved nothing yet: wait for it, run hookladder repartition --to %d again, or give it up with --to %d",
			m.From, m.To, m.To, m.From)
	}
	return fmt.Errorf("a repartition from %d to %d partitions has not ended: run hookladder repartition --to %d again", m.From, m.To, m.To)
}

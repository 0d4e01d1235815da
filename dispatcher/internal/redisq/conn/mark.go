package conn

import "fmt"

// Mark is how far a repartition came.
type Mark struct {
	From, To int
	Phase    Phase
}

// Phase is a part of a repartition. Each may be done again, but not after the next
// one has begun.
type Phase int

// The phases, in their order.
const (
	PhaseBegin Phase = iota // nothing was changed yet
	PhaseIDs                // known ids are copied to where they may be asked for
	PhaseMove               // what belongs to lanes is moved
	PhaseCount              // counts are made anew, what is left over goes
)

// Phases are their words.
var Phases = [...]string{"begin", "ids", "move", "count"}

// String is the phase's word.
func (p Phase) String() string { return Phases[p] }

// String is the text of a mark.
func (m Mark) String() string { return fmt.Sprintf("%d %d %s", m.From, m.To, m.Phase) }

// ParseMark reads the text of a mark.
func ParseMark(text string) (Mark, error) {
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

// underWay refuses a project while a repartition of it has not ended: some of its
// deliveries lie in partitions where no instance would look.
func underWay(meta map[string]string) error {
	text := meta[MetaRepartition]
	if text == "" {
		return nil
	}
	m, err := ParseMark(text)
	if err != nil {
		return err
	}
	if m.Phase == PhaseBegin {
		return fmt.Errorf("a repartition from %d to %d partitions was begun, and moved nothing yet: wait for it, run hookladder repartition --to %d again, or give it up with --to %d",
			m.From, m.To, m.To, m.From)
	}
	return fmt.Errorf("a repartition from %d to %d partitions has not ended: run hookladder repartition --to %d again", m.From, m.To, m.To)
}

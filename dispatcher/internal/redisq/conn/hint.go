package conn

import (
	"strconv"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/partitions"
)

// Hint reads now (microseconds), due (ms) and weight, with which every answer
// begins. Where deliveries died the weight is a text, followed by a line for each.
func (r *Reply) Hint(partition int) partitions.Hint {
	h := partitions.Hint{Partition: partition}
	h.Now = time.UnixMicro(r.Number()).UTC()
	h.Due = r.Time()
	weight, died, any := strings.Cut(r.Text(), "\n")
	n, err := strconv.Atoi(weight)
	if err != nil {
		r.Err = ErrReply
	}
	h.Weight = n
	if any {
		h.Dead = r.deaths(died)
	}
	return h
}

// HintIf is Hint of a reply that is not an error, else nil.
func (r *Reply) HintIf(partition int) *partitions.Hint {
	if r.Err != nil {
		return nil
	}
	h := r.Hint(partition)
	if r.Err != nil {
		return nil
	}
	return &h
}

// deaths reads a line for each delivery that died: attempts, reason, delivery. A
// name that is no delivery's, since a person wrote it, is passed over.
func (r *Reply) deaths(text string) (died []dispatcher.Death) {
	for line := range strings.SplitSeq(text, "\n") {
		words := strings.SplitN(line, " ", 3)
		if len(words) != 3 {
			continue
		}
		attempts, err := strconv.Atoi(words[0])
		if err != nil {
			r.Err = ErrReply
			return nil
		}
		if id, ok := dispatcher.ParseDeliveryID(words[2]); ok {
			died = append(died, dispatcher.Death{ID: id, Reason: dispatcher.DeadReason(words[1]), Attempts: attempts})
		}
	}
	return died
}

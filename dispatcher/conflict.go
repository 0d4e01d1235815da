package dispatcher

import "context"

// conflictsTold is of how many conflicts of one batch it is told what differs:
// each costs the store a record of up to 16 KiB.
const conflictsTold = 64

// tellConflicts finds out what differs between messages that are refused and
// those that have their ids. Where the store does not tell, it stays unsaid.
func (d *Dispatcher) tellConflicts(ctx context.Context, all []addressed, out []Published) {
	var batch []Entry
	var at []int
	for i := range out {
		if out[i].Result == Conflict && out[i].Err == nil && len(at) < conflictsTold {
			batch, at = append(batch, all[i].entry), append(at, i)
		}
	}
	if len(at) == 0 {
		return
	}
	kept, err := d.engine.queue.Kept(ctx, batch)
	for k, i := range at {
		if err == nil && kept[k] != nil {
			out[i].Differs = batch[k].Message.differs(kept[k])
		}
	}
}

// differs names what of the content of a message is not as in another one. A
// body is compared by the digest alone, since a large one was not read.
func (m *Message) differs(kept *Message) (names []string) {
	same := *m
	for _, part := range []struct {
		name string
		to   *string
		is   string
	}{
		{"topic", &same.Topic, kept.Topic}, {"tenant", &same.Tenant, kept.Tenant},
		{"destination", &same.URL, kept.URL}, {"destination", &same.Endpoint, kept.Endpoint},
		{"content_type", &same.ContentType, kept.ContentType},
	} {
		if *part.to != part.is && (len(names) == 0 || names[len(names)-1] != part.name) {
			names = append(names, part.name)
		}
		*part.to = part.is
	}
	if same.Digest() != kept.Digest() {
		names = append(names, "body")
	}
	return names
}

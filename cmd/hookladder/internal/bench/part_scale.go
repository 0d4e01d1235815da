package bench

import "context"

const (
	scaleMessages, scaleMessagesQuick = 10_000, 2000
	scaleRatio                        = "scale: three masters ÷ one server"
)

// scalePart measures the cost of a delivery for a cluster, all its nodes together, and
// compares it with one server. Other stores are one server with more partitions, one of them
// with as many as the cluster. They show that the partitions cause the cost, because one call
// of a script becomes many calls.
func scalePart() part {
	stores := []struct {
		name string
		o    storeOptions
		env  []string
		site *site
	}{
		{name: "one server"},
		{name: "one server with 2 partitions", env: []string{"PARTITIONS=2"}},
		{name: "one server with 4 partitions", env: []string{"PARTITIONS=4"}},
		{name: "one server with 128 partitions", env: []string{"PARTITIONS=128"}},
		{name: "three masters", o: storeOptions{cluster: true}},
	}
	return part{
		name:  "scale",
		about: "Redis' CPU time for a delivery through due on a cluster of three masters, against one server",
		prepare: func(ctx context.Context, l *lab) (err error) {
			for i := range stores {
				st := &stores[i]
				if st.site, err = newSite(ctx, l, st.o, st.env...); err != nil {
					return err
				}
				if err := st.site.warm(ctx, many); err != nil {
					return err
				}
			}
			return nil
		},
		measure: func(ctx context.Context, _ *lab, s *sample) error {
			costs := make([]float64, len(stores))
			for i, st := range stores {
				err := st.site.again(func() (err error) {
					costs[i], err = st.site.dueCost(ctx)
					return err
				})
				if err != nil {
					return err
				}
				s.add("scale: "+st.name, "µs", costs[i])
			}
			s.add(scaleRatio, "", costs[len(costs)-1]/costs[0])
			return nil
		},
	}
}

// dueCost delivers messages with one due time. It returns the Redis CPU time of one
// message from the publish on, in microseconds.
func (w *site) dueCost(ctx context.Context) (float64, error) {
	n := w.lab.size(scaleMessages, scaleMessagesQuick)
	before, err := w.store.cpu(ctx)
	if err != nil {
		return 0, err
	}
	if err := w.deliverDue(ctx, n, many); err != nil {
		return 0, err
	}
	after, err := w.store.cpu(ctx)
	return (after - before) / float64(n), err
}

package admin

import (
	"context"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
)

// ExamineAmong examines a store where wait is called between two readings of the
// instances.
func ExamineAmong(ctx context.Context, s *redisq.Store, e Examination, wait func()) (Examined, error) {
	d := newDoctor(newStore(s), e)
	d.wait = func(context.Context, time.Duration) bool { wait(); return true }
	err := d.examine(ctx)
	return d.out, err
}

// ExamineLate examines a store where meanwhile is called after the instances
// were read, and before anything else.
func ExamineLate(ctx context.Context, s *redisq.Store, e Examination, meanwhile func()) (Examined, error) {
	d := newDoctor(newStore(s), e)
	d.wait = func(context.Context, time.Duration) bool { meanwhile(); return true }
	if err := d.readKeys(ctx); err != nil {
		return d.out, err
	}
	meanwhile()
	err := d.examinePartitions(ctx)
	return d.out, err
}

// CompareIndexes compares, and repairs, the indexes with a record as it was read.
func CompareIndexes(ctx context.Context, s *redisq.Store, id, stored string) error {
	d := newDoctor(newStore(s), Examination{Fix: true})
	_, err := d.s.conn.RunHome(ctx, endpointIndexScript, append([]any{1}, d.indexOf(id, stored)...)...)
	return err
}

// Hooked has a repartition's commands pass a hook.
func (o RepartitionOptions) Hooked(h redis.Hook) RepartitionOptions {
	o.hook = h
	return o
}

// Paged has a repartition move so many entries at a time, and one message.
func (o RepartitionOptions) Paged(entries int) RepartitionOptions {
	o.page, o.bytes = entries, 1
	return o
}

// EndpointScripts are the texts of the scripts that compare the indexes of endpoints.
var EndpointScripts = map[string]string{"index": lua("endpoint_index"), "astray": lua("endpoint_astray")}

// ScriptTexts are the texts of all scripts by their names, but for those of endpoints.
func ScriptTexts() map[string]string {
	texts := map[string]string{}
	for _, sc := range []conn.Script{
		walkScript, judgeScript, recordsScript, lanesScript, countScript, addScript, valuesScript, putRecordScript, shelvesScript, tornScript,
		pageScript, putScript, keepScript, endsScript, restoreHoldScript, restoreKnownScript, restorePutScript, jobTurnScript, jobPageScript,
	} {
		texts[sc.Name] = sc.Text()
	}
	return texts
}

// MendTorn repairs the torn partitions once, and reports whether there are others.
func MendTorn(ctx context.Context, s *redisq.Store, by string) (more bool) {
	m := mender{s: s, by: by, log: slog.New(slog.DiscardHandler)}
	return m.mend(ctx)
}

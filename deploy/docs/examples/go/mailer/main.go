// Mailer sends mail from one queue, with a handler for each kind of task, as programs with asynq do:
// a mux, middleware, ids that recognize a repeat, and a daily task.
//
//	REDIS_URL=redis://127.0.0.1:6379 go run ./deploy/docs/examples/go/mailer
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"time"

	"github.com/hookladder/hookladder/dispatcher/queue"
)

// Welcome is the body of a mail.welcome task.
type Welcome struct{ User int }

// Digest is the body of a mail.digest task.
type Digest struct{ Day string }

// SendFunc sends a mail.
type SendFunc func(ctx context.Context, to, text string) error

// ErrNoAddress is returned by a SendFunc for an address that will never work.
var ErrNoAddress = errors.New("no such address")

// Mailer sends the mails of a queue.
type Mailer struct {
	queue *queue.Queue
	send  SendFunc
}

// New registers the handlers and the daily digest.
func New(q *queue.Queue, send SendFunc) *Mailer {
	m := &Mailer{queue: q, send: send}
	var mux queue.Mux
	mux.Handle("mail.welcome", queue.Typed(m.welcome))
	mux.Handle("mail.digest", queue.Typed(m.digest))
	q.Use(logged, permanent)
	q.Handle("mail", mux.Serve, queue.Workers(8))
	q.Every("digest", tomorrow, func(at time.Time) queue.Task {
		return queue.Task{Queue: "mail", Topic: "mail.digest", Body: Digest{at.Format(time.DateOnly)}, ExpiresAt: at.Add(12 * time.Hour)}
	})
	return m
}

// tomorrow returns 7:00 of the next day.
func tomorrow(t time.Time) time.Time {
	at := time.Date(t.Year(), t.Month(), t.Day(), 7, 0, 0, 0, time.UTC)
	if !at.After(t) {
		at = at.AddDate(0, 0, 1)
	}
	return at
}

// Joined publishes the mail to a new user. A repeat of the call sends no second mail.
func (m *Mailer) Joined(ctx context.Context, user int) error {
	_, err := m.queue.Publish(ctx, queue.Task{
		ID: fmt.Sprint("welcome_", user), Queue: "mail", Topic: "mail.welcome", Body: Welcome{user}, Delay: time.Minute, MaxAttempts: 4,
	})
	return err
}

func (m *Mailer) welcome(ctx context.Context, w Welcome, _ queue.Delivery) error {
	return m.send(ctx, fmt.Sprintf("user %d", w.User), "welcome")
}

func (m *Mailer) digest(ctx context.Context, d Digest, _ queue.Delivery) error {
	return m.send(ctx, "all", "digest of "+d.Day)
}

// permanent makes an error that no retry cures end the task.
func permanent(next queue.HandlerFunc) queue.HandlerFunc {
	return func(ctx context.Context, d queue.Delivery) error {
		err := next(ctx, d)
		if errors.Is(err, ErrNoAddress) {
			return queue.SkipRetry(err)
		}
		return err
	}
}

// logged logs each failed attempt.
func logged(next queue.HandlerFunc) queue.HandlerFunc {
	return func(ctx context.Context, d queue.Delivery) error {
		err := next(ctx, d)
		if err != nil {
			slog.InfoContext(ctx, "mail failed", "topic", d.Topic, "attempt", d.Attempt, "of", d.MaxAttempts, "err", err)
		}
		return err
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	q, err := queue.Open(ctx, os.Getenv("REDIS_URL"), queue.Options{
		Project: "mailer",
		OnDead: func(ctx context.Context, d queue.Dead) {
			slog.ErrorContext(ctx, "mail is dead", "id", d.MessageID, "reason", d.Reason, "err", d.LastError)
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	m := New(q, func(_ context.Context, to, text string) error {
		fmt.Println("to", to+":", text)
		return nil
	})
	if err := m.Joined(ctx, 17); err != nil {
		log.Fatal(err)
	}
	if err := q.Run(ctx); err != nil {
		log.Fatal(err)
	}
}

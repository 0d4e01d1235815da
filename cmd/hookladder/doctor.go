package main

import (
	"context"
	"fmt"
	"io"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/app"
)

// doctorRun checks the store, and repairs it with Fix.
type doctorRun struct {
	Fix    bool
	JSON   bool // print one object at the end
	Stdout io.Writer
}

// Run prints the report. It returns an error if a finding remains.
func (r doctorRun) Run(ctx context.Context, o app.Options) error {
	d := &diagnosis{doctorReporter: &textReport{out: r.Stdout}}
	if r.JSON {
		d.doctorReporter = &jsonReport{out: r.Stdout}
	}
	out, err := app.Doctor(ctx, o, r.Fix, d.onStore, d.onFinding)
	if err != nil {
		return err
	}
	if err := d.end(out); err != nil {
		return err
	}
	return d.verdict(out, r.Fix)
}

// doctorReporter prints a diagnosis.
type doctorReporter interface {
	store(i dispatcher.StoreInfo)
	finding(f app.Finding)
	end(out app.Examined) error
}

// diagnosis counts the remaining faults.
type diagnosis struct {
	doctorReporter
	lacking, left, curable int // missing features; findings; findings that --fix repairs
}

func (d *diagnosis) onStore(i dispatcher.StoreInfo) {
	for _, c := range i.Checks {
		if c.Needed && c.Holds == dispatcher.No {
			d.lacking++
		}
	}
	d.store(i)
}

func (d *diagnosis) onFinding(f app.Finding) {
	if !f.Fixed {
		d.left++
		if f.Cure != "" {
			d.curable++
		}
	}
	d.finding(f)
}

// verdict returns an error if a fault remains.
func (d *diagnosis) verdict(out app.Examined, fix bool) error {
	switch {
	case d.lacking > 0:
		return fmt.Errorf("the store lacks %d required features", d.lacking)
	case d.curable > 0 && !fix:
		return fmt.Errorf("%d findings are left; hookladder doctor --fix repairs %d of them", d.left, d.curable)
	case d.left > 0:
		return fmt.Errorf("%d findings are left", d.left)
	case out.Unjudged > 0:
		return fmt.Errorf("the counts of %d partitions changed all the time: try again with less traffic", out.Unjudged)
	}
	return nil
}

// textReport prints a line for each finding at once.
type textReport struct {
	out io.Writer
}

func (r *textReport) store(i dispatcher.StoreInfo) {
	fmt.Fprintf(r.out, "store %s %s, %s, DURABILITY=%s (%s)\n", i.Kind, i.Version, i.Mode, i.Durability, i.Durable)
	for _, c := range i.Checks {
		fmt.Fprintf(r.out, "  %-8s %-12s %s\n", c.Holds, c.Name, c.Detail)
	}
}

func (r *textReport) finding(f app.Finding) {
	where := f.Subject
	if f.Partition >= 0 {
		where = fmt.Sprintf("partition %d: %s", f.Partition, f.Subject)
	}
	fmt.Fprintf(r.out, "%s: %s\n", where, f.What)
	switch {
	case f.Fixed:
		fmt.Fprintf(r.out, "  repaired: %s\n", f.Cure)
	case f.Cure != "":
		fmt.Fprintf(r.out, "  --fix: %s\n", f.Cure)
	}
}

func (r *textReport) end(out app.Examined) error {
	_, err := fmt.Fprintf(r.out, "examined %s messages and %s lanes in %s partitions: %s findings, %s repaired\n",
		commas(out.Messages), commas(out.Lanes), commas(out.Partitions), commas(out.Findings), commas(out.Fixed))
	return err
}

// jsonReport prints one object at the end.
type jsonReport struct {
	out  io.Writer
	text diagnosisJSON
}

// diagnosisJSON is the output of --json.
type diagnosisJSON struct {
	Kind       string        `json:"kind"`
	Version    string        `json:"version"`
	Mode       string        `json:"mode"`
	Nodes      int           `json:"nodes"`
	Durability string        `json:"durability"`
	Durable    string        `json:"durable"`
	WouldLose  string        `json:"would_lose"`
	Checks     []checkJSON   `json:"checks"`
	Findings   []app.Finding `json:"findings"`
	app.Examined
}

type checkJSON struct {
	Name   string `json:"name"`
	Holds  string `json:"holds"`
	Needed bool   `json:"needed"`
	Detail string `json:"detail"`
}

func (r *jsonReport) store(i dispatcher.StoreInfo) {
	r.text = diagnosisJSON{
		Kind: i.Kind, Version: i.Version, Mode: i.Mode, Nodes: i.Nodes, Durability: i.Durability.String(),
		Durable: i.Durable.String(), WouldLose: i.Loses, Checks: []checkJSON{}, Findings: []app.Finding{},
	}
	for _, c := range i.Checks {
		r.text.Checks = append(r.text.Checks, checkJSON{c.Name, c.Holds.String(), c.Needed, c.Detail})
	}
}

func (r *jsonReport) finding(f app.Finding) {
	r.text.Findings = append(r.text.Findings, f)
}

func (r *jsonReport) end(out app.Examined) error {
	r.text.Examined = out
	return printJSON(r.out, r.text)
}

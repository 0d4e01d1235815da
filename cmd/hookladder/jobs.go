package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// deadList is a page of dead deliveries, with counts by reason.
type deadList struct {
	wire.Page
	groups []wire.DeadGroup // nil: the counts do not support the filters
	more   bool             // there are more groups, which are smaller
}

// newDead returns the command that lists dead deliveries, with the one that deletes them below it.
func newDead(s world) *cobra.Command {
	var f filterFlags
	cmd := listCommand[deadList]{
		read: func(cmd *cobra.Command, c *client.Client, _ []string, p pageFlags) (list deadList, err error) {
			if err := f.read(); err != nil {
				return list, err
			}
			if len(f.Topics)+len(f.Subjects)+len(f.SubjectLike)+len(f.SubjectEnds) == 0 && f.span == (spanFlags{}) && p.cursor == "" {
				counted, err := c.Dead(cmd.Context(), client.DeadFilter{Tenants: f.Tenants, Destinations: f.Destinations, Reasons: f.Reasons, Limit: client.MaxPage})
				if err != nil {
					return list, err
				}
				list.groups, list.more = counted.Data, counted.NextCursor != nil
			}
			f.Statuses, f.Limit, f.Cursor = []string{"dead"}, p.limit, p.cursor
			list.Page, err = c.Deliveries(cmd.Context(), f.Filter)
			return list, err
		},
		table: func(out io.Writer, list deadList) {
			printReasons(out, list.groups, list.more)
			printDead(out, list.Data)
		},
		json: func(out io.Writer, list deadList) error { return printJSON(out, list.Page) },
		next: func(list deadList) *string { return list.NextCursor },
	}.on(&cobra.Command{
		Use:   "dead",
		Short: "List dead deliveries, the newest first, or purge them",
		Long: `Lists dead deliveries, the newest first. A delivery is dead if its last attempt failed,
if it expired, or if its endpoint was disabled. It is stored for DEAD_RETENTION, and
"hookladder retry" sends it again.

Before the list it prints for each reason how many deliveries are dead, to how many
destinations, and when the newest one died. With --topic, --subject, --subject-like,
--subject-ends, --since, --until or --cursor it prints no counts.`,
		Example: `  hookladder dead --destination shop-42
  hookladder dead --dead-reason exhausted --since 24h`,
		Args: noArgs,
	}, s)
	f.add(cmd, "only deliveries that died", append(jobFilters, "subject_like", "subject_ends")...)
	cmd.AddCommand(newDeadPurge(s))
	return cmd
}

// jobCommand starts a job. At a terminal it counts the deliveries, asks, and shows the
// progress.
type jobCommand struct {
	kind    client.JobKind
	verb    string // for the question
	filters filterFlags
	request wire.JobRequest
	yes     bool
	total   int  // matching deliveries
	resume  bool // close open breakers first
}

func newDeadPurge(s world) *cobra.Command {
	j := &jobCommand{kind: client.JobPurge, verb: "Forget"}
	return j.on(&cobra.Command{
		Use:   "purge",
		Short: "Delete dead deliveries, by filter",
		Long: `Deletes the dead deliveries that match the filters. They can't be restored. The ids of
their messages are kept for RETENTION, so a repeated publish is still a duplicate. It
starts a job, as retry with filters does.`,
		Example: `  hookladder dead purge --destination shop-42
  hookladder dead purge --until 720h --yes`,
		Args: noArgs,
	}, s)
}

// on makes cmd start the job.
func (j *jobCommand) on(cmd *cobra.Command, s world) *cobra.Command {
	var to clientFlags
	var asJSON bool
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := to.client()
		if err != nil {
			return err
		}
		return j.run(cmd, s, c, asJSON)
	}
	to.add(cmd, s)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the job as JSON, and do not wait until it ends")
	j.filters.add(cmd, "only deliveries that died, or are due,", jobFilters...)
	j.add(cmd)
	return cmd
}

// allText returns the help of --all.
func (j *jobCommand) allText() string {
	if j.verb == "Retry" {
		return "with an id: also resend its finished deliveries; without an id: required if there is no filter"
	}
	return "all deliveries; required if there is no filter"
}

// run starts the job, or prints a dry run.
func (j *jobCommand) run(cmd *cobra.Command, s world, c *client.Client, asJSON bool) (err error) {
	if j.request.Since.Time, j.request.Until.Time, err = j.filters.span.read(); err != nil {
		return err
	}
	f := j.filters
	j.request.Destination, j.request.Topic, j.request.Tenant, j.request.Subject = f.Destinations, f.Topics, f.Tenants, f.Subjects
	j.request.DeadReason, j.request.Status, j.request.Failed = f.Reasons, f.Statuses, f.Failed
	if j.request.DryRun {
		survey, err := j.count(cmd, c)
		if err != nil {
			return err
		}
		return apiCall[wire.Survey]{text: printSurvey}.show(cmd.OutOrStdout(), survey, asJSON)
	}
	return j.carryOut(cmd, s, c, asJSON)
}

// count counts what matches. If that takes longer than a person waits without an answer, it says how
// many were found, and counts on.
func (j *jobCommand) count(cmd *cobra.Command, c *client.Client) (wire.Survey, error) {
	survey, err := c.SurveyJob(cmd.Context(), j.kind, j.request)
	if err != nil || survey.Complete {
		return survey, err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "at least %s deliveries match; counting for up to ten seconds\n", commas(survey.Matched))
	whole := j.request
	whole.CountAll = true
	return c.SurveyJob(cmd.Context(), j.kind, whole)
}

// add adds the flags of all jobs.
func (j *jobCommand) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&j.request.All, "all", false, j.allText())
	if j.kind == client.JobRetry {
		flags.BoolVar(&j.request.Probe, "probe", false, "first attempt one delivery of each destination, and skip the others if it fails")
		flags.BoolVar(&j.resume, "resume", false, "first close the open breakers of these destinations; paused ones stay paused")
	}
	flags.StringVar(&j.request.Rate, "rate", "", "the most deliveries in a time, such as 200/s or 600/m (default: as fast as their destinations accept them)")
	flags.BoolVar(&j.request.DryRun, "dry-run", false, "change nothing: print how many deliveries match, and ten of them")
	flags.BoolVar(&j.yes, "yes", false, "start without asking")
}

// closeBreakers resumes the lanes of the filter whose breakers are open.
func (j *jobCommand) closeBreakers(ctx context.Context, c *client.Client) error {
	closeOne := func(l wire.LaneState) (err error) {
		if l.State == "open" && (len(j.request.Tenant) == 0 || slices.Contains(j.request.Tenant, l.Tenant)) {
			_, err = c.ResumeLane(ctx, l.Lane, "")
		}
		return err
	}
	if to := j.request.Destination; len(to) > 0 {
		page, err := c.LanesOf(ctx, strings.Join(j.request.Tenant, ""), to...)
		for i := 0; err == nil && i < len(page.Data); i++ {
			err = closeOne(page.Data[i])
		}
		return err
	}
	for l, err := range c.EachLane(ctx) {
		if err == nil {
			err = closeOne(l)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (j *jobCommand) carryOut(cmd *cobra.Command, s world, c *client.Client, asJSON bool) error {
	if f := j.filters; len(f.Destinations)+len(f.Topics)+len(f.Tenants)+len(f.Subjects)+len(f.Reasons)+len(j.request.Status) == 0 &&
		f.span == (spanFlags{}) && !j.request.Failed && !j.request.All {
		return usagef("%s needs a filter, or --all", cmd.CommandPath())
	}
	person := s.terminal || isTerminal(cmd.InOrStdin())
	if !j.yes && !person {
		return usagef("%s changes all matching deliveries: pass --yes, or run it at a terminal, where it asks", cmd.CommandPath())
	}
	shows := !asJSON && (s.terminal || isTerminal(cmd.ErrOrStderr()))
	if !j.yes || shows {
		survey, err := c.SurveyJob(cmd.Context(), j.kind, j.request)
		if err != nil {
			return err
		}
		if j.total = survey.Matched; survey.Matched == 0 && survey.Complete {
			_, err := fmt.Fprintln(cmd.ErrOrStderr(), "nothing matches")
			return err
		}
		if !j.yes {
			if !agrees(cmd, j.question(survey)) {
				return errors.New("nothing was changed")
			}
		}
	}
	if j.resume {
		if err := j.closeBreakers(cmd.Context(), c); err != nil {
			return err
		}
	}
	job, err := c.StartJob(cmd.Context(), j.kind, j.request)
	if err != nil {
		return err
	}
	if shows {
		return followJob(cmd, c, job, j.total)
	}
	return apiCall[wire.Job]{text: printJob}.show(cmd.OutOrStdout(), job, asJSON)
}

// question returns the question whether to change the matching deliveries.
func (j *jobCommand) question(survey wire.Survey) string {
	text := j.verb + " "
	if !survey.Complete {
		text += "more than "
	}
	text += commas(survey.Matched) + " deliveries"
	if len(j.request.Destination) > 0 {
		text += " to " + visible(strings.Join(j.request.Destination, ", "))
	}
	if j.request.Rate != "" {
		text += " at " + visible(j.request.Rate)
	}
	return text + "?"
}

func newJobs(s world) *cobra.Command {
	cmd := listCommand[wire.JobPage]{
		read: func(cmd *cobra.Command, c *client.Client, _ []string, p pageFlags) (wire.JobPage, error) {
			return c.Jobs(cmd.Context(), p.limit, p.cursor)
		},
		table: func(out io.Writer, page wire.JobPage) { printJobs(out, page.Data...) },
		next:  func(page wire.JobPage) *string { return page.NextCursor },
	}.on(&cobra.Command{
		Use:   "jobs",
		Short: "List jobs, which change many deliveries, or show, stop and resume one",
		Long: `Lists jobs, the newest first, with the numbers of deliveries that matched, were
changed, and could not be changed. A job retries, cancels or purges the deliveries that
match a filter. It runs on the server. If its instance dies, another instance
continues. Jobs are stored for 7 days.`,
		Example: `  hookladder jobs
  hookladder jobs stop job_7`,
		Args: noArgs,
	}, s)
	cmd.AddCommand(newJobsShow(s),
		oneJob(s, (*client.Client).StopJob, &cobra.Command{
			Use:     "stop <job>",
			Short:   "Stop a job: it changes nothing after this command returns",
			Long:    "Stops a job. Its changes stay. \"hookladder jobs resume\" continues with the rest.",
			Example: "  hookladder jobs stop job_7",
		}),
		oneJob(s, (*client.Client).ResumeJob, &cobra.Command{
			Use:     "resume <job>",
			Short:   "Continue a job that was stopped, or failed",
			Long:    "Continues a job that was stopped, or failed. It changes no delivery twice.",
			Example: "  hookladder jobs resume job_7",
		}))
	return cmd
}

func newJobsShow(s world) *cobra.Command {
	var watch bool
	cmd := apiCall[wire.Job]{
		do: func(cmd *cobra.Command, c *client.Client, args []string) (wire.Job, error) {
			job, err := c.Job(cmd.Context(), args[0])
			if err == nil && watch {
				return job, followJob(cmd, c, job, 0)
			}
			return job, err
		},
		text: func(out io.Writer, job wire.Job) {
			if !watch {
				printJob(out, job)
			}
		},
	}.on(&cobra.Command{
		Use:   "show <job>",
		Short: "Show a job, and the deliveries that it could not change",
		Long:  "Shows a job, and the first deliveries that it could not change. With --watch it shows the progress until the job ends.",
		Example: `  hookladder jobs show job_7
  hookladder jobs show job_7 --watch`,
		Args: namesJob,
	}, s)
	cmd.Flags().BoolVar(&watch, "watch", false, "show the progress until the job ends")
	return cmd
}

// namesJob accepts one argument, the id of a job.
func namesJob(cmd *cobra.Command, args []string) error {
	if len(args) != 1 || args[0] == "" {
		return usagef("%s needs the id of one job, such as job_7; see %s --help", cmd.Name(), cmd.CommandPath())
	}
	return nil
}

// oneJob returns a command with a call for one job.
func oneJob(s world, call func(*client.Client, context.Context, string) (wire.Job, error), cmd *cobra.Command) *cobra.Command {
	cmd.Args = namesJob
	return apiCall[wire.Job]{
		do: func(cmd *cobra.Command, c *client.Client, args []string) (wire.Job, error) {
			return call(c, cmd.Context(), args[0])
		},
		text: printJob,
	}.on(cmd, s)
}

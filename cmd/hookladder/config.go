package main

import (
	"cmp"
	"fmt"
	"io"
	"net/url"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

func newConfig(s stage) *cobra.Command {
	var dev bool
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Print every setting, its value and where it comes from",
		Long: `Prints every setting with its value and where it comes from: the default, the
environment, a file that <name>_FILE names, or with --dev the .env file. Secrets
are not shown. What is wrong with the settings follows, and the exit code is 2.`,
		Example: `  hookladder config
  LADDER=5s,1m hookladder config | grep LADDER
  hookladder config --dev`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			from := sources{environ: s.vars()}
			if dev {
				var err error
				if from, err = devSources(s.vars()); err != nil {
					return err
				}
			}
			_, found, wrong := readSettings(from)
			if err := printSettings(cmd.OutOrStdout(), found); err != nil {
				return err
			}
			warn(cmd.ErrOrStderr(), from)
			if wrong != nil {
				return usageError{wrong}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&dev, "dev", false, "as the dev command sees them: with .env and its own defaults")
	return cmd
}

func printSettings(out io.Writer, found []foundSetting) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "SETTING\tVALUE\tSOURCE")
	for _, c := range found {
		fmt.Fprintf(table, "%s\t%s\t%s\n", c.Name, shown(c), c.Source)
	}
	return table.Flush()
}

// shown is a value as anybody may see it.
func shown(c foundSetting) string {
	switch {
	case c.Value == "":
		return "(unset)"
	case c.Name == "REDIS_URL", c.Name == "EGRESS_PROXY":
		return redactedURL(c.Value)
	case c.Secret:
		return "(set, not shown)"
	}
	return c.Value
}

// redactedURL shows where a store or a proxy is without what opens it. The query
// stays out, since some take their token there.
func redactedURL(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "(set, not a URL)"
	}
	safe := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	if u.User != nil {
		safe.User = url.User("...")
	}
	return safe.String()
}

// warn tells of variables that look like settings and are none.
func warn(out io.Writer, from sources) {
	for _, w := range append(nearNames(from.environ), nearNames(from.dotenv)...) {
		fmt.Fprintln(out, "warning: "+w)
	}
}

// listenAddr joins LISTEN and PORT, of which LISTEN wins where it was given.
func listenAddr(s settings, found []foundSetting) string {
	var listen foundSetting
	for _, c := range found {
		if c.Name == "LISTEN" {
			listen = c
		}
	}
	given := listen.Source == sourceEnviron || listen.Source == sourceDotenv
	if s.Port != 0 && !given {
		return fmt.Sprintf(":%d", s.Port)
	}
	return cmp.Or(s.Listen, listen.Default)
}

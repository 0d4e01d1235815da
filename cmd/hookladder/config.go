package main

import (
	"bytes"
	"fmt"
	"io"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/hookladder/hookladder/cmd/hookladder/internal/settings"
	"github.com/hookladder/hookladder/cmd/hookladder/internal/term"
)

func newConfig(s world) *cobra.Command {
	var dev bool
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Print every setting, its value and where it comes from",
		Long: `Prints every setting with its value and where it comes from: the default, the
environment, a file that <name>_FILE names, or with --dev the .env file. Secrets
are not shown. If settings are wrong, the errors follow, and the exit code is 2.`,
		Example: `  hookladder config
  LADDER=5s,1m hookladder config | grep LADDER
  hookladder config --dev`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			from := settings.Sources{Environ: s.vars()}
			if dev {
				var err error
				if from, err = devSources(s.vars()); err != nil {
					return err
				}
			}
			_, found, wrong := settings.Read(from)
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

func printSettings(out io.Writer, found []settings.Found) error {
	var text bytes.Buffer
	term.Table(&text, "SETTING\tVALUE\tSOURCE", found, func(c settings.Found) []any { return []any{c.Name, shown(c), c.Source} })
	_, err := text.WriteTo(out)
	return err
}

// shown is a value without its secret parts.
func shown(c settings.Found) string {
	switch {
	case c.Value == "":
		return "(unset)"
	case c.Name == "REDIS_URL", c.Name == "EGRESS_PROXY":
		return redactedURL(c.Value)
	case c.Secret:
		return "(set, not shown)"
	}
	return c.Short()
}

// redactedURL shows where a store or a proxy is, without user and password. The
// query stays out, since it may hold a token.
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
func warn(out io.Writer, from settings.Sources) {
	for _, w := range append(settings.Near(from.Environ), settings.Near(from.Dotenv)...) {
		fmt.Fprintln(out, "warning: "+w)
	}
}

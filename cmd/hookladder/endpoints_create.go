package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

func newEndpointsCreate(s stage) *cobra.Command {
	var to clientFlags
	var what endpointFlags
	var uid, tenant, secretFile string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Register a receiver",
		Long: `Registers a receiver and prints it with its secret, which is made unless you give
one. With a --uid of your own the call may be repeated: the same endpoint again is
answered as it is, another one under that name is refused.`,
		Example: `  hookladder endpoints create --uid shop-42 --tenant shop_42 --url https://shop.example/hooks --topic 'payment.*'
  hookladder endpoints create --url https://shop.example/hooks --topic '*' --rate 20/s --signature github`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			fields, err := what.fields(cmd)
			if err != nil {
				return err
			}
			if fields["url"] == nil {
				return usagef("create needs --url; see hookladder endpoints create --help")
			}
			for name, text := range map[string]string{"uid": uid, "tenant": tenant} {
				if text != "" {
					fields[name] = text
				}
			}
			if secretFile != "" {
				if fields["secret"], err = readSecretFile(secretFile, cmd.InOrStdin()); err != nil {
					return err
				}
			}
			e, err := endpointOf(fields)
			if err != nil {
				return err
			}
			c, err := to.client()
			if err != nil {
				return err
			}
			view, created, err := c.CreateEndpoint(cmd.Context(), e)
			if err != nil {
				return err
			}
			if !created {
				fmt.Fprintln(cmd.ErrOrStderr(), "it was there already, as you describe it")
			}
			return showEndpoint(cmd.OutOrStdout(), view, asJSON)
		},
	}
	to.add(cmd, s)
	what.add(cmd)
	flags := cmd.Flags()
	flags.StringVar(&uid, "uid", "", "a name of your own for it, as good as its id")
	flags.StringVar(&tenant, "tenant", "", "whose messages it gets (default: those without a tenant)")
	flags.StringVar(&secretFile, "secret-file", "", "a file that holds its secret, - for standard input (default: a new secret)")
	addJSON(cmd, &asJSON)
	return cmd
}

// endpointOf is the endpoint that has the fields.
func endpointOf(fields map[string]any) (*wire.Endpoint, error) {
	text, err := json.Marshal(fields)
	if err != nil {
		return nil, fmt.Errorf("encode endpoint: %w", err)
	}
	var e wire.Endpoint
	if err := json.Unmarshal(text, &e); err != nil {
		return nil, usageError{err}
	}
	return &e, nil
}

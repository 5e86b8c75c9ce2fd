package main

import (
	"github.com/spf13/cobra"

	"github.com/troupehq/troupe/internal/console/cli"
	"github.com/troupehq/troupe/internal/console/demo"
	"github.com/troupehq/troupe/internal/console/operate"
)

// commands are what troupe can do; a new one is added here.
func commands() []*cobra.Command {
	own := []*cobra.Command{runCommand(), demo.Command(), pushCommand(), inflightCommand(), rescueCommand(), adoptCommand(), checkCommand(), outboxCommand(), healthCommand(), metricsCommand(), versionCommand()}
	return append(own, operate.Commands(files{})...)
}

func rootCommand() *cobra.Command {
	var version bool
	root := &cobra.Command{
		Use:   "troupe",
		Short: "A Sidekiq-compatible job daemon on a supervised actor tree",
		Args:  cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if version {
				return printVersion(cmd)
			}
			return cmd.Help()
		},
		SilenceErrors: true, // execute prints them
		SilenceUsage:  true, // a page of flags would hide the message
	}
	root.Flags().BoolVarP(&version, "version", "V", false, "print the version")
	root.CompletionOptions.HiddenDefaultCmd = false
	root.AddCommand(commands()...)
	cli.Grammar(root)
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if words := cmd.Flags().Args(); cmd == root && len(words) > 0 { // --help behind a word that is no command
			cmd.PrintErrln("troupe:", cmd.ValidateArgs(words))
			return
		}
		help(cmd, args)
	})
	return root
}

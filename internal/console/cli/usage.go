package cli

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/troupehq/troupe/internal/words"
)

// Args is what a command takes: from least to most arguments, any number of them if most is below 0, and
// none that is empty, as by a shell variable that is not set. Of a command with others below it the first
// argument is one of their names.
func Args(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if i := slices.Index(args, ""); i >= 0 {
			return Exitf(Fault, `argument %d is "", expected: %s`, i+1, cmd.UseLine())
		}
		if n := len(args); n < least || most >= 0 && n > most {
			if cmd.HasSubCommands() && n > 0 {
				return NoCommand(cmd, args[0])
			}
			return Exitf(Fault, "got %s, expected: %s", words.Plural(n, "argument"), cmd.UseLine())
		}
		return nil
	}
}

// NoCommand is the error of a name that no command below cmd has. It names the one that may be meant, which
// may be below another one.
func NoCommand(cmd *cobra.Command, name string) error {
	names := map[string]string{} // to the command of each
	var list []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names[c.Name()] = c.CommandPath()
			list = append(list, c.Name())
			for _, a := range c.Aliases {
				names[a] = c.CommandPath()
			}
		}
	}
	want := "one of " + strings.Join(list, ", ")
	if paths := named(cmd.Root(), name); len(paths) > 0 {
		want = strings.Join(paths, " or ")
	} else if near := words.Nearest(name, slices.Sorted(maps.Keys(names))); near != "" {
		want = names[near]
	}
	return Exitf(Fault, "there is no command %q, expected %s", cmd.CommandPath()+" "+name, want)
}

// named are the paths of the commands below cmd that have a name.
func named(cmd *cobra.Command, name string) (paths []string) {
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() && (c.Name() == name || slices.Contains(c.Aliases, name)) {
			paths = append(paths, c.CommandPath())
		}
		paths = append(paths, named(c, name)...)
	}
	return paths
}

// FlagFault puts the error of a flag into words: which flag may be meant, or which values there are.
func FlagFault(cmd *cobra.Command, err error) error {
	if e, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		why := e.Unwrap().Error()
		if e.GetFlag().Value.Type() == "bool" {
			why = "expected true or false"
		}
		return Exitf(Fault, "--%s is %q, %s", e.GetFlag().Name, e.GetValue(), why)
	}
	if e, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		return Exitf(Fault, "--%s has no value, expected one: %s", e.GetFlag().Name, e.GetFlag().Usage)
	}
	e, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return err
	}
	if rest := cmd.Flags().Args(); cmd.HasSubCommands() && len(rest) > 0 { // the flag is one of the command that was meant
		return NoCommand(cmd, rest[0])
	}
	if short := e.GetSpecifiedShortnames(); short != "" {
		return Exitf(Fault, "%s has no flag -%s, see %s --help", cmd.CommandPath(), e.GetSpecifiedName(), cmd.CommandPath())
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && f.Deprecated == "" {
			names = append(names, f.Name)
		}
	})
	want := "see " + cmd.CommandPath() + " --help"
	if near := words.Nearest(e.GetSpecifiedName(), names); near != "" {
		want = "did you mean --" + near + "?"
	}
	return Exitf(Fault, "%s has no flag --%s, %s", cmd.CommandPath(), e.GetSpecifiedName(), want)
}

// Grammar gives a whole program the words of this package for what is no command, no flag or no value.
func Grammar(root *cobra.Command) {
	root.SetFlagErrorFunc(FlagFault)
	root.InitDefaultHelpCmd()
	for _, c := range root.Commands() {
		if c.Name() == "help" {
			show := c.Run
			c.Run, c.RunE = nil, func(cmd *cobra.Command, args []string) error {
				found, rest, err := root.Find(args)
				if err != nil || len(rest) > 0 {
					return NoCommand(found, append(rest, args...)[0])
				}
				show(cmd, args)
				return nil
			}
		}
	}
}

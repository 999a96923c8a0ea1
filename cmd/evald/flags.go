package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// globals are the flags of every command.
type globals struct {
	Config  configFile       `placeholder:"FILE" help:"Read flags from this YAML file, see evald help."`
	Threads int              `aliases:"concurrency" default:"0" help:"Processors to use; 0 is all."`
	Version kong.VersionFlag `help:"Print the version and exit."`
}

// usageError is of a command line that cannot be meant; the program ends with exitUsage.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// usage is a usageError in these words.
func usage(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// variableOf is the environment variable of a flag: EVALD_MAX_BATCH of --max-batch, for all commands that have it.
func variableOf(flag *kong.Flag) string {
	return "EVALD_" + strings.ToUpper(strings.ReplaceAll(flag.Name, "-", "_"))
}

// withVariables gives each flag its environment variable, but not those that ask for a text and do nothing else.
func withVariables() kong.Option {
	return kong.PostBuild(func(k *kong.Kong) error {
		return kong.Visit(k.Model, func(node kong.Visitable, next kong.Next) error {
			if flag, ok := node.(*kong.Flag); ok && flag.Name != "help" && flag.Name != "version" {
				flag.Envs = []string{variableOf(flag)}
				flag.Tag.Envs = flag.Envs
			}
			return next(nil)
		})
	})
}

// refuseUseless refuses a flag of the command line that does nothing beside the others. Its struct tag says when:
//
//	needs:"build-book"        it needs this flag
//	needs:"selection=uct|gumbel"   it needs this flag with one of these values
//	without:"agent,build-book"     it goes with none of these
//	without:"full-share=1"         nor with this value
//
// Those of the environment and of the configuration file are for many commands, and are not looked at.
func refuseUseless(c *kong.Context) error {
	flags := map[string]*kong.Flag{}
	for _, f := range c.Flags() {
		flags[f.Name] = f
	}
	for _, path := range c.Path {
		if path.Flag == nil || path.Resolved {
			continue
		}
		name, tag := path.Flag.Name, path.Flag.Tag
		if needs := tag.Get("needs"); needs != "" && !holds(c, flags, needs) {
			return usage("--%s does nothing without --%s", name, strings.Replace(needs, "=", " ", 1))
		}
		for _, other := range strings.FieldsFunc(tag.Get("without"), func(r rune) bool { return r == ',' }) {
			if holds(c, flags, other) {
				return usage("--%s does nothing with --%s", name, strings.Replace(other, "=", " ", 1))
			}
		}
	}
	return nil
}

// holds reports whether a flag was given, or for FLAG=VALUE|VALUE whether it has one of these values.
func holds(c *kong.Context, flags map[string]*kong.Flag, condition string) bool {
	name, values, withValue := strings.Cut(condition, "=")
	flag := flags[name]
	if flag == nil {
		return false
	}
	if withValue {
		return slices.Contains(strings.Split(values, "|"), fmt.Sprint(c.FlagValue(flag)))
	}
	return inEnvironment(flag) || slices.ContainsFunc(c.Path, func(p *kong.Path) bool { return p.Flag == flag })
}

// inEnvironment reports whether the environment gives a flag.
func inEnvironment(flag *kong.Flag) bool {
	return slices.ContainsFunc(flag.Envs, func(name string) bool { _, ok := os.LookupEnv(name); return ok })
}

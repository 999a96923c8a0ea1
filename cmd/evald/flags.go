package main

import (
	"cmp"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/evald/evald/engine/ask"
	"github.com/evald/evald/engine/mcts"
	"github.com/evald/evald/engine/solver"
)

// globals are the flags of every command.
type globals struct {
	Config  configFile       `placeholder:"FILE" help:"Read flags from this YAML file, see evald help help."`
	Threads int              `range:"0 to 4096" aliases:"concurrency" default:"0" help:"Processors to use; 0 is all."`
	Version kong.VersionFlag `env:"-" help:"Print the version and exit."`
}

// usageError is the error of a wrong command line; the program ends with exitUsage.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usage(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// checkDependencies refuses a flag on the command line that has no effect together with the others. Its struct tag says when:
//
//	needs:"build-book"        it needs this flag
//	needs:"selection=uct|gumbel"   it needs this flag with one of these values
//	needs:"selection=uct,noise"    it needs one of these
//	without:"agent,build-book"     it excludes these flags
//	without:"full-share=1"         it excludes this flag with this value
//	without:"files"                it excludes these arguments
//
// Flags from the environment and the configuration file are not checked, because those are for many commands.
func checkDependencies(c *kong.Context) error {
	flags := map[string]*kong.Flag{}
	for _, f := range c.Flags() {
		flags[f.Name] = f
	}
	for _, path := range c.Path {
		if path.Flag == nil || path.Resolved {
			continue
		}
		name, tag := path.Flag.Name, path.Flag.Tag
		if needs := strings.Split(tag.Get("needs"), ","); needs[0] != "" && !slices.ContainsFunc(needs, func(need string) bool { return holds(c, flags, need) }) {
			return usage("--%s does nothing without --%s", name, strings.ReplaceAll(strings.Join(needs, " or --"), "=", " "))
		}
		for _, other := range strings.FieldsFunc(tag.Get("without"), func(r rune) bool { return r == ',' }) {
			if given(c, other) {
				return usage("--%s does nothing with %s", name, strings.ToUpper(other))
			}
			if holds(c, flags, other) {
				return usage("--%s does nothing with --%s", name, strings.Replace(other, "=", " ", 1))
			}
		}
	}
	return nil
}

// holds reports whether a flag was given or, for FLAG=VALUE|VALUE, whether it has one of these values.
func holds(c *kong.Context, flags map[string]*kong.Flag, condition string) bool {
	name, values, withValue := strings.Cut(condition, "=")
	flag := flags[name]
	if flag == nil {
		return false
	}
	if withValue {
		return slices.Contains(strings.Split(values, "|"), fmt.Sprint(c.FlagValue(flag)))
	}
	return inEnvironment(flag) || flagGiven(c, name)
}

// flagGiven reports whether the command line has a flag of this name.
func flagGiven(c *kong.Context, name string) bool {
	return slices.ContainsFunc(c.Path, func(p *kong.Path) bool { return p.Flag != nil && p.Flag.Name == name })
}

// given reports whether the command line has positional arguments of this name.
func given(c *kong.Context, arguments string) bool {
	return slices.ContainsFunc(c.Path, func(p *kong.Path) bool { return p.Positional != nil && p.Positional.Name == arguments })
}

// inEnvironment reports whether the environment sets a flag.
func inEnvironment(flag *kong.Flag) bool {
	return slices.ContainsFunc(flag.Envs, func(name string) bool { _, ok := os.LookupEnv(name); return ok })
}

// checkRanges refuses numbers outside the range in their flag's struct tag: range:"1 to 4096". Every number except a seed
// has one.
func checkRanges(c *kong.Context) error {
	for _, f := range c.Flags() {
		text := f.Tag.Get("range")
		if text == "" {
			continue
		}
		for _, v := range elements(f.Target) {
			if !inRange(v, text) {
				return usage("--%s %v: must be %s", f.Name, v, text)
			}
		}
	}
	return nil
}

// elements returns all values of a list, the value of any other flag, or nothing if the flag was not given.
func elements(v reflect.Value) (values []reflect.Value) {
	for v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return nil
		}
		v = v.Elem()
	}
	if v.Kind() != reflect.Slice {
		return []reflect.Value{v}
	}
	for i := range v.Len() {
		values = append(values, v.Index(i))
	}
	return values
}

// inRange reports whether a number lies in a range such as "1 to 4096", "0.5 to 1" or "0s to 24h".
func inRange(v reflect.Value, text string) bool {
	low, high, _ := strings.Cut(text, " to ")
	parse := func(bound string) float64 {
		if d, err := time.ParseDuration(bound); err == nil && v.Type() == reflect.TypeFor[time.Duration]() {
			return float64(d)
		}
		x, err := strconv.ParseFloat(bound, 64)
		if err != nil {
			panic(err) // the struct tag is wrong
		}
		return x
	}
	x := 0.
	if v.CanInt() {
		x = float64(v.Int()) // no bound is large enough for the rounding to matter
	} else {
		x = v.Float()
	}
	return x >= parse(low) && x <= parse(high)
}

// mappers read flags of types that are not kong's own.
var mappers = []kong.Option{
	choices(mcts.ParseSelection),
	choices(func(name string) (ask.Priors, bool) { return ask.Priors(name), true }),
	kong.TypeMapper(reflect.TypeFor[solver.Nodes](), nodesMapper{}),
	kong.NamedMapper("records", recordsMapper{}),
}

// choices reads flags of a type whose values are words: those of the flag's tag enum or choices.
func choices[T any](parse func(word string) (T, bool)) kong.Option {
	return kong.TypeMapper(reflect.TypeFor[T](), kong.MapperFunc(func(c *kong.DecodeContext, to reflect.Value) error {
		var word string
		if err := c.Scan.PopValueInto(c.Value.Name, &word); err != nil {
			return err
		}
		words := strings.Split(cmp.Or(c.Value.Enum, c.Value.Tag.Get("choices")), ",")
		value, ok := parse(word)
		if !ok || !slices.Contains(words, word) {
			return fmt.Errorf("must be %s", strings.Join(words, ", "))
		}
		to.Set(reflect.ValueOf(value))
		return nil
	}))
}

// nodesMapper reads --exact[=NODES].
type nodesMapper struct{}

// Decode implements kong.Mapper.
func (nodesMapper) Decode(c *kong.DecodeContext, to reflect.Value) error {
	text := ""
	if c.Scan.Peek().Type == kong.FlagValueToken {
		text = fmt.Sprint(c.Scan.Pop().Value)
	}
	return to.Addr().Interface().(*solver.Nodes).UnmarshalText([]byte(text))
}

// IsBool implements kong.BoolMapper: it allows the flag without a value.
func (nodesMapper) IsBool() bool { return true }

// fitsMemory refuses a flag that asks for n things of the given number of bytes if this machine has too little memory for them.
func fitsMemory(flag string, n, bytes int) error {
	if have := machineMemory(); have > 0 && n > 0 && uint64(n) > have/uint64(bytes) {
		return usage("--%s %d: takes %d MiB or more, and this machine has %d: must be at most %d", flag, n, uint64(n)*uint64(bytes)>>20, have>>20, have/uint64(bytes))
	}
	return nil
}

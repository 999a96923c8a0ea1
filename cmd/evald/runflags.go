package main

import (
	"encoding"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/evald/evald/engine/durable"
)

// Commands that resume a run say of each flag, in the struct tag run, what a resumed run may do
// with it:
//
//	run:"fixed"   it determines the results: the run's configuration refuses another value
//	run:"flag"    the same, but the configuration does not have it: flagsFile has
//	run:"change"  it may change
//	run:"-"       it is not part of the run, such as the devices and the form of the output
//
// Flags that a resumed run leaves out have their values from the run: evald learn keeps them in its
// configuration (nn/learn), and evald train in the file flagsFile, from which runReader passes them
// to kong. All other commands need the same flags again.

// flagsFile is a file in a run's folder with the values of the flags, as text, by name. Paths are
// relative to the folder, so that it can be moved together with its records.
const flagsFile = "flags.json"

// keptFlags is the content of flagsFile.
type keptFlags struct {
	Flags map[string][]string `json:"flags"`
}

// readFlags reads the flags of the run in a folder. A run without such a file has none.
func readFlags(dir string) (kept keptFlags, err error) {
	path := filepath.Join(dir, flagsFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || dir == "" {
		return kept, nil
	}
	if err == nil {
		err = durable.Unmarshal(text, &kept)
	}
	if err != nil {
		return kept, fmt.Errorf("%s: %w: remove it, and give all flags again", path, err)
	}
	return kept, nil
}

// runReader passes the flags of a resumed run to kong.
type runReader struct {
	read bool
	keptFlags
	err error
}

// Validate implements kong.Resolver.
func (*runReader) Validate(*kong.Application) error { return nil }

// Resolve implements kong.Resolver. The command line and the environment take precedence, and so
// does the configuration file, whose reader comes later.
func (r *runReader) Resolve(c *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	if !keepsFlags(c) || !partOfRun(flag) || inEnvironment(flag) {
		return nil, nil
	}
	if !r.read {
		r.read = true
		r.keptFlags, r.err = readFlags(outOf(c))
	}
	values, ok := r.Flags[flag.Name]
	if isPath(flag) {
		values = resolvePaths(outOf(c), values)
	}
	switch {
	case r.err != nil || !ok:
		return nil, nil // run reports the error
	case flag.IsSlice():
		var list []any
		for _, v := range values {
			list = append(list, v)
		}
		return list, nil
	}
	return strings.Join(values, ","), nil
}

// keepsFlags reports whether the command keeps its flags in flagsFile.
func keepsFlags(c *kong.Context) bool { return c.Selected() != nil && c.Selected().Name == "train" }

func partOfRun(flag *kong.Flag) bool {
	return slices.Contains([]string{"fixed", "flag", "change"}, flag.Tag.Get("run"))
}

// outOf returns the value of --out; "" without it.
func outOf(c *kong.Context) string {
	for _, f := range c.Flags() {
		if f.Name == "out" {
			return fmt.Sprint(c.FlagValue(f))
		}
	}
	return ""
}

// checkKept refuses other values of fixed flags than those that a run has kept.
func (r *runReader) checkKept(c *kong.Context) error {
	if r.err != nil || !keepsFlags(c) {
		return r.err
	}
	for _, f := range c.Flags() {
		if f.Tag.Get("run") != "flag" || len(r.Flags) == 0 {
			continue
		}
		was, is := r.Flags[f.Name], flagText(f.Target)
		if isPath(f) {
			was = resolvePaths(outOf(c), was)
		}
		if !slices.Equal(was, is) {
			return fmt.Errorf("--%s: the run in %s has %q, and now it is %q, which cannot change: leave it out, or name another folder", f.Name, outOf(c), strings.Join(was, ","), strings.Join(is, ","))
		}
	}
	return nil
}

// isPath reports whether a flag's values are paths, which kong makes absolute.
func isPath(flag *kong.Flag) bool {
	return slices.Contains([]string{"path", "existingfile"}, flag.Tag.Type)
}

// relativePaths returns paths relative to a folder, where that is possible. Those of buckets stay as they are.
func relativePaths(dir string, paths []string) (relative []string) {
	for _, path := range paths {
		if r, err := filepath.Rel(dir, path); err == nil && !isBucket(path) && path != "" {
			path = filepath.ToSlash(r)
		}
		relative = append(relative, path)
	}
	return relative
}

// resolvePaths is the reverse of relativePaths.
func resolvePaths(dir string, relative []string) (paths []string) {
	for _, path := range relative {
		if !isBucket(path) {
			if path = filepath.FromSlash(path); path != "" && !filepath.IsAbs(path) {
				path = filepath.Join(dir, path)
			}
		}
		paths = append(paths, path)
	}
	return paths
}

// keepFlags writes the command's flags into the folder of its run, if they are not there. files are
// its arguments. The caller holds the folder's lock.
func keepFlags(c *kong.Context, dir string, files []string) error {
	kept := keptFlags{map[string][]string{"files": relativePaths(dir, files)}}
	for _, f := range c.Flags() {
		if partOfRun(f) {
			text := flagText(f.Target)
			if isPath(f) {
				text = relativePaths(dir, text)
			}
			if len(text) > 0 {
				kept.Flags[f.Name] = text
			}
		}
	}
	if was, err := readFlags(dir); err == nil && reflect.DeepEqual(was, kept) {
		return nil
	}
	text, err := durable.MarshalIndent(kept)
	if err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(dir, flagsFile), text)
}

// flagText returns the value of a flag as text that kong reads, one for each element of a list;
// none if it has no value.
func flagText(v reflect.Value) (text []string) {
	for _, one := range elements(v) {
		switch x := one.Interface().(type) {
		case encoding.TextMarshaler:
			t, err := x.MarshalText()
			if err != nil {
				continue
			}
			text = append(text, string(t))
		default:
			text = append(text, fmt.Sprint(x))
		}
	}
	return slices.DeleteFunc(text, func(one string) bool { return one == "" })
}

package main

import (
	"cmp"
	"embed"
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/evald/evald/cmd/evald/internal/play"
	"github.com/evald/evald/engine/agent"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"The shell: ${enum}."`
}

func (*completionCmd) Help() string {
	return `In one session:
  source <(evald completion bash)
  source <(evald completion zsh)
  evald completion fish | source
In all sessions:
  evald completion bash > ~/.local/share/bash-completion/completions/evald
  evald completion zsh > "${fpath[1]}/_evald"
  evald completion fish > ~/.config/fish/completions/evald.fish`
}

// shellScripts call the program itself (evald complete) with the words typed so far.
//
//go:embed completion
var shellScripts embed.FS

func (c *completionCmd) Run(s streams) error {
	script, err := shellScripts.ReadFile("completion/evald." + c.Shell)
	if err != nil {
		return err
	}
	_, err = s.out.Write(script)
	return err
}

// completeCmd is `evald complete`, which the scripts call.
type completeCmd struct {
	Words []string `arg:"" optional:"" passthrough:""`
}

// anyFile stands for all files; the shell completes them itself. The scripts know it.
const anyFile = ":files"

// Run prints the possible values of the last word, one per line: the word, a tab and its help.
func (c *completeCmd) Run(s streams) error {
	words := c.Words
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	}
	if len(words) == 0 {
		words = []string{""}
	}
	var parsed cli
	last := words[len(words)-1]
	for _, line := range candidates(newParser(&parsed, s, func(int) {}), words[:len(words)-1], last) {
		if line == anyFile || strings.HasPrefix(line, last) {
			fmt.Fprintln(s.out, line)
		}
	}
	return nil
}

// candidates returns all words that can stand in the place of last, after the words before it.
func candidates(parser *kong.Kong, before []string, last string) (all []string) {
	at, err := kong.Trace(parser, before)
	if err != nil {
		return nil
	}
	node := cmp.Or(at.Selected(), parser.Model.Node)
	add := func(name, help string) {
		help, _, _ = strings.Cut(help, "\n")
		all = append(all, name+"\t"+help)
	}
	flagsEnded := slices.Contains(before, "--")
	if flag := wantsValue(at.Flags(), before); flag != nil && !flagsEnded {
		return valuesOf(flag.Value, "")
	}
	switch name, _, withValue := strings.Cut(last, "="); {
	case !flagsEnded && strings.HasPrefix(last, "-"):
		for _, f := range at.Flags() {
			if withValue && name == "--"+f.Name {
				return valuesOf(f.Value, name+"=")
			} else if !withValue && !f.Hidden {
				add("--"+f.Name, valueHelp(f.Value))
			}
		}
	case len(node.Children) > 0:
		for _, child := range node.Children {
			if !child.Hidden {
				add(child.Name, child.Help)
			}
		}
	case len(node.Positional) > 0:
		return valuesOf(node.Positional[0], "")
	}
	return all
}

// wantsValue returns the flag whose value follows the words, nil if there is none.
func wantsValue(flags []*kong.Flag, words []string) *kong.Flag {
	if len(words) == 0 {
		return nil
	}
	last := words[len(words)-1]
	for _, f := range flags {
		if !f.IsBool() && (last == "--"+f.Name || f.Short != 0 && last == "-"+string(f.Short)) {
			return f
		}
	}
	return nil
}

// valuesOf returns the known values of a flag or an argument, each with the prefix.
func valuesOf(v *kong.Value, prefix string) []string {
	var all []string
	switch {
	case v.Enum != "":
		all = v.EnumSlice()
	case v.Name == "model" || v.Name == "evaluate" || v.Name == "NAME|PATH":
		known, _ := allModels() // models that cannot be read are not offered
		for _, m := range known {
			all = append(all, m.Name)
		}
		slices.Sort(all)
		all = slices.Compact(all)
	case v.Name == "agent" || v.Name == "opponent":
		if v.Tag.Get("complete") == "levels" {
			for _, l := range play.Levels {
				all = append(all, l.Name)
			}
		}
		all = append(all, agent.Names()...)
	case v.Tag.Type == "path" || v.Tag.Type == "existingfile" || v.Tag.Type == "records" || v.Name == "file" || v.Name == "config":
		return []string{anyFile}
	}
	for i, one := range all {
		all[i] = prefix + one
	}
	return all
}

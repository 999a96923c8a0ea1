package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/evald/evald/cmd/evald/internal/play"
	"github.com/evald/evald/engine/agent"
)

// completionCmd is `evald completion`.
type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"The shell: ${enum}."`
}

// Help says how to install the script.
func (*completionCmd) Help() string {
	return `In one session:
  source <(evald completion bash)
  source <(evald completion zsh)
  evald completion fish | source
For all:
  evald completion bash > ~/.local/share/bash-completion/completions/evald
  evald completion zsh > "${fpath[1]}/_evald"
  evald completion fish > ~/.config/fish/completions/evald.fish`
}

// shellScripts call the program itself (evald complete) with the words typed so far.
var shellScripts = map[string]string{
	"bash": `_evald() {
  local IFS=$'\n' word
  COMPREPLY=()
  for word in $("$1" complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null); do
    if [[ $word == ` + anyFile + ` ]]; then
      compopt -o default
    else
      COMPREPLY+=("${word%%$'\t'*}")
    fi
  done
}
complete -F _evald evald
`,
	"zsh": `#compdef evald
_evald() {
  local -a lines
  lines=("${(@f)$("${words[1]}" complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ ${lines[1]} == ` + anyFile + ` ]]; then
    _files
  else
    lines=("${(@)lines//:/\\:}")
    lines=("${(@)lines//$'\t'/:}")
    _describe evald lines
  fi
}
if [[ $funcstack[1] == _evald ]]; then _evald; else compdef _evald evald; fi
`,
	"fish": `function __evald_complete
  set -l words (commandline -opc) (commandline -ct)
  set -l lines ($words[1] complete -- $words[2..-1] 2>/dev/null)
  if test "$lines[1]" = ` + anyFile + `
    __fish_complete_path (commandline -ct)
  else
    string join \n -- $lines
  end
end
complete -c evald -f -a '(__evald_complete)'
`,
}

// Run prints the script.
func (c *completionCmd) Run(s streams) error {
	_, err := io.WriteString(s.out, shellScripts[c.Shell])
	return err
}

// completeCmd is `evald complete`, which the scripts call.
type completeCmd struct {
	Words []string `arg:"" optional:"" passthrough:""`
}

// anyFile stands for all files; the shell completes them itself.
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
	for _, line := range complete(newParser(&parsed, s, func(int) {}).Model, words) {
		fmt.Fprintln(s.out, line)
	}
	return nil
}

// complete returns the possible values of the last word after the words before it.
func complete(app *kong.Application, words []string) []string {
	at := completing{node: app.Node, flags: app.Flags}
	for _, word := range words[:len(words)-1] {
		at.take(word)
	}
	last := words[len(words)-1]
	all := at.candidates(last)
	if slices.Equal(all, []string{anyFile}) {
		return all
	}
	return slices.DeleteFunc(all, func(s string) bool { return !strings.HasPrefix(s, last) })
}

// completing is a place in a command line.
type completing struct {
	node  *kong.Node
	flags []*kong.Flag
	value *kong.Flag // its value is the next word; nil: none
	only  bool       // after --: no more flags
}

func (at *completing) take(word string) {
	switch {
	case at.value != nil:
		at.value = nil
	case word == "--":
		at.only = true
	case !at.only && strings.HasPrefix(word, "-"):
		name, _, withValue := strings.Cut(word, "=")
		for _, f := range at.flags {
			if !withValue && !f.IsBool() && (name == "--"+f.Name || len(name) == 2 && f.Short == rune(name[1])) {
				at.value = f
			}
		}
	default:
		for _, child := range at.node.Children {
			if child.Name == word {
				at.node, at.flags = child, append(slices.Clip(at.flags), child.Flags...)
				return
			}
		}
	}
}

// candidates returns all words that can stand here.
func (at *completing) candidates(word string) []string {
	var all []string
	add := func(name, help string) {
		help, _, _ = strings.Cut(help, "\n")
		all = append(all, name+"\t"+help)
	}
	flagOf, _, withValue := strings.Cut(word, "=")
	switch {
	case at.value != nil:
		return valuesOf(at.value.Value, "")
	case !at.only && strings.HasPrefix(word, "-") && withValue:
		for _, f := range at.flags {
			if flagOf == "--"+f.Name {
				return valuesOf(f.Value, flagOf+"=")
			}
		}
	case !at.only && strings.HasPrefix(word, "-"):
		for _, f := range at.flags {
			if !f.Hidden {
				add("--"+f.Name, valueHelp(f.Value))
			}
		}
	case len(at.node.Children) > 0:
		for _, child := range at.node.Children {
			if !child.Hidden {
				add(child.Name, child.Help)
			}
		}
	case len(at.node.Positional) > 0:
		return valuesOf(at.node.Positional[0], "")
	}
	return all
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
	case v.Tag.Type == "path" || v.Tag.Type == "existingfile" || v.Name == "file" || v.Name == "config":
		return []string{anyFile}
	}
	for i, one := range all {
		all[i] = prefix + one
	}
	return all
}

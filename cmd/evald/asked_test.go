package main

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evald/evald/engine/ask"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/mcts"
)

// What files in other languages repeat of the parameters of searches is made from package ask. Each
// block stands between a line "engine/ask: NAME" and a line "engine/ask: end".
func TestAsked(t *testing.T) {
	for file, blocks := range map[string]map[string]func(f ask.Field) string{
		"client/python/evald/_search.py": {
			"table": func(f ask.Field) string {
				return eachName(f, func(f ask.Field) string {
					return fmt.Sprintf("    %q: Searching(%s, %s, lambda value: %s),\n", f.Name, pythonDefault(f), title(named(f, ask.Service)), pythonCheck(f, "value"))
				})
			},
			"arguments": func(f ask.Field) string {
				return eachName(f, func(f ask.Field) string {
					return fmt.Sprintf("           %s: %s = %s,\n", f.Name, pythonType(f), pythonDefault(f))
				})
			},
			"words": func(f ask.Field) string { return eachName(f, inWords) },
			"settings": func(f ask.Field) string {
				if slices.Contains([]string{"visits", "selection", "exact", "lookahead", "batch", "seed"}, f.Name) {
					return "" // which functions have of their own
				}
				return eachName(f, func(f ask.Field) string { return fmt.Sprintf("    %s: %s\n", f.Name, pythonType(f)) })
			},
		},
		"client/python/evald/_forest.py": {
			"arguments": func(f ask.Field) string {
				return inForest(f, func(f ask.Field) string {
					return fmt.Sprintf("                 %s: %s = %s,\n", f.Name, pythonType(f), pythonDefault(f))
				})
			},
			"words": func(f ask.Field) string {
				return inForest(f, inWords)
			},
		},
		"kserve/README.md": {
			"table": func(f ask.Field) string {
				if !named(f, ask.Service) {
					return ""
				}
				must := f.Must()
				if f.Name == "visits" {
					must = "a whole number from 1 to the model's `--max-visits`"
				}
				return fmt.Sprintf("| `%s` | %s | %s |\n", f.Name, must, f.Help)
			},
		},
	} {
		path := filepath.FromSlash(file)
		content := string(gametest.Must(os.ReadFile(path))(t))
		want := content
		texts := map[string]string{}
		for name, line := range blocks {
			for _, f := range ask.Fields(ask.Python) {
				texts["engine/ask: "+name] += line(f)
			}
		}
		if strings.HasSuffix(file, "_search.py") {
			for _, f := range gameFields() {
				texts["evald selfplay: arguments"] += fmt.Sprintf("             %s: %s = %s,\n", f.Name, pythonType(f), pythonDefault(f))
				texts["evald selfplay: settings"] += fmt.Sprintf("    %s: %s\n", f.Name, pythonType(f))
				texts["evald selfplay: words"] += wrapped("    `"+f.Name+"`: "+inPython(f.Help), 150, "      ")
				texts["evald selfplay: checks"] += strings.Replace(fmt.Sprintf("        \"%s\": %s,\n", f.Name, pythonCheck(f, f.Name)), `"explore": `, `"c": `, 1)
			}
		}
		for name, text := range texts {
			about, _, _ := strings.Cut(name, ":")
			pattern := regexp.MustCompile(`(?s)(\n[^\n]*` + name + `[^\n]*\n(?:\n\|[^\n]*\n\|[-|]+\n)?).*?(\n?[^\n]*` + about + `: end)`)
			if !pattern.MatchString(want) {
				t.Errorf("%s has no block %s", path, name)
			}
			want = pattern.ReplaceAllStringFunc(want, func(old string) string {
				parts := pattern.FindStringSubmatch(old)
				end := parts[2]
				if strings.HasPrefix(end, "\n") && !strings.HasSuffix(file, ".md") {
					end = end[1:]
				}
				return parts[1] + text + end
			})
		}
		if *update && want != content {
			gametest.OK(t, os.WriteFile(path, []byte(want), 0o644))
			continue
		}
		if diff := cmp.Diff(want, content); diff != "" {
			t.Errorf("%s (-want +got; go test ./cmd/evald -run TestAsked -update writes it anew):\n%s", path, diff)
		}
	}
}

// inForest is what line makes of a parameter, or nothing if a forest doesn't have it: its visits are
// given step by step, and gumbel plans them all at the start.
func inForest(f ask.Field, line func(f ask.Field) string) string {
	if f.Name == "visits" || f.Applies(mcts.Gumbel) && !f.Applies(mcts.PUCT) {
		return ""
	}
	f.Choices = slices.DeleteFunc(slices.Clone(f.Choices), func(choice string) bool { return choice == "gumbel" })
	f.Help = strings.Replace(f.Help, "puct, uct, gumbel", "puct, uct", 1)
	return eachName(f, line)
}

// eachName is what line makes of a parameter, and of its other names.
func eachName(f ask.Field, line func(f ask.Field) string) string {
	text := line(f)
	for _, name := range f.Aliases {
		f.Help = "Another name of `" + f.Name + "`."
		f.Name = name
		text += line(f)
	}
	return text
}

func inWords(f ask.Field) string {
	return wrapped("    `"+f.Name+"`: "+inPython(f.Help), 150, "      ")
}

// gameFields are the arguments of self-play: the flags of evald selfplay that change games, and what
// of a search there is no flag for.
func gameFields() (all []ask.Field) {
	values := strings.NewReplacer(slices.Concat(selfplayValues(), ask.Values())...)
	for _, f := range reflect.VisibleFields(reflect.TypeFor[selfplayFlags]()) {
		if slices.Contains([]string{"Rules", "Visits", "Seed", "AtOnce", "Batch", "Remember", "Exact"}, f.Name) {
			continue // which have an argument of their own, or change no game
		}
		field := ask.Field{Name: strings.ReplaceAll(regexp.MustCompile(`([a-z])([A-Z])`).ReplaceAllString(f.Name, "${1}_$2"), "-", "_"), Default: values.Replace(f.Tag.Get("default")), Kind: ask.Number}
		field.Name = strings.ToLower(field.Name)
		field.Choices = strings.Split(f.Tag.Get("enum"), ",")
		switch f.Type.Kind() {
		case reflect.Int:
			field.Kind = ask.Whole
		case reflect.String:
			field.Kind = ask.Choice
		case reflect.Bool:
			field.Kind, field.Default = ask.Truth, "false"
		}
		if least, most, ok := strings.Cut(f.Tag.Get("range"), " to "); ok {
			field.Least, _ = strconv.ParseFloat(least, 64)
			field.Most, _ = strconv.ParseFloat(most, 64)
		}
		field.Help = strings.NewReplacer("${enum}", strings.Join(field.Choices, ", "), "--", "").Replace(values.Replace(f.Tag.Get("help")))
		if field.Default == "-1" { // which stands for a default that depends on the board
			field.Default, field.Least, field.Kind = "", 0, ask.Whole
			field.Help = strings.Replace(field.Help, "-1 is", "Default:", 1)
		}
		all = append(all, field)
	}
	for _, name := range []string{"lookahead", "fpu", "forced_playouts", "considered", "c_visit", "c_scale", "rescale", "gumbel_scale"} {
		f, _ := ask.Named(name, ask.Python)
		all = append(all, f)
	}
	return append(all, ask.Field{Name: "reuse", Kind: ask.Truth, Default: "false", Help: "Let the search of the next move keep what this one has found of its position, and add its visits; the noise is drawn anew. Not with gumbel."})
}

func named(f ask.Field, d ask.Door) bool { _, ok := ask.Named(f.Name, d); return ok }

// inPython says in Python's words what help says of flags.
func inPython(help string) string {
	return strings.NewReplacer("nodes, or =NODES,", "nodes (True), or a number of nodes,", "; =false is", "; False is", "Default: true, but false", "Default: True, but False",
		"; Default:", "; default:", "for temperature-plies", "for temperature_plies").Replace(help)
}

// title writes a truth value as Python does.
func title(b bool) string {
	if b {
		return "True"
	}
	return "False"
}

func pythonDefault(f ask.Field) string {
	switch {
	case f.Kind == ask.Choice && f.Default != "":
		return fmt.Sprintf("%q", f.Default)
	case f.Kind == ask.Truth && f.Default != "":
		return title(f.Default == "true")
	case f.Default != "":
		return f.Default
	case f.Kind == ask.Whole && f.Most == 1<<64:
		return "0"
	}
	return "None"
}

func pythonType(f ask.Field) string {
	kind := map[ask.Kind]string{ask.Whole: "int", ask.Number: "float", ask.Truth: "bool", ask.Choice: `Literal["` + strings.Join(f.Choices, `", "`) + `"]`, ask.Nodes: "int | bool"}[f.Kind]
	if pythonDefault(f) == "None" {
		kind += " | None"
	}
	return kind
}

// pythonCheck is the call that checks an argument's value.
func pythonCheck(f ask.Field, value string) string {
	call := fmt.Sprintf(`arguments.optional(arguments.%s, "%s", %s`, map[ask.Kind]string{ask.Whole: "count", ask.Number: "number", ask.Truth: "flag", ask.Choice: "text", ask.Nodes: "nodes"}[f.Kind], f.Name, value)
	if pythonDefault(f) != "None" {
		call = strings.Replace(call, "optional(arguments.", "", 1)
		call = strings.Replace(call, ", ", "(", 1)
	}
	switch f.Kind {
	case ask.Choice, ask.Nodes, ask.Truth:
		return call + ")"
	case ask.Number:
		return fmt.Sprintf("%s, %v, %v)", call, f.Least, f.Most)
	}
	most := fmt.Sprintf("%.0f", f.Most)
	if f.Most == 1<<64 {
		most = "MOST_SEED"
	}
	return fmt.Sprintf("%s, %.0f, %s)", call, f.Least, most)
}

// wrapped breaks a text into lines of at most width characters; all but the first are indented.
func wrapped(text string, width int, indent string) string {
	var all strings.Builder
	line := ""
	for i, word := range strings.Split(text, " ") {
		if i > 0 && len(line)+1+len(word) > width {
			all.WriteString(line + "\n")
			line = indent + word
			continue
		}
		if i > 0 {
			line += " "
		}
		line += word
	}
	return all.String() + line + "\n"
}

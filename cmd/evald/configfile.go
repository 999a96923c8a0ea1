package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"

	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/short"
)

// configFile is the path of a YAML file with values for flags that neither the command line nor the environment gives:
//
//	threads: 2          # for all commands
//	serve:              # for one
//	  http: :8000
//	  model: [default, mine.safetensors]
//	kaggle:
//	  serve: {at-once: 4}
type configFile string

// configReader passes values of the configuration file to kong. It reads the file when kong resolves the first flag.
type configReader struct {
	read   bool
	values map[string]any // by command, and within a command by flag
	err    error          // of reading the file
}

// Validate implements kong.Resolver; a file is checked when it is read.
func (*configReader) Validate(*kong.Application) error { return nil }

// Resolve implements kong.Resolver.
func (r *configReader) Resolve(c *kong.Context, parent *kong.Path, flag *kong.Flag) (any, error) {
	if !r.read {
		r.read, r.err = true, r.load(c)
	}
	if r.err != nil {
		return nil, nil // reported separately: kong would blame the first flag that it resolves
	}
	if inEnvironment(flag) {
		return nil, nil // the environment takes precedence over the file
	}
	section := r.values
	var found any
	for _, path := range c.Path {
		switch {
		case path.App != nil:
		case path.Command != nil:
			section, _ = section[path.Command.Name].(map[string]any)
		default:
			continue
		}
		if value, ok := section[flag.Name]; ok {
			if _, isSection := value.(map[string]any); !isSection {
				found = value // the innermost section wins
			}
		}
	}
	return found, nil
}

// load reads the file that the flag --config names.
func (r *configReader) load(c *kong.Context) error {
	var path string
	for _, flag := range c.Model.Flags {
		if value, ok := c.FlagValue(flag).(configFile); ok {
			path = string(value)
		}
	}
	if path == "" {
		return nil
	}
	text, err := durable.ReadSettings(path)
	if err != nil {
		return fmt.Errorf("--config: %w (it is a file of flags; a network's shape is --network)", err)
	}
	if err := decodeYAML(path, text, &r.values); err != nil {
		return fmt.Errorf("--config: %w", err)
	}
	if err := checkSection(newParser(new(cli), streams{}, nil).Model.Node, nil, r.values); err != nil {
		return fmt.Errorf("--config %s: %w", path, err)
	}
	return nil
}

// decodeYAML decodes the only document of a file into to, which stays unchanged if the file is empty. Errors begin with PATH:LINE.
func decodeYAML(path string, text []byte, to any) error {
	d := yaml.NewDecoder(bytes.NewReader(text))
	err := d.Decode(to)
	if err == nil {
		var second yaml.Node
		if err = d.Decode(&second); err == nil {
			return fmt.Errorf("%s:%d: a second document: the file has one; remove the line ---", path, second.Line)
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	why := short.To(err.Error(), 4*short.Most) // it may have several lines
	if m := yamlLine.FindStringSubmatch(why); m != nil {
		return fmt.Errorf("%s:%s: %s", path, m[1], why[len(m[0]):])
	}
	return fmt.Errorf("%s:1: %s", path, strings.TrimPrefix(why, "yaml: "))
}

var yamlLine = regexp.MustCompile(`^yaml: line (\d+): `)

// checkSection refuses names that are neither a command nor a flag, and converts single values to text, as on a command line.
func checkSection(node *kong.Node, at []string, section map[string]any) error {
	for name, value := range section {
		place := short.Text(strings.Join(append(slices.Clip(at), name), "."))
		child := slices.IndexFunc(node.Children, func(n *kong.Node) bool { return n.Name == name })
		inner, isSection := value.(map[string]any)
		switch {
		case child >= 0 && isSection:
			if err := checkSection(node.Children[child], append(slices.Clip(at), name), inner); err != nil {
				return err
			}
			continue
		case child >= 0 && value == nil: // an empty section
			continue
		case isSection:
			return fmt.Errorf("%s: there is no such command", place)
		case !hasFlag(node, name):
			return fmt.Errorf("%s: no command has the flag --%s", place, name)
		}
		text, err := asText(value)
		if err != nil {
			return fmt.Errorf("%s: %w", place, err)
		}
		section[name] = text
	}
	return nil
}

// hasFlag reports whether a command or one of its subcommands has a flag.
func hasFlag(node *kong.Node, name string) bool {
	return name != "help" && name != "version" && name != "config" &&
		(slices.ContainsFunc(node.Flags, func(f *kong.Flag) bool { return f.Name == name }) ||
			slices.ContainsFunc(node.Children, func(n *kong.Node) bool { return hasFlag(n, name) }))
}

func asText(value any) (any, error) {
	switch v := value.(type) {
	case []any:
		for _, one := range v {
			if _, isList := one.([]any); isList {
				return nil, errors.New("a list of lists")
			}
			if _, err := asText(one); err != nil {
				return nil, err
			}
		}
		return v, nil
	case string, bool, int, uint64, float64:
		return fmt.Sprint(v), nil
	}
	return nil, fmt.Errorf("%s is no text, number, true, false or list of these", short.Text(fmt.Sprint(value)))
}

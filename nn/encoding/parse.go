package encoding

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/evald/evald/engine/short"
)

// MetadataKey is the key of the description, in YAML, in a file's metadata_props.
const MetadataKey = "evald.description"

// maxText is far more than the bytes of any description.
const maxText = 1 << 16

// Parse parses a description in YAML, fills in omitted fields, and validates it. Unknown and repeated fields are errors.
func Parse(text []byte) (Description, error) {
	var d Description
	node, err := document(text)
	if err != nil {
		return d, fmt.Errorf("description: %w", err)
	}
	set := map[string]func(*yaml.Node) error{
		"rules": word(&d.Rules), "input": word(&d.Input), "layout": word(&d.Layout), "rows": word(&d.Rows), "mask": word(&d.Mask),
		"planes": d.readPlanes,
		"value": fields("value: ", map[string]func(*yaml.Node) error{
			"output": word(&d.Value.Output), "kind": word(&d.Value.Kind), "for": word(&d.Value.For),
		}),
		"policy": fields("policy: ", map[string]func(*yaml.Node) error{
			"output": word(&d.Policy.Output), "kind": word(&d.Policy.Kind), "actions": word(&d.Policy.Actions),
		}),
	}
	if err := fields("", set)(node); err != nil {
		return d, fmt.Errorf("description: %w", err)
	}
	d = d.withDefaults()
	return d, d.Validate()
}

// Marshal returns the description as YAML, which Parse can read.
func (d Description) Marshal() []byte {
	text, err := yaml.Marshal(d)
	if err != nil {
		panic(err) // cannot happen: all fields are texts
	}
	return text
}

// document parses a text that consists of one mapping. An empty text is an empty mapping.
func document(text []byte) (*yaml.Node, error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("the text has %d bytes, must have at most %d", len(text), maxText)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var node, more yaml.Node
	if err := decoder.Decode(&node); errors.Is(err, io.EOF) {
		return &yaml.Node{Kind: yaml.MappingNode}, nil
	} else if err != nil {
		return nil, errors.New(short.Text(err.Error()))
	}
	if err := decoder.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, errors.New("a second document follows: want one")
	}
	return node.Content[0], nil
}

// fields returns a parser of a mapping that calls the function of each field. Errors begin with prefix and the field's name.
func fields(prefix string, set map[string]func(*yaml.Node) error) func(*yaml.Node) error {
	return func(node *yaml.Node) error {
		if node.Kind != yaml.MappingNode {
			return fmt.Errorf("%sline %d: want fields with values", prefix, node.Line)
		}
		seen := map[string]bool{}
		for i := 0; i < len(node.Content); i += 2 {
			name := node.Content[i].Value
			read, known := set[name]
			if !known {
				return fmt.Errorf("%sfield %s: must be %s", prefix, short.Quote(name), names(set))
			}
			if seen[name] {
				return fmt.Errorf("%sfield %s is there twice", prefix, name)
			}
			seen[name] = true
			if err := read(node.Content[i+1]); err != nil {
				return fmt.Errorf("%s%s: %w", prefix, name, err)
			}
		}
		return nil
	}
}

// names lists the fields of set.
func names(set map[string]func(*yaml.Node) error) string {
	var all []string
	for name := range set {
		all = append(all, name)
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// word returns a parser of one word.
func word[T ~string](into *T) func(*yaml.Node) error {
	return func(node *yaml.Node) error {
		if node.Kind != yaml.ScalarNode || node.Tag == "!!null" || node.Value == "" {
			return fmt.Errorf("line %d: want one word, or leave the field out", node.Line)
		}
		*into = T(node.Value)
		return nil
	}
}

// readPlanes parses a list of planes, or one plane.
func (d *Description) readPlanes(node *yaml.Node) error {
	list := []*yaml.Node{node}
	if node.Kind == yaml.SequenceNode {
		list = node.Content
	}
	if len(list) == 0 {
		return fmt.Errorf("line %d: want a plane at least, or leave the field out", node.Line)
	}
	d.Planes = make([]string, len(list))
	for i, n := range list {
		if err := word(&d.Planes[i])(n); err != nil {
			return err
		}
	}
	return nil
}
